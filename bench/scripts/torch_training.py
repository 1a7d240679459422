#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training steps of layers: PyTorch eager, batched and compiled, and Catenary, in turns in one process.

    bench/scripts/torch_training.py                                   # all rows; needs a GPU
    bench/scripts/torch_training.py --rows 'grouped*,gelu*' --peers eager,batched
    bench/scripts/torch_training.py --scale 64 --out FILE             # tiny sizes, on the CPU too: that it runs

A step is the forward, then the gradients of x and of every parameter, bf16. Every result is compared with float64
first; a contender that is wrong or fails is a line of the record. Contenders take turns, each round in another order; a
time is the median over the rounds. Half of a turn is not timed: the card's clock then is that of the contender's own power. Each phase of a step is a CUDA graph, and device events are between the phases, so forward and
backward are timed apart and together. `held`: bytes that the forward leaves for the backward, beside its result, and
`peak`, of the whole step, by the allocator's counts. Contenders:

    eager               F.linear, for grouped layers and experts in a loop
    batched             bmm, grouped_mm
    compile             torch.compile of the batched form, max-autotune-no-cudagraphs
    catenary            the chain by catenary.torch and autograd, which saves what the forward stores anyway
    catenary none       the same, recompute="none": only results of products are saved
    catenary recompute  the same, recompute="all": x and the parameters are all that is saved
    catenary chains     its gradient chains by the core package: forward, dgrad, wgrad as phases
    products            the products of the step by torch.mm and bmm, and nothing else: a bound, no peer

