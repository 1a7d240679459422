#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Large layers in one process with PyTorch: gated pairs, grouped layers and mixtures of experts.

    bench/scripts/peers_large.py --library build/libcatenary.so              # on a GPU, needs torch
    bench/scripts/peers_large.py --library build/libcatenary.so --self-test  # the chains, in the simulator

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
EXPERTS = {"even": (4096, 4096, 4096, 4096), "skewed": (1024, 7168, 2560, 5632),
           "odd": (4001, 3999, 4211, 4173), "empty": (2048, 0, 3072, 1536, 4096, 0, 2560, 3072),
           "many": tuple(1 + (97 * e * e + 131 * e) % 300 for e in range(64))}


# ---- cases: a chain, and what stands in its parameters ------------------------------------------

class Case:
    """`labels`: of x, the weight and the result; `sizes`: of the labels. `epilogue`: "plain",
    "bias_silu" or "gated". `rows`: of experts, whose label is e. `shapes`: of the parameters by
    name, in order; the last one is the result's."""

    def __init__(self, name, labels, sizes, epilogue, rows=None):
        self.labels, self.epilogue, self.rows = labels, epilogue, rows
        x, w, y = (tuple(sizes[label] for label in one) for one in labels)
        weights = ("wg", "wu") if epilogue == "gated" else ("w",)
        self.shapes = {"x": x, **{one: w for one in weights}}
        if epilogue == "bias_silu":
            self.shapes["b"] = (sizes["g"], sizes["n"])
        if rows:
            self.shapes["ends"] = (sizes["e"],)
        self.shapes["y"] = y
        self.flops = 2.0 * len(weights) * math.prod(sizes.values()) / sizes.get("e", 1)
        self.scale = 1 / math.sqrt(sizes["k"])  # of weights
        self.name = f"{name}/{'x'.join(str(sizes[label]) for label in 'ebmgnk' if label in sizes)}"
        self.text = self.chain(weights)

    def chain(self, weights):
        kinds = {"x": "input", "ends": "input"}
        parameters = ", ".join(
            f"{kinds.get(name, 'weight')} {name}: {'i32' if name == 'ends' else 'bf16'}"
            f"[{', '.join(map(str, shape))}]" for name, shape in self.shapes.items() if name != "y")
        x, w, y = self.labels
        ragged = " ragged m by ends over e" if self.rows else ""
        products = [f'contract "{x},{w}->{y}"(x, {name}){ragged}' for name in weights]
        body = {"plain": f"  y = {products[0]}\n",
                "bias_silu": f'  h = {products[0]}\n  y = silu(add(h, b @ "gn"))\n',
                "gated": f"  g = {products[0]}\n  u = {products[-1]}\n  y = mul(silu(g), u)\n"}
        return f"chain large({parameters}) {{\n{body[self.epilogue]}  return y: bf16\n}}\n"

    def weights(self):
        return [name for name in self.shapes if name not in ("x", "ends", "y")]

    def ends(self):
        return list(itertools.accumulate(self.rows))


def swiglu(m, n, k):
    return Case("swiglu", ("mk", "nk", "mn"), {"m": m, "n": n, "k": k}, "gated")


def grouped(x, w, epilogue, b, g, n, k):
    name = "grouped" + ("" if epilogue == "plain" else f"_{epilogue}")
    name += ("" if x == "bgk" else f"_{x[:2]}k") + ("" if w == "gnk" else f"_{w}")
    return Case(name, (x, w, x.replace("k", "n")), {"b": b, "g": g, "n": n, "k": k}, epilogue)


def experts(kind, rows, n, k, epilogue):
    name = ("moe_gated_" if epilogue == "gated" else "moe_") + kind
    return Case(name, ("mk", "enk", "mn"), {"m": sum(rows), "e": len(rows), "n": n, "k": k},
                epilogue, rows)


def all_cases():
    cases = [swiglu(*shape) for shape in ((4096, 4096, 4096), (8192, 4096, 4096),
                                          (8192, 16384, 4096), (8192, 3072, 768),
                                          (512, 11008, 4096), (256, 14336, 4096))]
    cases += [grouped(x, w, epilogue, 2560, 12, 3072, 1024)
              for x, w in itertools.product(("bgk", "gbk"), ("gnk", "gkn"))
              for epilogue in ("plain", "bias_silu", "gated")]
    return cases + [experts(kind, rows, 14336, 4096, epilogue)
                    for epilogue in ("plain", "gated") for kind, rows in EXPERTS.items()]


