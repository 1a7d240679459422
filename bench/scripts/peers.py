#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Layers in one process with PyTorch: eager calls, torch.compile, and Catenary over its C ABI.

    bench/scripts/peers.py --library build/libcatenary.so              # small M; needs torch, a GPU
    bench/scripts/peers.py --library build/libcatenary.so --large      # dual, grouped, experts
    bench/scripts/peers.py --library build/libcatenary.so --self-test  # in the simulator

bf16. Results are compared with float64 first; a contender that is wrong, or that this PyTorch does
not have, is reported and not timed. Then contenders take turns, A B A B; the time is the median over
the rounds. Small layers run as CUDA graphs of 100 launches over 100 sets of tensors, Catenary
without and with PDL; large ones as single launches over 3 sets. torch.compile runs by mode
max-autotune-no-cudagraphs. The record is bench/results/<gpu>/peers-<date>.json (peers-large-...);
report.py makes the tables. Exit codes: 0 done, 1 a result was wrong or Catenary failed, 2 bad use,
3 no torch, no GPU or no library.
"""
import argparse
import ctypes
import datetime
import fnmatch
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
from dataclasses import dataclass

from catenary_abi import (Catenary, CatenaryError, DeviceTensor, Executable, from_bf16, numbers,
                          reference, to_bf16)
from peer_layers import (expected, experts, functions, grouped, large_layers, linear, small_layers,
                         swiglu, tensors)

ROOT = pathlib.Path(__file__).resolve().parents[1]  # bench/
# Allowed error against float64 sums of bf16 numbers. f32 sums and the rounding to bf16 (at most
# 2^-8, relative) cause it.
RELATIVE, ABSOLUTE = 2.0 ** -7, 1e-3
# A library may round partial sums of split-K to bf16: of the largest element of the result.
OF_LARGEST = 4e-3


@dataclass
class Suite:
    """How a list of layers is timed. `key`: of the rows in the record."""
    key: str
    prefix: str
    layers: list
    sets: int  # of tensors in rotation
    graph: bool  # one CUDA graph of a launch per set
    batch_ms: float


def small_suite(n, k):
    return Suite("peers", "peers", small_layers(n, k), 100, True, 2.0)


def large_suite():
    # Each set is larger than an L2.
    return Suite("large_peers", "peers-large", large_layers(), 3, False, 4.0)


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


def new_row(suite, layer):
    """The head of a layer's row, as report.py reads it."""
    row = {"times": {}, "problems": {}}
    if suite.key == "large_peers":
        return {"case": layer.name, "flops": layer.flops, **row}
    return {**layer.sizes, "bias_silu": layer.epilogue == "bias_silu", **row,
            "bytes": layer.bytes_moved()}


# ---- on a GPU, with torch -----------------------------------------------------------------------

