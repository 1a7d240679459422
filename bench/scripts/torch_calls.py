#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Host time per call of catenary.torch in eager mode, its parts, and F.linear: torch_calls.py OUT.json

Sizes are so small that the host is what takes the time. Times are the best of several rounds, A and B in turns, in
microseconds. "C launch by ctypes" is one call of ctn_torch_launch with addresses that are ready. Every other call makes
this launch too; `over_launch` is what it takes more. A direct call does not use torch's dispatcher. On a CPU the
reference computes the result, which takes longer than everything else; differences between calls still compare.
"""

import argparse
import ctypes
import json
import platform
import subprocess
import time
from pathlib import Path

import torch
import torch.nn.functional as F

import catenary
import catenary.torch as ct
from catenary import _native
from catenary.chain import int64s
from catenary.errors import check, result
from catenary.torch import operators
from catenary.torch.forms import linear as linear_form


def best_of(calls, rounds, count):
    """Microseconds per call of each, in turns; the device is idle when a round starts."""
    best = {name: float("inf") for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(count):
                call()
            best[name] = min(best[name], (time.perf_counter() - start) / count * 1e6)
    return best


def launch_of(form, tensors):
    """A call of the C ABI that launches with addresses that are ready."""
    device = tensors[0].device
    stream = torch.cuda.current_stream().cuda_stream if device.type == "cuda" else None
    rows = (_native.TorchTensor * len(tensors))(
        *((operators_dtype(t), t.dim(), int64s(t.shape), int64s(t.stride()), t.data_ptr()) for t in tensors)
    )
    binding = result(ctypes.c_void_p, _native.lib.ctn_torch_bind, form.key, rows, len(tensors), device.type == "cuda",
                     device.index or 0, stream)
    output = operators.run(form, tensors)[0]
    workspace = torch.empty(max(result(ctypes.c_int64, _native.lib.ctn_torch_binding_workspace, binding), 1),
                            dtype=torch.uint8, device=device)
    addresses = [t.data_ptr() for t in (*tensors, output)]
    arguments = _native.LaunchArgs(tensors=(ctypes.c_void_p * len(addresses))(*addresses), num_tensors=len(addresses),
                                   workspace=workspace.data_ptr(), stream=stream)
    reference, launch = ctypes.byref(arguments), _native.lib.ctn_torch_launch
    keep = (output, workspace, arguments)
    return lambda: (launch(binding, reference), keep)[0]


def inference_calls(form, tensors, out):
    """Calls that record no gradient, and parts of them, by name."""
    x, w, b = tensors
    key, inputs, direct = form.key, tuple(tensors), operators._direct
    run1, run_out = torch.ops.catenary.run1.default, torch.ops.catenary.run_out.default
    guards = torch._C._dynamo.guards
    check_guards = guards.TensorGuards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
    empty = getattr(guards, f"_empty_strided_{out.device.type}")
    sizes, strides, dtype = tuple(out.shape), out.stride(), out.dtype
    return {
        "ctypes call that does nothing": _native.lib.ctn_last_error_line,
        "C launch by ctypes": launch_of(form, tensors),
        "part: an empty output": lambda: empty(sizes, strides, dtype),
        "part: torch.empty_strided": lambda: torch.empty_strided(sizes, strides, dtype=dtype, device=out.device),
        "part: guards of the dispatch keys": lambda: check_guards(x, w, b),
        "direct call": lambda: direct(key, inputs),
        "direct call, given output": lambda: direct(key, inputs, (), (out,)),
        "direct call that is refused": lambda: direct(key, tensors),
        "operator run1": lambda: run1(tensors, key),
        "operator run_out": lambda: run_out(tensors, [out], key),
        "catenary.torch.linear": lambda: ct.linear(x, w, b),
        "F.linear": lambda: F.linear(x, w, b),
        "catenary.torch.linear, silu": lambda: ct.linear(x, w, b, "silu"),
        "F.silu(F.linear)": lambda: F.silu(F.linear(x, w, b)),
    }


def operators_dtype(tensor):
    return {torch.bfloat16: 0, torch.float16: 1, torch.float32: 2, torch.int32: 3}[tensor.dtype]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", help="the record, JSON")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--count", type=int, default=300, help="calls per round: few enough for the launch queue")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    size = 64 if device == "cuda" else 8
    x, w, b = (torch.randn(n, device=device, dtype=torch.bfloat16) for n in ((4, size), (size, size), (size,)))
    out = torch.empty(4, size, device=device, dtype=torch.bfloat16)
    form = linear_form("bf16", True, None, False).form
    tensors, key = [x, w, b], form.key
    training = [t.clone().requires_grad_() for t in tensors]
    with torch.no_grad():
        check(launch_of(form, tensors)())
        made = [operators._direct(key, *rest) is not None for rest in ((tuple(tensors),), (tuple(tensors), (), (out,)))]
        times = best_of(inference_calls(form, tensors, out), options.rounds, options.count)
    forward = {
        "catenary.torch.linear, with gradients": lambda: ct.linear(*training),
        "F.linear, with gradients": lambda: F.linear(*training),
    }
    both = {
        "catenary.torch.linear, forward and backward": lambda: ct.linear(*training).backward(out),
        "F.linear, forward and backward": lambda: F.linear(*training).backward(out),
    }
    times |= best_of(forward, options.rounds, options.count) | best_of(both, options.rounds, max(options.count // 4, 1))
    record = {
        "kind": "host time per call",
        "device": torch.cuda.get_device_name() if device == "cuda" else platform.processor(),
        "torch": torch.__version__, "catenary": catenary.__version__, "implementation": ct.IMPLEMENTATION,
        "commit": commit(), "us": times, "direct_calls": all(made),
        "over_launch": {name: us - times["C launch by ctypes"] for name, us in times.items() if "part" not in name},
    }
    Path(options.out).write_text(json.dumps(record, indent=1) + "\n")
    for name, us in times.items():
        print(f"{us:8.2f} us {us - times['C launch by ctypes']:+8.2f} over the C launch  {name}")
    if not all(made):
        print("no direct calls were made: this torch or Python lacks something, or a mode is active")


def commit():
    """Of the checkout, "" outside of one."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip()


if __name__ == "__main__":
    main()
