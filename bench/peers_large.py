#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Large layers in one process with PyTorch: gated pairs, grouped layers and mixtures of experts.

    bench/peers_large.py --library build/libcatenary.so              # on a GPU, needs torch
    bench/peers_large.py --library build/libcatenary.so --self-test  # the chains, in the simulator

Contenders are what PyTorch offers for each: eager calls, torch.bmm, the grouped product
(F.grouped_mm or torch._grouped_mm), a loop of F.linear over the experts, and torch.compile by mode
max-autotune-no-cudagraphs; Catenary runs over its C ABI. Each result is compared with float64
first; a contender that is wrong, or that this PyTorch does not have, is reported and not timed.
Then contenders take turns, A B A B, over SETS sets of tensors; the time is the median over the
rounds. The record lands in bench/results/<gpu>/peers-large-<date>.json; report.py makes the table.
Exit codes: 0 done, 1 a result was wrong or Catenary failed, 2 bad use, 3 no torch, no GPU or no
library.
"""
import ctypes
import fnmatch
import itertools
import math
import sys

from catenary_abi import DeviceTensor, Executable, numbers, reference
from peers import (OF_LARGEST, RELATIVE, common_options, differences, in_simulator, open_run, spread,
                   start, write_record)

SETS = 3  # of tensors in rotation: each is larger than an L2
BATCH_MS = 4.0
EVEN, SKEWED = (4096, 4096, 4096, 4096), (1024, 7168, 2560, 5632)


# ---- cases: a chain, and what stands in its parameters ------------------------------------------

class Case:
    """`shapes`: of the parameters by name, in order; the last name is the result's."""

    def __init__(self, name, text, shapes, flops, rows=None):
        self.name, self.text, self.shapes, self.flops, self.rows = name, text, shapes, flops, rows

    def ends(self):
        return list(itertools.accumulate(self.rows))


def chain(name, equation, shapes, gated, ragged=""):
    """`shapes`: of x, the weight and the result."""
    x, w, y = (", ".join(map(str, shape)) for shape in shapes)
    ends = f", input ends: i32[{shapes[1][0]}]" if ragged else ""
    weights = ("wg", "wu") if gated else ("w",)
    parameters = f"input x: bf16[{x}]" + "".join(f", weight {n}: bf16[{w}]" for n in weights)
    lines = [f'contract "{equation}"(x, {n}){ragged}' for n in weights]
    body = (f"  g = {lines[0]}\n  u = {lines[1]}\n  y = mul(silu(g), u)\n" if gated
            else f"  y = {lines[0]}\n")
    names = {"x": shapes[0], **{n: shapes[1] for n in weights}}
    if ragged:
        names["ends"] = (shapes[1][0],)
    names["y"] = shapes[2]
    return f"chain {name}({parameters}{ends}) {{\n{body}  return y: bf16\n}}\n", names


def swiglu(m, n, k):
    text, shapes = chain("swiglu", "mk,nk->mn", ((m, k), (n, k), (m, n)), True)
    return Case(f"swiglu/{m}x{n}x{k}", text, shapes, 4.0 * m * n * k)


def grouped(b, g, n, k, gated):
    text, shapes = chain("grouped", "bgk,gnk->bgn", ((b, g, k), (g, n, k), (b, g, n)), gated)
    name = "grouped_gated" if gated else "grouped"
    return Case(f"{name}/{b}x{g}x{n}x{k}", text, shapes, (4.0 if gated else 2.0) * b * g * n * k)


def experts(kind, rows, n, k, gated):
    m, e = sum(rows), len(rows)
    text, shapes = chain("moe", "mk,enk->mn", ((m, k), (e, n, k), (m, n)), gated,
                         " ragged m by ends over e")
    name = "moe_gated" if gated else "moe"
    return Case(f"{name}_{kind}/{e}x{m}x{n}x{k}", text, shapes,
                (4.0 if gated else 2.0) * m * n * k, rows)


def all_cases():
    cases = [swiglu(*shape) for shape in ((8192, 4096, 4096), (512, 11008, 4096),
                                          (256, 14336, 4096), (8192, 3072, 768))]
    cases += [grouped(2560, 12, 3072, 1024, gated) for gated in (False, True)]
    cases += [experts(kind, rows, 14336, 4096, gated) for gated in (False, True)
              for kind, rows in (("even", EVEN), ("skewed", SKEWED))]
    return cases


# ---- on a GPU, with torch -----------------------------------------------------------------------