The record is bench/results/<gpu>/training-<date>.json, written after each row; report.py makes the tables. Exit codes:
0 done, 1 a result of Catenary was wrong or it failed, 3 no GPU.
"""
import argparse
import datetime
import fnmatch
import functools
import gc
import math
import pathlib
import random
import statistics
import sys
import time
import traceback

import torch

import catenary
import catenary.torch as ct
from catenary import GradientKind as Kind
from peers import commit, gpu_folder, quantile, write_record
from training_rows import all_rows

RESULTS = pathlib.Path(__file__).resolve().parents[1] / "results"
PEERS = ("eager", "batched", "compile")
OURS = ("catenary", "catenary none", "catenary recompute", "catenary chains")
BOUNDS = ("products",)
RECOMPUTE = {"catenary none": "none", "catenary recompute": "all"}
MODE = "max-autotune-no-cudagraphs"
# Allowed errors against float64, of bf16 values between the products: the root mean square of the error over that of
# the result, and the largest error over the largest element. A wrong tile is far above both.
RMS, LARGEST = 0.02, 0.06
WARM_UPS = 3


def on_gpu():
    return torch.cuda.is_available()


def synchronize():
    if on_gpu():
        torch.cuda.synchronize()


# ---- steps: the phases of a contender -----------------------------------------------------------

class AutogradStep:
    """A function of the tensors, and its backward by autograd."""

    def __init__(self, function, tensors, dy):
        self.function, self.dy = function, dy
        self.tensors = [t.detach().requires_grad_(t.is_floating_point()) for t in tensors]
        self.leaves = [t for t in self.tensors if t.requires_grad]
        self.phases = {"forward": self.forward, "backward": self.backward}
        self.y, self.gradients = None, None

    def forward(self):
        self.y, self.gradients = None, None
        self.y = self.function(*self.tensors)

    def backward(self):
        self.gradients = torch.autograd.grad(self.y, self.leaves, self.dy)
        self.y = self.y.detach()

    def results(self):
        return [self.y, *self.gradients]


class ChainsStep:
    """The chains of a gradient, each a phase. Results and saved values have fixed addresses."""

    def __init__(self, text, tensors, dy):
        chain = catenary.Chain.parse(text)
        self.made = catenary.gradient(chain)
        self.shapes = [t.shape for t in tensors]
        self.values = {("parameter", i): t for i, t in enumerate(tensors)} | {("of_output", 0): dy}
        self.layouts = {}
        self.phases, self.kernels = {}, {}
        for part in self.made.chains:
            executable = catenary.default_engine().prepare(part.chain)
            name = part.pass_.name
            self.kernels[name] = kernel_lines(executable)
            self.phases[name] = functools.partial(self.run, part, executable)
            self.allocate(part, tensors[0].device)

    @staticmethod
    def name_of(operand):
        return "parameter" if operand.kind in (Kind.input, Kind.weight) else operand.kind.name, operand.index

    def allocate(self, part, device):
        for operand in part.operands:
            name = self.name_of(operand)
            if operand.is_output and name not in self.values:
                dtype = {"bf16": torch.bfloat16, "f32": torch.float32}[operand.dtype.name]
                self.values[name] = torch.empty_strided(operand.shape, operand.strides, dtype=dtype, device=device)
                self.layouts[name] = operand.parameter_dims

    def run(self, part, executable):
        inputs = [self.values[self.name_of(o)] for o in part.operands if not o.is_output]
        outputs = [self.values[self.name_of(o)] for o in part.operands if o.is_output]
        executable(*inputs, out=outputs)

    def results(self):
        found = [self.values["output", 0]]
        for i, shape in enumerate(self.shapes):
            for kind in ("of_input", "of_weight"):
                if (kind, i) in self.values:
                    dims = self.layouts[kind, i]
                    found.append(self.values[kind, i].permute([dims.index(d) for d in sorted(dims)]).reshape(shape))
        return found


class ProductsStep:
    """For each product of the layer its result, and the gradients of both operands; values between are random. Its
    results are those of no layer: they are not compared."""

    def __init__(self, row, tensors):
        values = dict(zip(row.shapes, tensors))
        generator = torch.Generator(device=tensors[0].device).manual_seed(2)
        forward, backward, self.flops = [], [], 0.0
        for name, weight in row.products:
            w = values[weight]
            lead = values["x"].shape[:-1]

            def value(name, width):
                if name not in values:
                    values[name] = torch.randn(*lead, width, device=w.device, dtype=w.dtype, generator=generator)
                return values[name].transpose(0, 1) if w.dim() == 3 else values[name]
            x, dy = value(name, w.shape[-1]), value(f"d_{weight}", w.shape[-2])
            forward.append((x, w.mT))
            backward += [(dy, w), (dy.mT, x)]
            self.flops += 6.0 * x.numel() * w.shape[-2]
        multiply = torch.bmm if row.products and values[row.products[0][1]].dim() == 3 else torch.mm
        self.phases = {"forward": functools.partial(self.run, multiply, forward),
                       "backward": functools.partial(self.run, multiply, backward)}

    def run(self, multiply, pairs):
        for a, b in pairs:
            multiply(a, b)

    def results(self):
        return []


def kernel_lines(executable):
    """What `catenary explain` says of each kernel."""
    kernels = executable.explain().data["buckets"][0]["kernels"]
    return [{"family": kernel["family"], "config": kernel["config"], "values": kernel["values"],
             "predicted_us": round(kernel["predicted"]["us"], 2)} for kernel in kernels]


def make_step(name, row, tensors, dy):
    if name == "catenary chains":
        return ChainsStep(row.text, tensors, dy)
    if name in BOUNDS:
        return ProductsStep(row, tensors)
    if name in OURS:
        function = ct.chain(row.text, recompute=RECOMPUTE.get(name, "unstored"))
    else:
        function = row.forms[name]
    if name == "compile":
        torch.compiler.reset()
        function = torch.compile(function, mode=MODE, dynamic=False)
    return AutogradStep(function, tensors, dy)


# ---- one contender ------------------------------------------------------------------------------

class Contender:
    """A step that has compiled; `capture` makes graphs of its phases."""

    def __init__(self, name, step):
        self.name, self.step = name, step
        self.runs = step.phases
        self.stream = torch.cuda.Stream() if on_gpu() else None
        self.times = {phase: [] for phase in step.phases}
        start = time.perf_counter()
        self.once()
        self.first_call_s = time.perf_counter() - start

    def once(self):
        """All phases on the contender's stream, without graphs."""
        if self.stream is None:
            for run in self.step.phases.values():
                run()
            return
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for run in self.step.phases.values():
                run()
        torch.cuda.current_stream().wait_stream(self.stream)
        torch.cuda.synchronize()

    def memory(self):
        """Bytes by the allocator: what the forward leaves beside its result, and the most within a step."""
        if self.stream is None or not isinstance(self.step, AutogradStep):
            return {}
        self.step.y = self.step.gradients = None
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        with torch.cuda.stream(self.stream):
            self.step.forward()
            torch.cuda.synchronize()
            result = self.step.y.numel() * self.step.y.element_size()
            held = torch.cuda.memory_allocated() - before - result
            self.step.backward()
        torch.cuda.synchronize()
        return {"held_bytes": held, "peak_bytes": torch.cuda.max_memory_allocated() - before}

    def capture(self):
        """A graph per phase, in one pool: they are replayed in this order only."""
        if self.stream is None:
            return
        for _ in range(WARM_UPS):
            self.once()
        pool = torch.cuda.graph_pool_handle()
        self.runs = {}
        for phase, run in self.step.phases.items():
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool, stream=self.stream):
                run()
            self.runs[phase] = graph.replay

    def turn(self, count):
        """Microseconds of each phase, the mean over `count` steps in a row, after as many that are not timed."""
        if self.stream is None:
            marks = [time.perf_counter()]
            for run in self.runs.values():
                run()
                marks.append(time.perf_counter())
            return [1e6 * (b - a) for a, b in zip(marks, marks[1:])]
        for _ in range(count):
            for run in self.runs.values():
                run()
        steps = [[torch.cuda.Event(enable_timing=True) for _ in range(len(self.runs) + 1)] for _ in range(count)]
        for events in steps:
            events[0].record()
            for run, event in zip(self.runs.values(), events[1:]):
                run()
                event.record()
        torch.cuda.synchronize()
        return [1e3 * statistics.fmean(events[i].elapsed_time(events[i + 1]) for events in steps)
                for i in range(len(self.runs))]

    def add_turn(self, count):
        for phase, us in zip(self.runs, self.turn(count)):
            self.times[phase].append(us)

    def entry(self):
        steps = [sum(phases) for phases in zip(*self.times.values())]
        return {"us": round(quantile(steps, 0.5), 2), "p10": round(quantile(steps, 0.1), 2),
                "p90": round(quantile(steps, 0.9), 2),
                "phases": {phase: round(quantile(times, 0.5), 2) for phase, times in self.times.items()}}


