#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small batches in one process with PyTorch: F.linear, torch.compile and Catenary over its C ABI.

    bench/scripts/peers.py --library build/libcatenary.so            # on a GPU, needs torch
    bench/scripts/peers.py --library build/libcatenary.so --self-test  # the C-ABI part, in the simulator

y[M, N] = x[M, K] w[N, K]^T in bf16, plain and with bias and SiLU. Each contender is a CUDA graph of
100 launches over 100 weights, inputs and outputs. Results are compared with float64 first; a wrong
contender is reported and not timed. Then contenders take turns, A B A B, and the time is the median
over the rounds. torch.compile runs by mode max-autotune-no-cudagraphs: the kernels of max-autotune,
in this script's graphs instead of its own. Catenary is timed with plain and with programmatic
launches. The record lands in bench/results/<gpu>/peers-<date>.json; report.py makes the table.
Exit codes: 0 done, 1 a result was wrong or a contender failed, 2 bad use, 3 no torch, no GPU or no
library.
"""
import argparse
import ctypes
import datetime
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

from catenary_abi import (Catenary, CatenaryError, DeviceTensor, Executable, chain_text, from_bf16,
                          numbers, reference, to_bf16)

ROOT = pathlib.Path(__file__).resolve().parent
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
LAUNCHES = 100
BATCH_MS = 2.0
# Of float64 sums of bf16 numbers: f32 sums and the last rounding, which is half of 2^-8.
RELATIVE, ABSOLUTE = 2.0 ** -7, 1e-3
# A library may round the parts of a K split to bf16: of the largest element of the result.
OF_LARGEST = 4e-3


# ---- statistics and the record ------------------------------------------------------------------

def quantile(values, q):
    """Linear between the two nearest values."""
    ordered = sorted(values)
    at = q * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def spread(values):
    return {"us": round(quantile(values, 0.5), 4), "p10": round(quantile(values, 0.1), 4),
            "p90": round(quantile(values, 0.9), 4)}


def bytes_moved(m, n, k, bias_silu):
    """Each input and weight once, the output once."""
    return 2 * (m * k + n * k + m * n + (n if bias_silu else 0))


def commit():
    try:
        command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12",
                   "--exclude=*"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def gpu_folder(device):
    """"NVIDIA H200" -> "h200", as `catenary bench` names its folders."""
    words = [word for word in device.lower().split() if any(c.isdigit() for c in word)]
    return words[0].split("-")[0] if words else device.lower().replace(" ", "-")


def write_record(record, out):
    out.parent.mkdir(parents=True, exist_ok=True)
    draft = out.with_name(f"{out.name}.{os.getpid()}.tmp")
    draft.write_text(json.dumps(record, indent=1) + "\n")
    os.replace(draft, out)


# ---- on a GPU, with torch -----------------------------------------------------------------------

class Case:
    """One shape with its tensors: LAUNCHES of each, in the order of the rotation."""

    def __init__(self, torch, weights, m, n, k, bias_silu):
        generator = torch.Generator(device="cuda").manual_seed(m)
        random = lambda *shape: torch.randn(*shape, device="cuda", generator=generator,
                                            dtype=torch.float32).to(torch.bfloat16)
        self.m, self.n, self.k, self.bias_silu = m, n, k, bias_silu
        self.w = weights
        self.x = [random(m, k) for _ in range(LAUNCHES)]
        self.b = [random(n) for _ in range(LAUNCHES)] if bias_silu else None
        self.y = [torch.full((m, n), math.nan, device="cuda", dtype=torch.bfloat16)
                  for _ in range(LAUNCHES)]

    def inputs(self, i):
        return (self.x[i], self.w[i]) + ((self.b[i],) if self.bias_silu else ())

    def reference(self, torch, i):
        y = self.x[i].double() @ self.w[i].double().T
        return torch.nn.functional.silu(y + self.b[i].double()) if self.bias_silu else y


def eager(torch, bias_silu):
    linear, silu = torch.nn.functional.linear, torch.nn.functional.silu
    if bias_silu:
        return lambda x, w, b: silu(linear(x, w, b))
    return lambda x, w: linear(x, w)


class Contender:
    """A graph of LAUNCHES launches and where launch i leaves its result."""

    def __init__(self, name, torch, launch):
        self.name = name
        self.results = [None] * LAUNCHES
        self.times = []
        for i in (0, 1, 2):  # compiles and autotunes before the capture
            launch(i)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for i in range(LAUNCHES):
                self.results[i] = launch(i)
        self.replays = 1

    def batch(self, torch):
        """Microseconds per launch over `replays` graphs, behind an untimed one."""
        start = torch.cuda.Event(enable_timing=True)
        stop = torch.cuda.Event(enable_timing=True)
        self.graph.replay()
        start.record()
        for _ in range(self.replays):
            self.graph.replay()
        stop.record()
        stop.synchronize()
        return 1e3 * start.elapsed_time(stop) / (self.replays * LAUNCHES)


def wrong(torch, case, contender):
    """What is wrong with a replay's results: a sentence, or None."""
    for y in contender.results:
        y.fill_(math.nan)
    contender.graph.replay()
    torch.cuda.synchronize()
    for i in (0, 1, LAUNCHES // 2, LAUNCHES - 1):
        want = case.reference(torch, i)
        limit = RELATIVE * want.abs() + OF_LARGEST * want.abs().max()
        far = (contender.results[i].double() - want).abs() > limit
        far |= contender.results[i].isnan()
        if far.any():
            return f"launch {i}: {int(far.sum())} of {far.numel()} elements are wrong"
    return None


def makers(torch, catenary, case, executable, workspace):
    """Name -> how to make the contender's launch."""
    def ours(overlap):
        def launch(i):
            tensors = [t.data_ptr() for t in case.inputs(i)] + [case.y[i].data_ptr()]
            executable.launch(tensors, workspace.data_ptr(),
                              torch.cuda.current_stream().cuda_stream, overlap)
            return case.y[i]
        return launch

    def torch_launch(function):
        return lambda i: function(*case.inputs(i))

    def compiled():
        torch.compiler.reset()
        return torch.compile(eager(torch, case.bias_silu), mode="max-autotune-no-cudagraphs",
                             dynamic=False, fullgraph=True)

    return {"F.linear": lambda: torch_launch(eager(torch, case.bias_silu)),
            "torch.compile": lambda: torch_launch(compiled()),
            "catenary": lambda: ours(False),
            "catenary overlapped": lambda: ours(True)}


def run_case(torch, catenary, weights, shape, rounds):
    m, n, k, bias_silu = shape
    case = Case(torch, weights, m, n, k, bias_silu)
    executable = Executable(catenary, chain_text(m, n, k, bias_silu))
    workspace = torch.empty(max(executable.workspace_bytes, 256), dtype=torch.uint8, device="cuda")
    row = {"m": m, "n": n, "k": k, "bias_silu": bias_silu, "times": {}, "problems": {},
           "bytes": bytes_moved(m, n, k, bias_silu)}
    contenders = []
    for name, make in makers(torch, catenary, case, executable, workspace).items():
        try:
            contender = Contender(name, torch, make())
            problem = wrong(torch, case, contender)
        except Exception as error:  # one contender's failure is a line of the record
            problem = f"{type(error).__name__}: {error}"
        if problem:
            row["problems"][name] = problem
            continue
        contender.replays = max(1, math.ceil(BATCH_MS * 1e3 / (contender.batch(torch) * LAUNCHES)))
        contenders.append(contender)
    for _ in range(rounds):
        for contender in contenders:
            contender.times.append(contender.batch(torch))
    for contender in contenders:
        row["times"][contender.name] = spread(contender.times)
    executable.close()
    return row


def copy_tbs(torch):
    """Bytes read and written per second by a device copy of 4 GiB, in 1e12."""
    count = 1 << 32
    a = torch.zeros(count, dtype=torch.uint8, device="cuda")
    b = torch.empty_like(a)
    times = []
    for _ in range(10):
        start = torch.cuda.Event(enable_timing=True)
        stop = torch.cuda.Event(enable_timing=True)
        b.copy_(a)
        start.record()
        for _ in range(3):
            b.copy_(a)
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) / 3)
    del a, b
    torch.cuda.empty_cache()
    return 2 * count / (quantile(times, 0.5) * 1e9)