def products(torch, case):
    """Name -> product(x, w) of the case's kind, in the form that PyTorch has it."""
    linear = torch.nn.functional.linear
    if case.rows:
        ends = torch.tensor(case.ends(), dtype=torch.int32, device="cuda")
        starts = [0] + case.ends()

        def loop(x, w):
            return torch.cat([linear(x[starts[e]:starts[e + 1]], w[e])
                              for e in range(len(case.rows))])

        grouped_mm = getattr(torch.nn.functional, "grouped_mm", None) or getattr(
            torch, "_grouped_mm", None)

        def by_grouped_mm(x, w):
            if grouped_mm is None:
                raise RuntimeError("this PyTorch has no grouped_mm")
            return grouped_mm(x, w.transpose(-2, -1), offs=ends)
        return {"loop of F.linear": loop, "grouped_mm": by_grouped_mm}
    if "grouped" in case.name:
        return {"torch.bmm": lambda x, w: torch.bmm(x.transpose(0, 1),
                                                    w.transpose(1, 2)).transpose(0, 1),
                "einsum": lambda x, w: torch.einsum("bgk,gnk->bgn", x, w)}
    return {"F.linear": linear}


def gate(torch, product):
    return lambda x, wg, wu: torch.nn.functional.silu(product(x, wg)) * product(x, wu)


def functions(torch, case):
    """Name -> how to make a function of the case's tensors. What is gated is compiled too."""
    gated = "wg" in case.shapes
    made = {}
    for name, product in products(torch, case).items():
        whole = gate(torch, product) if gated else product
        made[name] = lambda whole=whole: whole
        if gated and not name.startswith("loop"):
            made[f"{name}, torch.compile"] = lambda whole=whole: compiled(torch, whole)
    return made


def compiled(torch, whole):
    torch.compiler.reset()
    return torch.compile(whole, mode="max-autotune-no-cudagraphs", dynamic=False)


def tensors(torch, case, seed):
    generator = torch.Generator(device="cuda").manual_seed(seed)
    made = {}
    for name, shape in case.shapes.items():
        if name == "ends":
            made[name] = torch.tensor(case.ends(), dtype=torch.int32, device="cuda")
            continue
        scale = 1 / math.sqrt(shape[-1]) if name.startswith("w") else 1
        made[name] = torch.randn(*shape, device="cuda", generator=generator,
                                 dtype=torch.bfloat16).mul_(scale)
    return made


def expected(torch, case, data):
    """In float64, over the first weights and rows of each kind of tensor."""
    def product(x, w):
        if case.rows:
            starts = [0] + case.ends()
            return torch.cat([x[starts[e]:starts[e + 1]].double() @ w[e].double().T
                              for e in range(len(case.rows))])
        if "grouped" in case.name:
            return torch.einsum("bgk,gnk->bgn", x.double(), w.double())
        return x.double() @ w.double().T
    if "wg" not in data:
        return product(data["x"], data["w"])
    g = product(data["x"], data["wg"])
    return g.mul_(torch.sigmoid(g)).mul_(product(data["x"], data["wu"]))


class Contender:
    """launch(i) works on set i and returns the result."""

    def __init__(self, name, launch):
        self.name, self.launch, self.times, self.count, self.cursor = name, launch, [], 1, 0

    def batch(self, torch):
        """Microseconds per launch, behind an untimed one."""
        start = torch.cuda.Event(enable_timing=True)
        stop = torch.cuda.Event(enable_timing=True)
        self.launch(self.cursor % SETS)
        start.record()
        for _ in range(self.count):
            self.cursor += 1
            self.launch(self.cursor % SETS)
        stop.record()
        stop.synchronize()
        return 1e3 * start.elapsed_time(stop) / self.count


def wrong(torch, launch, want):
    """What is wrong with set 0's result: a sentence, or None."""
    got = launch(0).double()
    torch.cuda.synchronize()
    # A library rounds the two products of a gated pair to bf16 before it multiplies them.
    far = (got - want).abs() > 2 * RELATIVE * want.abs() + OF_LARGEST * want.abs().max()
    far |= got.isnan()
    return f"{int(far.sum())} of {far.numel()} elements are wrong" if far.any() else None