def expected(row, tensors, dy):
    """Result and gradients in float64, kept as f32."""
    exact = [t.double() if t.is_floating_point() else t for t in tensors]
    step = AutogradStep(row.forms["eager"], exact, dy.double())
    step.forward()
    step.backward()
    return [t.float() for t in step.results()]


def error_of(got, want):
    """The largest over the results: root mean square of the error over that of the result, largest over largest."""
    worst = [0.0, 0.0]
    for a, b in zip(got, want, strict=True):
        if a.shape != b.shape:
            raise RuntimeError(f"a result has shape {tuple(a.shape)}, not {tuple(b.shape)}")
        difference = a.float() - b
        found = (difference.norm() / b.norm(), difference.abs().max() / b.abs().max())
        worst = [max(w, math.inf if f.isnan() else float(f)) for f, w in zip(found, worst)]
    return worst


def check(step, want, entry):
    """A sentence if the results are wrong, else None."""
    rms, largest = error_of(step.results(), want)
    entry |= {"error_rms": rms, "error_of_largest": largest}
    if rms <= RMS and largest <= LARGEST:
        return None
    return f"wrong: the error is {rms:.2g} of the root mean square, {largest:.2g} of the largest element"


def poison(step):
    """NaN in all results, so that what is not written shows."""
    for result in step.results():
        result.fill_(float("nan"))


def ready(name, row, tensors, dy, want, entry):
    """The contender, compared before and after the capture. Raises if it is wrong."""
    contender = Contender(name, make_step(name, row, tensors, dy))
    entry["first_call_s"] = round(contender.first_call_s, 3)
    entry |= contender.memory()
    if isinstance(contender.step, ProductsStep):
        contender.capture()
        return contender
    if isinstance(contender.step, ChainsStep):
        entry |= {"saved_bytes": contender.step.made.saved_bytes, "kernels": contender.step.kernels}
    problem = check(contender.step, want, entry)
    if problem is None:
        contender.capture()
        poison(contender.step)
        for run in contender.runs.values():
            run()
        synchronize()
        problem = check(contender.step, want, entry)
    if problem:
        raise RuntimeError(problem)
    return contender


# ---- rows ---------------------------------------------------------------------------------------