def open_run(options, prefix, **fields):
    """torch, Catenary, where the record goes, and its head; None, with a line, without a GPU."""
    try:
        import torch
    except ImportError:
        print("no torch: install it, or run --self-test", file=sys.stderr)
        return None
    if not torch.cuda.is_available():
        print("torch sees no GPU: run --self-test instead", file=sys.stderr)
        return None
    torch.cuda.init()
    catenary = Catenary(options.library)
    device = torch.cuda.get_device_name()
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    out = options.out or ROOT / "results" / gpu_folder(device) / f"{prefix}-{now}.json"
    record = {"device": device, "torch": torch.__version__, "cuda": torch.version.cuda,
              "catenary": catenary.version(), "commit": options.commit or commit(), "date": now,
              "rounds": options.rounds, "copy_tbs": round(copy_tbs(torch), 4), **fields}
    return torch, catenary, out, record


def run(options):
    opened = open_run(options, "peers", launches=LAUNCHES, peers=[])
    if opened is None:
        return 3
    torch, catenary, out, record = opened
    n, k = options.n, options.k
    weights = [(torch.randn(n, k, device="cuda") / math.sqrt(k)).to(torch.bfloat16)
               for _ in range(LAUNCHES)]
    code = 0
    for bias_silu in [name == "bias_silu" for name in options.epilogue]:
        for m in options.m:
            row = run_case(torch, catenary, weights, (m, n, k, bias_silu), options.rounds)
            code = code or int(bool(row["problems"]))
            record["peers"].append(row)
            write_record(record, out)
            cells = "  ".join(f"{name} {time['us']:.2f}" for name, time in row["times"].items())
            print(f"M={m:<4}{'bias+SiLU' if bias_silu else 'plain':<10} {cells}", flush=True)
            for name, problem in row["problems"].items():
                print(f"  {name}: {problem}", flush=True)
    print(f"wrote {out}", file=sys.stderr)
    return code


