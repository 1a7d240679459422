# SPDX-License-Identifier: Apache-2.0
"""Products of fp8 tensors with scales: `scaled_linear`, `scaled_grouped_linear`, `quantize_fp8`.

A scale is f32: the value of a tensor x is x * x_scale. Kernels are for compute capability 9.0, with k a
multiple of 16; on the CPU the reference, or the simulator, takes any k.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from catenary.errors import ArgumentError
from catenary.torch import forms, operators
from catenary.torch.functional import chain_activation, whole
from catenary.torch.kinds import refuse_kinds
from catenary.torch.operators import PLAIN, is_distributed

Tensor = torch.Tensor

_RESULTS = (torch.bfloat16, torch.float16, torch.float32, *operators.FP8)


def scaled_linear(x: Tensor, w: Tensor, x_scale: Tensor, w_scale: Tensor, bias: Tensor | None = None,
                  activation: str | None = None, *, out_dtype: torch.dtype = torch.bfloat16,
                  out_scale: Tensor | None = None, fast_accum: bool = False) -> Tensor:  # fmt: skip
    """activation(x w^T * x_scale * w_scale + bias) / out_scale in one kernel, rounded once, to `out_dtype`.

    Args:
        x: [..., k], float8_e4m3fn or float8_e5m2. w: [n, k] of the same dtype.
        x_scale: f32, per row [...] or [..., 1], or per tensor: one element. w_scale: f32, per channel [n] or [n, 1],
            or per tensor.
        bias: [n] of bf16, f16 or f32. activation: one of `catenary.torch.ACTIVATIONS`, or None.
        out_dtype: bf16, f16, f32, or fp8, where values beyond the largest become the largest.
        out_scale: f32, one element: the scale of the result, which is the next layer's x. None: 1.
        fast_accum: sums stay in the tensor cores, which keep 13 fraction bits of them; else they are added to sums in
            f32 every 128 of k.

    ArgumentError: an argument does not fit, or one requires a gradient, which this has not.
    """
    try:
        _check(x, w, 2, x_scale, w_scale, bias, out_dtype, out_scale)
        name = forms.activation_name(activation)
        n = w.shape[0]
        _check_bias(bias, w, (n,))
        if x.numel() == 0 or n == 0:
            return _zeros((*x.shape[:-1], n), x, bias, None, name, out_dtype, out_scale)
        lead = x.shape[:-1]
        sx, rows = _row_scale(x_scale, lead)
        if w_scale.shape == (n,) or w_scale.shape == (n, 1):
            sw, channels = w_scale.reshape(n), True
        elif w_scale.numel() == 1:
            sw, channels = w_scale.reshape(1), False
        else:
            raise _wrong_scale("w_scale", w_scale, f"[{n}], [{n}, 1] or one element")
        flat = x.dim() == 1
        key = _key("scaled_linear", operators.FP8[x.dtype], rows, channels, _name(bias), name,
                   operators.NAMES[out_dtype], out_scale is not None, fast_accum)  # fmt: skip
        tensors = [x.unsqueeze(0) if flat else x, w, sx.reshape(1) if flat else sx, sw]
        y = _run(key, tensors, bias, out_scale)
        return y.squeeze(0) if flat else y
    except Exception:
        refuse_kinds(scaled_linear, locals())
        raise


def scaled_grouped_linear(x: Tensor, w: Tensor, x_scale: Tensor, w_scale: Tensor, offs: Tensor,
                          bias: Tensor | None = None, activation: str | None = None, *,
                          out_dtype: torch.dtype = torch.bfloat16, out_scale: Tensor | None = None,
                          fast_accum: bool = False) -> Tensor:  # fmt: skip
    """`scaled_linear` by the group of each row.

    Args:
        x: [m, k], rows ordered by group. w: [g, n, k].
        x_scale: f32 [m], [m, 1] or one element. w_scale: f32 [g, n], [g] or one element.
        offs: i32[g], for each group the row after its last one; rows after the last end are 0 before the activation.
        bias: [g, n] of bf16, f16 or f32.

    Other arguments and errors are those of `scaled_linear`.
    """
    try:
        if x.dim() != 2:
            raise ArgumentError(f"x has {x.dim()} dimensions: pass [m, k], rows ordered by group")
        _check(x, w, 3, x_scale, w_scale, bias, out_dtype, out_scale)
        name = forms.activation_name(activation)
        groups, n = w.shape[0], w.shape[1]
        if offs.dtype != torch.int32 or offs.shape != (groups,):
            raise ArgumentError(f"offs is {offs.dtype} of shape {list(offs.shape)}: pass int32 of shape [{groups}]")
        _check_bias(bias, w, (groups, n))
        if x.numel() == 0 or n == 0 or groups == 0:
            return _zeros((x.shape[0], n), x, bias, offs, name, out_dtype, out_scale)
        sx, rows = _row_scale(x_scale, x.shape[:-1])
        if w_scale.shape == (groups, n):
            sw, kind = w_scale, "channel"
        elif w_scale.shape == (groups,):
            sw, kind = w_scale, "group"
        elif w_scale.numel() == 1:
            sw, kind = w_scale.reshape(1), "tensor"
        else:
            raise _wrong_scale("w_scale", w_scale, f"[{groups}, {n}], [{groups}] or one element")
        key = _key("scaled_ragged", operators.FP8[x.dtype], rows, kind, _name(bias), name, operators.NAMES[out_dtype],
                   out_scale is not None, fast_accum)  # fmt: skip
        return _run(key, [x, w, whole(offs), sx, sw], bias, out_scale)
    except Exception:
        refuse_kinds(scaled_grouped_linear, locals())
        raise


def quantize_fp8(x: Tensor, per: str = "row", dtype: torch.dtype = torch.float8_e4m3fn) -> tuple[Tensor, Tensor]:
    """x as fp8 with a scale, computed in f32: scale = max |x| / the dtype's largest number, or 1 where that is 0.

    Args:
        x: [..., k]. per: "row": a scale [..., 1]; "tensor": a scale [].

    Returns (fp8 [..., k], f32 scale).
    """
    try:
        if dtype not in operators.FP8:
            raise ArgumentError(f"dtype is {dtype}: use float8_e4m3fn or float8_e5m2")
        if per not in ("row", "tensor"):
            raise ArgumentError(f"per is {per!r}: use 'row' or 'tensor'")
        largest = torch.finfo(dtype).max
        wide = x.to(torch.float32)
        if x.numel() == 0:
            return x.to(dtype), wide.new_ones((*x.shape[:-1], 1) if per == "row" else ())
        scale = (wide.abs().amax(-1, keepdim=True) if per == "row" else wide.abs().amax()) / largest
        scale = torch.where(scale == 0, torch.ones_like(scale), scale)
        return (wide / scale).clamp(-largest, largest).to(dtype), scale
    except Exception:
        refuse_kinds(quantize_fp8, locals())
        raise


def _check(x: Tensor, w: Tensor, rank: int, x_scale: Tensor, w_scale: Tensor, bias: Tensor | None,
           out_dtype: torch.dtype, out_scale: Tensor | None) -> None:  # fmt: skip
    if x.dtype not in operators.FP8 or w.dtype != x.dtype:
        raise ArgumentError(f"x is {x.dtype} and w {w.dtype}: use float8_e4m3fn for both, or float8_e5m2")
    if x.dim() < 1 or w.dim() != rank or w.shape[-1] != x.shape[-1]:
        wanted = "[n, k]" if rank == 2 else "[g, n, k]"
        raise ArgumentError(f"x has shape {list(x.shape)} and w {list(w.shape)}: pass x [..., k] and w {wanted}")
    if out_dtype not in _RESULTS:
        raise ArgumentError(f"out_dtype is {out_dtype}: use bfloat16, float16, float32, or fp8")
    scales = {"x_scale": x_scale, "w_scale": w_scale, "out_scale": out_scale}
    for who, scale in scales.items():
        if scale is not None and scale.dtype != torch.float32:
            raise ArgumentError(f"{who} is {scale.dtype}: scales are float32")
    if out_scale is not None and out_scale.numel() != 1:
        raise _wrong_scale("out_scale", out_scale, "one element")
    if torch.is_grad_enabled() and any(
        t is not None and t.requires_grad for t in (x, w, x_scale, w_scale, bias, out_scale)
    ):
        raise ArgumentError("a product of fp8 tensors has no gradient: call it under torch.no_grad()")


def _check_bias(bias: Tensor | None, w: Tensor, shape: tuple[int, ...]) -> None:
    if bias is None:
        return
    if bias.dtype not in (torch.bfloat16, torch.float16, torch.float32) or bias.shape != shape:
        raise ArgumentError(
            f"bias is {bias.dtype} of shape {list(bias.shape)}: pass bfloat16, float16 or float32 of shape "
            f"{list(shape)}, as w {list(w.shape)} has it"
        )


def _row_scale(scale: Tensor, lead: Any) -> tuple[Tensor, bool]:
    """A scale of x with one dimension per leading dimension of x, or of one element; whether it is by row."""
    if scale.shape == lead:
        return scale, len(lead) > 0
    if scale.shape == (*lead, 1):
        return scale.squeeze(-1), len(lead) > 0
    if scale.numel() == 1:
        return scale.reshape(1), False
    raise _wrong_scale("x_scale", scale, f"{list(lead)}, {[*lead, 1]} or one element")


def _wrong_scale(who: str, scale: Tensor, wanted: str) -> ArgumentError:
    return ArgumentError(f"{who} has shape {list(scale.shape)}: pass {wanted}; blocks of k have no scales here")


def _name(bias: Tensor | None) -> str | None:
    return None if bias is None else operators.NAMES[bias.dtype]


def _run(key: int, tensors: list[Tensor], bias: Tensor | None, out_scale: Tensor | None) -> Tensor:
    tensors += [t for t in (bias, None if out_scale is None else out_scale.reshape(1)) if t is not None]
    if any(type(tensor) not in PLAIN for tensor in tensors):
        is_distributed(tensors)
    return operators.run_one(key, tensors)


@torch.compiler.assume_constant_result
def _key(kind: str, *options: Any) -> int:
    return _known_key(kind, *options)


@functools.cache
def _known_key(kind: str, *options: Any) -> int:
    return getattr(forms, kind)(*options).form.key


def _zeros(shape: Any, x: Tensor, bias: Tensor | None, offs: Tensor | None, activation: str | None,
           out_dtype: torch.dtype, out_scale: Tensor | None) -> Tensor:  # fmt: skip
    """The result where nothing is summed."""
    y = torch.zeros(shape, device=x.device)
    if bias is not None and y.numel() > 0:
        if offs is None:
            y = y + bias
        else:
            groups = torch.bucketize(torch.arange(shape[0], device=x.device, dtype=offs.dtype), offs, right=True)
            y = y + bias[groups.clamp(max=bias.shape[0] - 1)] * (groups < bias.shape[0]).unsqueeze(1)
    y = y if activation is None else chain_activation(activation, y)
    if out_scale is not None:
        y = y / out_scale.reshape(1)
    if out_dtype in operators.FP8:
        largest = torch.finfo(out_dtype).max
        y = y.clamp(-largest, largest)
    return y.to(out_dtype)