def measure(row, names, options, device):
    tensors = list(row.tensors(device).values())
    with torch.no_grad():
        shape = row.forms["eager"](*tensors).shape
    generator = torch.Generator(device=device).manual_seed(1)
    dy = torch.randn(*shape, device=device, dtype=torch.bfloat16, generator=generator)
    want = expected(row, tensors, dy)
    if on_gpu():
        torch.cuda.empty_cache()
    line = {"row": row.name, "flops": row.flops, "contenders": {}, "problems": {}}
    contenders = []
    for name in names:
        if name in PEERS and name not in row.forms or name in BOUNDS and not row.products:
            continue
        entry = {}
        try:
            contenders.append(ready(name, row, tensors, dy, want, entry))
            line["contenders"][name] = entry
        except Exception as error:  # one contender's failure is a line of the record
            line["problems"][name] = f"{type(error).__name__}: {str(error).strip()}"[:600]
            if options.traceback:
                traceback.print_exc()
    for contender in contenders:
        contender.count = max(1, round(options.round_ms * 1e3 / max(sum(contender.turn(1)), 1)))
    order = random.Random(1)
    for _ in range(options.rounds):
        for contender in order.sample(contenders, len(contenders)):
            contender.add_turn(contender.count)
    for contender in contenders:
        line["contenders"][contender.name] |= contender.entry()
    return line


def show(line):
    for name, entry in line["contenders"].items():
        phases = "  ".join(f"{phase} {us:.1f}" for phase, us in entry["phases"].items())
        held = f"  held {entry['held_bytes'] / 2 ** 20:.1f} MiB" if "held_bytes" in entry else ""
        error = f"error {entry['error_rms']:.1e}" if "error_rms" in entry else "not compared"
        print(f"  {name:19} {entry['us']:10.1f} us  {line['flops'] / entry['us'] * 1e-6:6.1f} TFLOP/s  {phases}{held}  "
              f"{error}  first call {entry['first_call_s']:.1f} s", flush=True)
    for name, problem in line["problems"].items():
        print(f"  {name}: {problem}", flush=True)


def run(options):
    device = "cuda" if on_gpu() else "cpu"
    gpu = torch.cuda.get_device_name() if on_gpu() else "CPU"
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    out = options.out or RESULTS / gpu_folder(gpu) / f"training-{now}.json"
    record = {"device": gpu, "torch": torch.__version__, "cuda": torch.version.cuda, "catenary": catenary.__version__,
              "commit": options.commit or commit(), "date": now, "mode": MODE, "rounds": options.rounds,
              "quick": options.scale != 1, "training": []}
    names = [*options.peers, *options.ours, *options.bounds]
    code, begin = 0, time.monotonic()
    for row in all_rows(options.scale):
        if not any(fnmatch.fnmatch(row.name, pattern) for pattern in options.rows):
            continue
        if options.no_row_after and time.monotonic() - begin > options.no_row_after:
            print(f"{row.name}: not started, {options.no_row_after} s have passed", flush=True)
            continue
        print(row.name, flush=True)
        try:
            line = measure(row, names, options, device)
        except Exception as error:  # one row's failure does not lose the others
            line = {"row": row.name, "flops": row.flops, "contenders": {},
                    "problems": {"row": f"{type(error).__name__}: {str(error).strip()}"[:600]}}
            if options.traceback:
                traceback.print_exc()
        show(line)
        code = code or int(any(name not in (*PEERS, *BOUNDS) for name in line["problems"]))
        record["training"].append(line)
        write_record(record, out)
        gc.collect()
        if on_gpu():
            torch.cuda.empty_cache()
    print(f"wrote {out}", file=sys.stderr)
    return code


def listed(allowed):
    def parse(text):
        names = [name for name in text.split(",") if name]
        for name in names:
            if name not in allowed:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(allowed)}")
        return names
    return parse


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=lambda text: text.split(","), default=["*"],
                        help="comma-separated shell patterns")
    parser.add_argument("--peers", type=listed(PEERS), default=list(PEERS),
                        help=f"of {', '.join(PEERS)}; to compile a row takes minutes")
    parser.add_argument("--ours", type=listed(OURS), default=list(OURS), help=f"of {', '.join(OURS)}")
    parser.add_argument("--bounds", type=listed(BOUNDS), default=list(BOUNDS), help=f"of {', '.join(BOUNDS)}")
    parser.add_argument("--out", type=pathlib.Path, help="the record (default: results/<gpu>/)")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--round-ms", type=float, default=30, help="of one contender in one round")
    parser.add_argument("--no-row-after", type=float, default=0, metavar="S", help="seconds after which no row starts")
    parser.add_argument("--scale", type=int, default=1, help="divides sizes: a test of this script, left out of tables")
    parser.add_argument("--commit", help="commit to record (default: git's)")
    parser.add_argument("--traceback", action="store_true", help="print where a contender failed")
    options = parser.parse_args(arguments)
    if not on_gpu() and options.scale == 1:
        print("torch sees no GPU: pass --scale 64 --out FILE for a test of the script", file=sys.stderr)
        return 3
    return run(options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