# ---- without a GPU ------------------------------------------------------------------------------

def differences(got, want):
    """Elements that are further apart than two roundings to bf16."""
    count = 0
    for a, b in zip(got, want):
        a, b = from_bf16(a), from_bf16(b)
        count += not abs(a - b) <= RELATIVE * abs(b) + ABSOLUTE
    return count


def self_test_case(catenary, m, n, k, bias_silu, launches=4):
    """Launches over distinct tensors, plain and overlapped, against the reference."""
    text = chain_text(m, n, k, bias_silu)
    executable = Executable(catenary, text)
    assert executable.plan(), "explain says nothing"
    workspace = DeviceTensor(catenary, (ctypes.c_uint8 * max(executable.workspace_bytes, 256))())
    stream = catenary.made("ctn_stream_create", 0)
    sets = []
    for i in range(launches):
        host = [numbers(m * k, 3 * i + 1, 1), numbers(n * k, 3 * i + 2, 1 / math.sqrt(k))]
        host += [numbers(n, 3 * i + 3, 1)] if bias_silu else []
        host += [(ctypes.c_uint16 * (m * n))(*[0x7FC0] * (m * n))]
        device = [DeviceTensor(catenary, data) for data in host]
        reference(catenary, text, host)
        sets.append((host[-1], device))
    for overlap in (False, True):
        poison = (ctypes.c_uint16 * (m * n))(*[0x7FC0] * (m * n))
        for _, device in sets:
            catenary.call("ctn_device_upload", 0, device[-1].address, poison,
                          ctypes.c_size_t(ctypes.sizeof(poison)))
        for _, device in sets:
            executable.launch([t.address.value for t in device], workspace.address, stream, overlap)
        catenary.call("ctn_stream_synchronize", 0, stream)
        for want, device in sets:
            got = (ctypes.c_uint16 * (m * n))()
            device[-1].download(got)
            assert differences(got, want) == 0, f"{text}overlap {overlap} is wrong"
            got[m * n // 2] ^= 0x4000
            assert differences(got, want) == 1, "a wrong element is not seen"
            assert differences(poison, want) == m * n, "an unwritten element is not seen"
    for _, device in sets:
        for tensor in device:
            tensor.close()
    workspace.close()
    catenary.lib.ctn_stream_destroy(0, stream)
    executable.close()


def check_everything(catenary):
    assert quantile([4, 1, 3, 2], 0.5) == 2.5 and quantile([7], 0.9) == 7
    assert to_bf16(1.0) == 0x3F80 and to_bf16(1.00390625) == 0x3F80 and from_bf16(0xC000) == -2.0
    assert gpu_folder("NVIDIA H200") == "h200" and gpu_folder("NVIDIA A100-SXM4-80GB") == "a100"
    assert bytes_moved(1, 2, 3, True) == 2 * (3 + 6 + 2 + 2)
    try:
        Executable(catenary, "chain broken(")
        raise AssertionError("a broken chain was taken")
    except CatenaryError as error:
        assert "parse" in str(error), error
    for m in (1, 3):
        for bias_silu in (False, True):
            self_test_case(catenary, m, 64, 96, bias_silu)


def in_simulator(options, check, passed):
    """`check` of a library whose device is the simulator."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ.update(CATENARY_DEVICE="sim", CATENARY_CACHE_DIR=cache)
        try:
            check(Catenary(options.library))
        except CatenaryError as error:
            if "host_compiler_missing" not in str(error):
                raise
            print(f"skipped: {error}")
            return 3
    print(f"self-test: {passed}")
    return 0


def self_test(options):
    return in_simulator(options, check_everything,
                        "launches, plain and overlapped, are right in the simulator")


def find_library():
    given = os.environ.get("CATENARY_LIBRARY")
    places = [pathlib.Path(given)] if given else sorted(ROOT.parent.glob("build*/libcatenary.so"))
    return places[0] if places else None


def common_options(doc):
    parser = argparse.ArgumentParser(description=doc.split("\n")[0])
    parser.add_argument("--library", type=pathlib.Path, default=find_library(),
                        help="libcatenary.so (default: CATENARY_LIBRARY, build*/libcatenary.so)")
    parser.add_argument("--out", type=pathlib.Path, help="the record (default: results/<gpu>/)")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--commit", help="commit to record (default: git's)")
    parser.add_argument("--self-test", action="store_true",
                        help="the part over the C ABI, in the simulator; needs no torch and no GPU")
    return parser


def start(options, run, self_test):
    if options.library is None or not options.library.is_file():
        print(f"no library at {options.library}: build it, then pass --library", file=sys.stderr)
        return 3
    return self_test(options) if options.self_test else run(options)


def main(arguments):
    parser = common_options(__doc__)
    parser.add_argument("--m", type=lambda text: [int(m) for m in text.split(",")],
                        default=list(BATCHES), help="batch sizes, comma-separated")
    parser.add_argument("--epilogue", type=lambda text: text.split(","),
                        default=["plain", "bias_silu"], help="plain, bias_silu or both")
    parser.add_argument("--n", type=int, default=2048)
    parser.add_argument("--k", type=int, default=4096)
    options = parser.parse_args(arguments)
    if not set(options.epilogue) <= {"plain", "bias_silu"}:
        parser.error("--epilogue takes plain and bias_silu")
    return start(options, run, self_test)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