# ---- on a GPU, with torch -----------------------------------------------------------------------

def products(torch, case):
    """Name -> product(x, w) of the case's kind, in the form that PyTorch has it."""
    linear = torch.nn.functional.linear
    if case.rows:
        ends = torch.tensor(case.ends(), dtype=torch.int32, device="cuda")
        starts = [0] + case.ends()

        def loop_of_experts(x, w):
            return torch.cat([linear(x[starts[e]:starts[e + 1]], w[e])
                              for e in range(len(case.rows))])

        grouped_mm = getattr(torch.nn.functional, "grouped_mm", None) or getattr(
            torch, "_grouped_mm", None)

        def by_grouped_mm(x, w):
            if grouped_mm is None:
                raise RuntimeError("this PyTorch has no grouped_mm")
            return grouped_mm(x, w.transpose(-2, -1), offs=ends)
        return {"loop of F.linear": loop_of_experts, "grouped_mm": by_grouped_mm}
    x_labels, w_labels, y_labels = case.labels
    if "g" not in x_labels:
        return {"F.linear": linear}
    at = x_labels.index("g")
    transposed = w_labels == "gnk"  # linear's own order

    def bmm(x, w):
        return torch.bmm(x.transpose(0, at), w.transpose(1, 2) if transposed else w).transpose(0, at)

    def loop_of_groups(x, w):
        return torch.stack([linear(x.select(at, g), w[g] if transposed else w[g].T)
                            for g in range(w.shape[0])], at)

    equation = f"{x_labels},{w_labels}->{y_labels}"
    return {"torch.bmm": bmm, "einsum": lambda x, w: torch.einsum(equation, x, w),
            "loop of F.linear": loop_of_groups}


def whole_layer(torch, case, product):
    """The case's layer of its tensors in order, by one of `products`."""
    silu = torch.nn.functional.silu
    if case.epilogue == "gated":
        return lambda x, wg, wu: silu(product(x, wg)) * product(x, wu)
    if case.epilogue == "bias_silu":
        rows_inside = case.labels[0][0] == "g"
        return lambda x, w, b: silu(product(x, w) + (b[:, None] if rows_inside else b))
    return product


def functions(torch, case):
    """Name -> how to make a function of the case's tensors. What has an epilogue is compiled too,
    but for loops and for einsum, which is torch.bmm then."""
    made = {}
    for name, product in products(torch, case).items():
        whole = whole_layer(torch, case, product)
        made[name] = lambda whole=whole: whole
        if case.epilogue != "plain" and name not in ("loop of F.linear", "einsum"):
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
        scale = case.scale if name.startswith("w") else 1
        made[name] = torch.randn(*shape, device="cuda", generator=generator,
                                 dtype=torch.bfloat16).mul_(scale)
    return made


def expected(torch, case, data):
    """In float64."""
    def product(x, w):
        if case.rows:
            starts = [0] + case.ends()
            return torch.cat([x[starts[e]:starts[e + 1]] @ w[e].double().T
                              for e in range(len(case.rows))])
        return torch.einsum("{},{}->{}".format(*case.labels), x, w.double())

    layer = whole_layer(torch, case, product)
    return layer(data["x"].double(), *(data[name] for name in case.weights()))


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

            def launch(i):
                with torch.no_grad():
                    return function(sets[i]["x"], *(sets[i][name] for name in case.weights()))
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
                    else numbers(count, seed + 1, case.scale))
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
    rows = (2, 0, 3)
    cases = [swiglu(3, 16, 32)]
    cases += [grouped(x, w, epilogue, 3, 2, 16, 32) for x, w in (("bgk", "gnk"), ("gbk", "gkn"))
              for epilogue in ("plain", "bias_silu", "gated")]
    cases += [experts("few", rows, 16, 32, epilogue) for epilogue in ("plain", "gated")]
    for case in cases:
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
