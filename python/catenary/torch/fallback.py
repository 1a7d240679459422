# SPDX-License-Identifier: Apache-2.0
"""The operators in Python, for torch without the C shim that the library calls: slower per call, the same results."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch

from catenary import _native
from catenary._native import lib
from catenary.chain import int64s
from catenary.errors import ArgumentError, check, result

_DTYPES = {torch.bfloat16: 0, torch.float16: 1, torch.float32: 2, torch.int32: 3, torch.int8: 4,
           torch.float8_e4m3fn: 7, torch.float8_e5m2: 8}  # fmt: skip
_INT8 = _DTYPES[torch.int8]  # of bytes, with or without sign
_TORCH = {number: dtype for dtype, number in _DTYPES.items()}


def run(inputs: list[torch.Tensor], key: int, scalars: Sequence[float] = (), gradients: int = 0) -> Any:
    """run1 to run4, and train1 to train4: allocates the outputs."""
    from catenary.torch.operators import form_of, refuse_tangents

    form = form_of(key)
    refuse_tangents(form.name, inputs)
    if form.in_place:
        raise ArgumentError(f"chain '{form.name}' overwrites inputs: call run_out, with these as outputs")
    outputs = _call(form, inputs, None, scalars)
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def run_out(inputs: list[torch.Tensor], outs: list[torch.Tensor], key: int, scalars: Sequence[float] = ()) -> None:
    """Writes outputs of the caller."""
    from catenary.torch.operators import form_of, refuse_tangents

    form = form_of(key)
    refuse_tangents(form.name, [*inputs, *outs])
    taken = sum(parameter.overwritten_by < 0 for parameter in form.inputs)
    for what, given, wanted in (("tensors", inputs, taken), ("outputs", outs, len(form.outputs))):
        if len(given) != wanted:
            raise ArgumentError(f"chain '{form.name}' takes {wanted} {what}, got {len(given)}: pass one each")
    _call(form, form.arguments(inputs, outs), outs, scalars)


def counting_run_out(keys: Any, *arguments: Any) -> None:
    """run_out where tensors have versions: torch counts none for an operator of a library."""
    torch.ops.catenary.run_out.default.redispatch(keys & torch._C._after_ADInplaceOrView_keyset, *arguments)
    torch.autograd.graph.increment_version(arguments[1])


def _call(form: Any, tensors: Sequence[torch.Tensor], outs: Sequence[torch.Tensor] | None,
          scalars: Sequence[float]) -> list[torch.Tensor]:  # fmt: skip
    if len(tensors) != len(form.inputs):
        raise ArgumentError(f"chain '{form.name}' takes {len(form.inputs)} tensors, got {len(tensors)}")
    device = tensors[0].device
    stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else None
    binding = _bind(form, tensors, device, stream)
    copied = [result(ctypes.c_int32, lib.ctn_torch_binding_copied, binding, i) for i in range(len(tensors))]
    tensors = [
        t.clone(memory_format=torch.contiguous_format) if copy else t for t, copy in zip(tensors, copied, strict=True)
    ]
    outputs = []
    for index in range(len(form.outputs)):
        facts = _native.TorchTensor()
        check(lib.ctn_torch_binding_output(binding, index, ctypes.byref(facts)))
        sizes, strides = facts.sizes[: facts.rank], facts.strides[: facts.rank]
        if outs is None:
            outputs.append(torch.empty_strided(sizes, strides, dtype=_TORCH[facts.dtype], device=device))
            continue
        out = outs[index]
        fits = out.device == device and out.dtype == _TORCH[facts.dtype] and list(out.shape) == list(sizes)
        if not fits or any(n > 1 and a != b for n, a, b in zip(sizes, strides, out.stride(), strict=False)):
            raise ArgumentError(
                f"output {index} of chain '{form.name}' must be {_TORCH[facts.dtype]} of sizes {sizes} and strides "
                f"{strides} on the inputs' device"
            )
        outputs.append(out)
    bytes = result(ctypes.c_int64, lib.ctn_torch_binding_workspace, binding)
    workspace = torch.empty(bytes, dtype=torch.uint8, device=device) if bytes else None
    addresses = [t.data_ptr() for t in (*tensors, *outputs)]
    arguments = _native.LaunchArgs(
        tensors=(ctypes.c_void_p * len(addresses))(*addresses),
        num_tensors=len(addresses),
        scalars=(ctypes.c_float * len(scalars))(*scalars),
        num_scalars=len(scalars),
        workspace=workspace.data_ptr() if workspace is not None else None,
        stream=stream,
    )
    check(lib.ctn_torch_launch(binding, ctypes.byref(arguments)))
    return outputs


def _bind(form: Any, tensors: Sequence[torch.Tensor], device: torch.device, stream: Any) -> Any:
    for parameter, tensor in zip(form.inputs, tensors, strict=False):
        if tensor.device != device:
            raise ArgumentError(
                f"'{parameter.name}' is on another device than the other tensors of the call: move all to one"
            )
        if tensor.dtype not in _DTYPES and tensor.dtype != torch.uint8:
            raise ArgumentError(
                f"'{parameter.name}' has a dtype that no chain takes: use bfloat16, float16, float32, float8_e4m3fn or "
                "float8_e5m2, or int32 for the ends of groups, int8 or uint8 for quantised weights"
            )
        if tensor.dtype == torch.uint8 and not parameter.bytes:
            raise ArgumentError(
                f"'{parameter.name}' is uint8, and the chain takes {parameter.dtype}: convert the tensor"
            )
    rows = (_native.TorchTensor * len(tensors))(
        *((_DTYPES.get(t.dtype, _INT8), t.dim(), int64s(t.shape), int64s(t.stride()), t.data_ptr()) for t in tensors)
    )
    return result(ctypes.c_void_p, lib.ctn_torch_bind, form.key, rows, len(tensors), device.type == "cuda",
                  device.index or 0, stream)  # fmt: skip