class Contender:
    """launch(i) works on set i and returns its result. With `graph`, all sets are one CUDA graph."""

    def __init__(self, name, torch, launch, suite):
        self.name, self.launch, self.sets = name, launch, suite.sets
        self.times, self.count, self.cursor, self.graph = [], 1, 0, None
        self.results = []
        if not suite.graph:
            return
        for i in (0, 1, 2):  # compiles and autotunes before the capture
            launch(i)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.results = [launch(i) for i in range(self.sets)]

    def enqueue(self):
        if self.graph:
            self.graph.replay()
            return
        self.cursor += 1
        self.launch(self.cursor % self.sets)

    def outputs(self, torch):
        """Set -> result, for sets to be checked."""
        if self.graph:
            for y in self.results:
                y.fill_(math.nan)
            self.graph.replay()
            found = {i: self.results[i] for i in (0, 1, self.sets // 2, self.sets - 1)}
        else:
            found = {0: self.launch(0)}
        torch.cuda.synchronize()
        return found

    def batch(self, torch):
        """Microseconds per launch, after an untimed one."""
        start = torch.cuda.Event(enable_timing=True)
        stop = torch.cuda.Event(enable_timing=True)
        self.enqueue()
        start.record()
        for _ in range(self.count):
            self.enqueue()
        stop.record()
        stop.synchronize()
        launches = self.count * (self.sets if self.graph else 1)
        return 1e3 * start.elapsed_time(stop) / launches

    def fill_batches(self, torch, batch_ms):
        self.batch(torch)
        unit = self.batch(torch) * (self.sets if self.graph else 1)
        self.count = max(1, math.ceil(batch_ms * 1e3 / unit))


def wrong(torch, layer, sets, contender):
    """What is wrong with the results: a sentence, or None."""
    # A library rounds both products of a dual GEMM to bf16 before it multiplies them.
    relative = RELATIVE * (2 if layer.epilogue == "gated" else 1)
    for i, got in contender.outputs(torch).items():
        want = expected(torch, layer, sets[i])
        far = (got.double() - want).abs() > relative * want.abs() + OF_LARGEST * want.abs().max()
        far |= got.isnan()
        if far.any():
            return f"launch {i}: {int(far.sum())} of {far.numel()} elements are wrong"
    return None


def makers(torch, catenary, layer, sets, suite):
    """Name -> how to make the contender's launch; Catenary's last."""
    def of_torch(make):
        def made():
            function = make()

            def launch(i):
                with torch.no_grad():
                    return function(*(sets[i][name] for name in layer.inputs()))
            return launch
        return made

    def ours(pdl):
        executable = Executable(catenary, layer.text)
        workspace = torch.empty(max(executable.workspace_bytes, 256), dtype=torch.uint8,
                                device="cuda")

        def launch(i):
            executable.launch([t.data_ptr() for t in sets[i].values()], workspace.data_ptr(),
                              torch.cuda.current_stream().cuda_stream, pdl)
            return sets[i]["y"]
        for data in sets:
            data["y"].fill_(math.nan)
        return launch

    small = suite.key == "peers"
    made = {name: of_torch(make) for name, make in functions(torch, layer, small).items()}
    if small:
        made["torch.compile"] = made.pop("F.linear, torch.compile")
    made["catenary"] = lambda: ours(False)
    if small:
        made["catenary PDL"] = lambda: ours(True)
    return made


def run_layer(torch, catenary, layer, suite, rounds):
    sets = [tensors(torch, layer, seed) for seed in range(suite.sets)]
    row = new_row(suite, layer)
    contenders = []
    for name, make in makers(torch, catenary, layer, sets, suite).items():
        try:
            contender = Contender(name, torch, make(), suite)
            problem = wrong(torch, layer, sets, contender)
            if not problem:
                contender.fill_batches(torch, suite.batch_ms)
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


def open_torch():
    """The module; None, with a message, without it or a GPU."""
    try:
        import torch
    except ImportError:
        print("no torch: install it, or run --self-test", file=sys.stderr)
        return None
    if not torch.cuda.is_available():
        print("torch sees no GPU: run --self-test instead", file=sys.stderr)
        return None
    torch.cuda.init()
    return torch


def run(options):
    torch = open_torch()
    if torch is None:
        return 3
    suite = large_suite() if options.large else small_suite(options.n, options.k)
    catenary = Catenary(options.library)
    device = torch.cuda.get_device_name()
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    out = options.out or ROOT / "results" / gpu_folder(device) / f"{suite.prefix}-{now}.json"
    record = {"device": device, "torch": torch.__version__, "cuda": torch.version.cuda,
              "catenary": catenary.version(), "commit": options.commit or commit(), "date": now,
              "rounds": options.rounds, "copy_tbs": round(copy_tbs(torch), 4), suite.key: []}
    code = 0
    for layer in suite.layers:
        if not any(fnmatch.fnmatch(layer.name, one) for one in options.cases):
            continue
        row = run_layer(torch, catenary, layer, suite, options.rounds)
        torch.cuda.empty_cache()
        # What PyTorch lacks or refuses is noted; a wrong result is a failure, whoever's it is.
        code = code or int(any(name.startswith("catenary") or "are wrong" in problem
                               for name, problem in row["problems"].items()))
        record[suite.key].append(row)
        write_record(record, out)
        cells = "  ".join(f"{name} {time['us']:.2f}" for name, time in row["times"].items())
        print(f"{layer.name:<32} {cells}", flush=True)
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


def host_tensors(layer, seed):
    """The layer's tensors on the host, in order; the result is poisoned."""
    host = []
    for i, (name, shape) in enumerate(layer.shapes.items()):
        count = math.prod(shape)
        if name == "ends":
            host.append((ctypes.c_int32 * count)(*layer.ends()))
        elif name == "y":
            host.append((ctypes.c_uint16 * count)(*[0x7FC0] * count))
        else:
            scale = layer.scale if name.startswith("w") else 1
            host.append(numbers(count, 7 * seed + i + 1, scale))
    return host


def self_test_layer(catenary, layer, sets):
    """Launches over distinct tensors, without and with PDL, against the reference."""
    executable = Executable(catenary, layer.text)
    assert executable.plan(), "explain says nothing"
    workspace = DeviceTensor(catenary, (ctypes.c_uint8 * max(executable.workspace_bytes, 256))())
    stream = catenary.made("ctn_stream_create", 0)
    hosts = [host_tensors(layer, seed) for seed in range(sets)]
    poison = type(hosts[0][-1])(*hosts[0][-1])
    devices = [[DeviceTensor(catenary, data) for data in host] for host in hosts]
    for host in hosts:
        reference(catenary, layer.text, host)
    for pdl in (False, True):
        for device in devices:
            catenary.call("ctn_device_upload", 0, device[-1].address, poison,
                          ctypes.c_size_t(ctypes.sizeof(poison)))
        for device in devices:
            executable.launch([t.address.value for t in device], workspace.address, stream, pdl)
        catenary.call("ctn_stream_synchronize", 0, stream)
        for host, device in zip(hosts, devices):
            want = host[-1]
            got = type(want)()
            device[-1].download(got)
            assert differences(got, want) == 0, f"{layer.text} is wrong, PDL {pdl}"
            got[len(got) // 2] ^= 0x4000
            assert differences(got, want) == 1, "a wrong element is not seen"
            assert differences(poison, want) == len(got), "an unwritten element is not seen"
    for tensor in [workspace] + [t for device in devices for t in device]:
        tensor.close()
    catenary.lib.ctn_stream_destroy(0, stream)
    executable.close()


def check_helpers(catenary):
    assert quantile([4, 1, 3, 2], 0.5) == 2.5 and quantile([7], 0.9) == 7
    assert to_bf16(1.0) == 0x3F80 and to_bf16(1.00390625) == 0x3F80 and from_bf16(0xC000) == -2.0
    assert gpu_folder("NVIDIA H200") == "h200" and gpu_folder("NVIDIA A100-SXM4-80GB") == "a100"
    layer = linear(1, 2, 3, "bias_silu")
    assert layer.bytes_moved() == 2 * (3 + 6 + 2 + 2)
    row = new_row(small_suite(2, 3), layer)
    assert (row["m"], row["n"], row["k"], row["bias_silu"]) == (1, 2, 3, True), row
    assert new_row(large_suite(), swiglu(1, 2, 3))["flops"] == 4.0 * 6
    names = [one.name for one in small_layers(64, 96) + large_layers()]
    assert len(names) == len(set(names)), names
    try:
        Executable(catenary, "chain broken(")
        raise AssertionError("a broken chain was taken")
    except CatenaryError as error:
        assert "parse" in str(error), error


def check_everything(catenary):
    check_helpers(catenary)
    for m in (1, 3):
        for epilogue in ("plain", "bias_silu"):
            self_test_layer(catenary, linear(m, 64, 96, epilogue), 4)
    large = [swiglu(3, 16, 32)]
    large += [grouped(x, w, epilogue, 3, 2, 16, 32) for x, w in (("bgk", "gnk"), ("gbk", "gkn"))
              for epilogue in ("plain", "bias_silu", "gated")]
    large += [experts("few", (2, 0, 3), 16, 32, epilogue) for epilogue in ("plain", "gated")]
    for layer in large:
        self_test_layer(catenary, layer, 1)


def self_test(options):
    """The chains and the C ABI, with the simulator as the device."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ.update(CATENARY_DEVICE="sim", CATENARY_CACHE_DIR=cache)
        try:
            check_everything(Catenary(options.library))
        except CatenaryError as error:
            if "host_compiler_missing" not in str(error):
                raise
            print(f"skipped: {error}")
            return 3
    print("self-test: launches without and with PDL are right in the simulator")
    return 0


def find_library():
    given = os.environ.get("CATENARY_LIBRARY")
    places = [pathlib.Path(given)] if given else sorted(ROOT.parent.glob("build*/libcatenary.so"))
    return places[0] if places else None


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--library", type=pathlib.Path, default=find_library(),
                        help="libcatenary.so (default: CATENARY_LIBRARY, build*/libcatenary.so)")
    parser.add_argument("--large", action="store_true",
                        help="dual GEMMs, grouped layers and experts instead of small M")
    parser.add_argument("--cases", type=lambda text: text.split(","), default=["*"],
                        help="layers, as comma-separated shell patterns: linear/16x*,swiglu/*")
    parser.add_argument("--n", type=int, default=2048, help="of the small layers")
    parser.add_argument("--k", type=int, default=4096, help="of the small layers")
    parser.add_argument("--out", type=pathlib.Path, help="the record (default: results/<gpu>/)")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--commit", help="commit to record (default: git's)")
    parser.add_argument("--self-test", action="store_true",
                        help="the part over the C ABI, in the simulator; needs no torch and no GPU")
    options = parser.parse_args(arguments)
    if options.library is None or not options.library.is_file():
        print(f"no library at {options.library}: build it, then pass --library", file=sys.stderr)
        return 3
    return self_test(options) if options.self_test else run(options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