def makers(torch, catenary, case, sets):
    """Name -> how to make the contender's launch; Catenary's last."""
    def of_torch(make):
        def made():
            function = make()
            weights = ("wg", "wu") if "wg" in case.shapes else ("w",)

            def launch(i):
                with torch.no_grad():
                    return function(sets[i]["x"], *(sets[i][name] for name in weights))
            return launch
        return made

    def ours():
        executable = Executable(catenary, case.text)
        workspace = torch.empty(max(executable.workspace_bytes, 256), dtype=torch.uint8,
                                device="cuda")

        def launch(i):
            executable.launch([t.data_ptr() for t in sets[i].values()], workspace.data_ptr(),
                              torch.cuda.current_stream().cuda_stream, False)
            return sets[i]["y"]
        for data in sets:
            data["y"].fill_(math.nan)
        return launch

    made = {name: of_torch(make) for name, make in functions(torch, case).items()}
    return {**made, "catenary": ours}


def run_case(torch, catenary, case, rounds):
    sets = [tensors(torch, case, seed) for seed in range(SETS)]
    want = expected(torch, case, sets[0])
    row = {"case": case.name, "flops": case.flops, "times": {}, "problems": {}}
    contenders = []
    for name, make in makers(torch, catenary, case, sets).items():
        try:
            launch = make()
            problem = wrong(torch, launch, want)
            if not problem:
                contender = Contender(name, launch)
                contender.batch(torch)
                contender.count = max(1, math.ceil(BATCH_MS * 1e3 / contender.batch(torch)))
                contenders.append(contender)
        except Exception as error:  # one contender's failure is a line of the record
            problem = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        if problem:
            row["problems"][name] = problem
    for _ in range(rounds):
        for contender in contenders:
            contender.times.append(contender.batch(torch))
    for contender in contenders:
        row["times"][contender.name] = spread(contender.times)
    return row


def run(options):
    opened = open_run(options, "peers-large", large_peers=[])
    if opened is None:
        return 3
    torch, catenary, out, record = opened
    code = 0
    for case in all_cases():
        if not any(fnmatch.fnmatch(case.name, one) for one in options.cases):
            continue
        row = run_case(torch, catenary, case, options.rounds)
        torch.cuda.empty_cache()
        # What PyTorch lacks or refuses is noted; a wrong result is a failure, whoever's it is.
        code = code or int("catenary" in row["problems"]
                           or any("are wrong" in text for text in row["problems"].values()))
        record["large_peers"].append(row)
        write_record(record, out)
        cells = "  ".join(f"{name} {time['us']:.1f}" for name, time in row["times"].items())
        print(f"{case.name:<32} {cells}", flush=True)
        for name, problem in row["problems"].items():
            print(f"  {name}: {problem}", flush=True)
    print(f"wrote {out}", file=sys.stderr)
    return code


# ---- without a GPU ------------------------------------------------------------------------------

def self_test_case(catenary, case):
    executable = Executable(catenary, case.text)
    workspace = DeviceTensor(catenary, (ctypes.c_uint8 * max(executable.workspace_bytes, 256))())
    host = []
    for seed, (name, shape) in enumerate(case.shapes.items()):
        count = math.prod(shape)
        host.append((ctypes.c_int32 * count)(*case.ends()) if name == "ends"
                    else (ctypes.c_uint16 * count)(*[0x7FC0] * count) if name == "y"
                    else numbers(count, seed + 1, 1 / math.sqrt(shape[-1])))
    device = [DeviceTensor(catenary, data) for data in host]
    reference(catenary, case.text, host)
    stream = catenary.made("ctn_stream_create", 0)
    executable.launch([t.address.value for t in device], workspace.address, stream, False)
    catenary.call("ctn_stream_synchronize", 0, stream)
    got = (ctypes.c_uint16 * len(host[-1]))()
    device[-1].download(got)
    assert differences(got, host[-1]) == 0, f"{case.text} is wrong"
    for tensor in device + [workspace]:
        tensor.close()
    catenary.lib.ctn_stream_destroy(0, stream)
    executable.close()


def check_everything(catenary):
    names = [case.name for case in all_cases()]
    assert len(names) == len(set(names)), names
    for case in (swiglu(3, 16, 32), grouped(3, 2, 16, 32, False), grouped(3, 2, 16, 32, True),
                 experts("few", (2, 0, 3), 16, 32, False), experts("few", (2, 0, 3), 16, 32, True)):
        self_test_case(catenary, case)


def self_test(options):
    return in_simulator(options, check_everything, "the chains are right in the simulator")


def main(arguments):
    parser = common_options(__doc__)
    parser.add_argument("--cases", type=lambda text: text.split(","), default=["*"],
                        help="comma-separated shell patterns")
    return start(parser.parse_args(arguments), run, self_test)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
