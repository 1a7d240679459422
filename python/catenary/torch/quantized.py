# SPDX-License-Identifier: Apache-2.0
"""Products with quantised weights in the packed layout of `catenary.repack`: `quantized_linear`, `dequantize`.

A weight [n, k] of i8, i4 or u4 is a uint8 or int8 tensor of its packed bytes. Its values are (q - zero) * scale. Each
`group` columns of a row have one scale, and one zero if there are zeros.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch

from catenary.errors import ArgumentError
from catenary.torch import forms, operators
from catenary.torch.functional import as_autocast, chain_activation
from catenary.torch.kinds import refuse_kinds

Tensor = torch.Tensor

_TILE_ROWS, _TILE_COLUMNS = 16, 64  # of the packed layout: templates/shared/packed_weight.h
_FIRST_CAPABILITY = (8, 0)  # of GPUs that kernels are for
_is_dynamo_compiling = torch.compiler.is_dynamo_compiling


@dataclass(frozen=True)
class Kind:
    """What a packed weight holds."""

    dtype: str
    """i8, i4 or u4."""
    rows: int
    columns: int
    group: int
    """Columns that share a scale."""


def quantized_linear(x: Tensor, weight: Tensor, scale: Tensor, zero: Tensor | None = None, bias: Tensor | None = None,
                     activation: str | None = None, *, weight_dtype: str = "i4",
                     group: int | None = None) -> Tensor:  # fmt: skip
    """activation(x ((q - zero) * scale)^T + bias), by kernels that read the packed weight.

    The chain has the word `rounded_weights`: one kernel, or one that rounds the weight to x's dtype and one that
    multiplies, whichever is predicted to be faster for the rows of x. GPUs before compute capability 8.0 have no such
    kernels: there torch rounds the weight, and `torch.nn.functional.linear` multiplies by it.

    Args:
        x: bf16 or f16 [..., k]; under autocast its dtype.
        weight: the packed bytes of q [n, k], one contiguous dimension of uint8 or int8, aligned to 16 bytes.
        scale: bf16, f16 or f32 [n, groups]. zero: int8 [n, groups], or None for 0.
        bias: [n] of x's dtype.
        activation: one of `catenary.torch.ACTIVATIONS`, or None.
        weight_dtype: of q: "i8", "i4" or "u4".
        group: columns that share a scale. None: k / groups.

    x and bias have gradients: that of x multiplies by the dequantised weight, in x's dtype, and an activation is then
    an operation of its own. ArgumentError: an argument does not fit, or scale requires a gradient, which this has not.
    """
    try:
        x, *more = as_autocast((x,) if bias is None else (x, bias))
        bias = more[0] if more else None
        kind = kind_of(weight, scale, x.shape[-1], weight_dtype, group)
        _check_call(x, scale, zero, bias)
        name = forms.activation_name(activation)
        if torch.is_grad_enabled() and (x.requires_grad or (bias is not None and bias.requires_grad)):
            if not _is_dynamo_compiling():  # which takes no Function with a jvp()
                operators.refuse_tangents("quantized_linear", (x, scale) if bias is None else (x, scale, bias))
            apply = _in_transform if operators.in_functorch() else _Product.apply
            y = apply(x, weight, scale, zero, bias, kind.dtype, kind.rows, kind.columns, kind.group)
            return y if name is None else chain_activation(name, y)
        return _product(x, weight, scale, zero, bias, kind, name)
    except Exception:
        refuse_kinds(quantized_linear, locals())
        raise


class _Product(torch.autograd.Function):
    """x W^T + bias with the gradients of x and bias. The weight is dequantised again in the backward."""

    @staticmethod
    def forward(ctx, x, weight, scale, zero, bias, *kind):
        ctx.save_for_backward(weight, scale, zero)
        ctx.kind = kind
        return _product(x, weight, scale, zero, bias, Kind(*kind), None)

    @staticmethod
    def backward(ctx, gradient):
        return _gradients(ctx, gradient)


class _Transformed(torch.autograd.Function):
    """The same inside of transforms of functorch. torch.compile takes no Function with a rule of vmap."""

    @staticmethod
    def forward(x, weight, scale, zero, bias, *kind):
        return _product(x, weight, scale, zero, bias, Kind(*kind), None)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, weight, scale, zero, _, *kind = inputs
        ctx.save_for_backward(weight, scale, zero)
        ctx.kind = kind

    @staticmethod
    def backward(ctx, gradient):
        return _gradients(ctx, gradient)

    @staticmethod
    def jvp(ctx, *tangents):
        raise operators.no_tangents("quantized_linear")

    @staticmethod
    def vmap(info, in_dims, x, *others):
        if all(dim is None for dim in in_dims[1:]):  # samples are more rows
            return _Transformed.apply(x.movedim(in_dims[0], 0), *others), 0
        given = list(zip((x, *others), in_dims, strict=True))
        samples = [[t if d is None else t.select(d, i) for t, d in given] for i in range(info.batch_size)]
        return torch.stack([_Transformed.apply(*sample) for sample in samples]), 0


@torch.compiler.allow_in_graph
def _in_transform(*arguments: Any) -> Tensor:
    return _Transformed.apply(*(arguments if torch.is_grad_enabled() else operators.without_gradients(arguments)))


def _gradients(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    if ctx.needs_input_grad[2]:  # where samples hid that scale requires a gradient
        raise _no_gradient_of_scale()
    weight, scale, zero = ctx.saved_tensors
    of_x = of_bias = None
    if ctx.needs_input_grad[0]:
        of_x = gradient @ _weight(weight, scale, zero, Kind(*ctx.kind), gradient.dtype)
    if ctx.needs_input_grad[4]:
        of_bias = gradient.sum_to_size(gradient.shape[-1:])
    return of_x, None, None, None, of_bias, None, None, None, None


def _product(x: Tensor, weight: Tensor, scale: Tensor, zero: Tensor | None, bias: Tensor | None, kind: Kind,
             name: str | None) -> Tensor:  # fmt: skip
    if x.numel() == 0 or kind.rows == 0:  # nothing is summed
        y = x.new_zeros((*x.shape[:-1], kind.rows))
        y = y if bias is None else y + bias
        return y if name is None else chain_activation(name, y)
    if not _device_has_kernels(x.device.type, x.device.index or 0):
        wide = _weight(weight, scale, zero, kind, x.dtype)
        y = torch.nn.functional.linear(x, wide, bias)
        return y if name is None else chain_activation(name, y)
    key = _key(operators.NAMES[x.dtype], kind.dtype, kind.rows, kind.columns, kind.group, operators.NAMES[scale.dtype],
               zero is not None, bias is not None, name)  # fmt: skip
    tensors = [x if x.dim() > 1 else x.unsqueeze(0), weight, scale]
    tensors += [tensor for tensor in (zero, bias) if tensor is not None]
    compiling = _is_dynamo_compiling()
    y = None if compiling else operators._direct(key, tuple(tensors))
    if y is None:
        if operators.in_functorch():  # samples are rows
            y = _in_transform(x, weight, scale, zero, bias, kind.dtype, kind.rows, kind.columns, kind.group)
            return y if name is None else chain_activation(name, y)
        y = operators.run_one(key, tensors) if compiling else operators.dispatch_one(key, tensors)
    return y if x.dim() > 1 else y.squeeze(0)


def dequantize(weight: Tensor, scale: Tensor, zero: Tensor | None = None, *, columns: int, weight_dtype: str = "i4",
               group: int | None = None, result: torch.dtype = torch.bfloat16) -> Tensor:  # fmt: skip
    """Unpacks a weight to [n, columns], in f32, and rounds it to `result`.

    Other arguments are those of `quantized_linear`. Operations of torch: on any device, with a gradient of `scale`.
    """
    try:
        kind = kind_of(weight, scale, columns, weight_dtype, group)
        _check_blocks(scale, zero)
        return _weight(weight, scale, zero, kind, result)
    except Exception:
        refuse_kinds(dequantize, locals())
        raise


def kind_of(weight: Tensor, scale: Tensor, columns: int, dtype: str, group: int | None) -> Kind:
    """What the bytes hold, for scales [n, groups]. ArgumentError: they hold nothing of these sizes."""
    if scale.dim() != 2:
        raise ArgumentError(f"scale has shape {list(scale.shape)}: pass [n, groups]")
    rows, groups = _constant(scale.shape[0]), _constant(scale.shape[1])
    columns = _constant(columns)
    if weight.dtype not in operators.BYTES or weight.dim() != 1 or not weight.is_contiguous():
        raise ArgumentError(
            f"weight is {weight.dtype} of shape {list(weight.shape)} and strides {list(weight.stride())}: pass the "
            "contiguous uint8 that catenary.repack returns"
        )
    if dtype not in ("i8", "i4", "u4"):
        raise ArgumentError(f"weight_dtype is {dtype!r}: use 'i8', 'i4' or 'u4'")
    elements = -(-rows // _TILE_ROWS) * -(-columns // _TILE_COLUMNS) * _TILE_ROWS * _TILE_COLUMNS
    bytes = elements if dtype == "i8" else elements // 2
    if bytes != weight.shape[0]:
        raise ArgumentError(
            f"weight has {weight.shape[0]} bytes, and a packed weight {dtype}[{rows}, {columns}] has {bytes}: pass x "
            "[..., k], scale [n, groups], the weight of these sizes and its weight_dtype"
        )
    if group is None:
        if columns % groups != 0 if groups > 0 else columns > 0:
            raise ArgumentError(f"{columns} columns in {groups} groups leave a part of a group: pass group")
        group = columns // max(groups, 1)
    elif group < 1 or -(-columns // group) != groups:
        raise ArgumentError(f"group is {group}: {columns} columns are then no {groups} groups, as scale has")
    return Kind(dtype, rows, columns, max(min(group, columns), 1))


def _check_call(x: Tensor, scale: Tensor, zero: Tensor | None, bias: Tensor | None) -> None:
    _check_blocks(scale, zero)
    if x.dtype not in (torch.bfloat16, torch.float16):
        raise ArgumentError(f"x is {x.dtype}: quantised weights are multiplied by bfloat16 and float16")
    if bias is not None and (bias.dtype != x.dtype or bias.shape != scale.shape[:1]):
        raise ArgumentError(
            f"bias is {bias.dtype} of shape {list(bias.shape)}: pass {x.dtype} of shape [{scale.shape[0]}]"
        )
    if scale.requires_grad and torch.is_grad_enabled():
        raise _no_gradient_of_scale()


def _no_gradient_of_scale() -> ArgumentError:
    return ArgumentError(
        "a product with a quantised weight has no gradient of scale: detach it, or pass the weight of dequantize() to "
        "torch.nn.functional.linear"
    )


def _check_blocks(scale: Tensor, zero: Tensor | None) -> None:
    if scale.dtype not in (torch.bfloat16, torch.float16, torch.float32):
        raise ArgumentError(f"scale is {scale.dtype}: use bfloat16, float16 or float32")
    if zero is not None and (zero.dtype != torch.int8 or zero.shape != scale.shape):
        raise ArgumentError(
            f"zero is {zero.dtype} of shape {list(zero.shape)}: pass int8 of scale's shape, {list(scale.shape)}"
        )


@torch.compiler.assume_constant_result
def _device_has_kernels(kind: str, index: int) -> bool:
    return kind != "cuda" or _capability(index) >= _FIRST_CAPABILITY


@functools.cache
def _capability(index: int) -> tuple[int, int]:
    return torch.cuda.get_device_capability(index)


@torch.compiler.assume_constant_result
def _key(dtype: str, q: str, rows: int, columns: int, *options: Any) -> int:
    return _known_key(dtype, q, (rows, columns), *options)


@functools.cache
def _known_key(*options: Any) -> int:
    return forms.quantized_linear(*options).form.key


def _constant(size: int) -> int:
    """The number itself; of a size that a graph would keep symbolic, a constant of the graph: it is part of a key."""
    return len(range(size))


def _weight(weight: Tensor, scale: Tensor, zero: Tensor | None, kind: Kind, result: torch.dtype) -> Tensor:
    # q - zero has at most 8 bits, so that it is exact in bf16, and so is its product with a scale before it is rounded.
    exact = result if scale.dtype == result else torch.float32
    values = unpack(weight, kind)
    whole = kind.columns % kind.group == 0
    if whole:  # otherwise the last group is a part
        values = values.reshape(kind.rows, kind.columns // kind.group, kind.group)
    if zero is not None:
        values = values.to(torch.int16) - _by_columns(zero, kind, whole)
    product = values.to(exact) * _by_columns(scale.to(exact), kind, whole)
    return product.to(result).reshape(kind.rows, kind.columns)


def _by_columns(blocks: Tensor, kind: Kind, whole: bool) -> Tensor:
    """[rows, groups] -> [rows, groups, 1], or [rows, columns] where the last group is a part."""
    if whole:
        return blocks.unsqueeze(-1)
    return blocks.repeat_interleave(kind.group, 1)[:, : kind.columns]


def unpack(weight: Tensor, kind: Kind) -> Tensor:
    """The integers of a packed weight, int8 [rows, columns]: `packed_index` of the packed layout as a permutation."""
    tiles = (-(-kind.rows // _TILE_ROWS), -(-kind.columns // _TILE_COLUMNS))
    if kind.dtype == "i8":
        # column / 32, row % 8, column / 2 % 4, column / 16 % 2, column / 8 % 2, column % 2, row / 8
        values = weight.view(torch.int8).view(*tiles, 2, 8, 4, 2, 2, 2, 2).permute(0, 8, 3, 1, 2, 5, 6, 4, 7)
    else:
        # row % 8, column / 2 % 4, column / 16, column % 2, column / 8 % 2; row / 8 is the half of a byte
        bytes = weight.view(torch.uint8)
        values = torch.stack((bytes & 15, bytes >> 4), -1).view(*tiles, 8, 4, 4, 2, 2, 2)
        values = values.permute(0, 7, 2, 1, 4, 6, 3, 5)
    values = values.reshape(tiles[0] * _TILE_ROWS, tiles[1] * _TILE_COLUMNS)[: kind.rows, : kind.columns]
    if kind.dtype == "i4":
        return (values ^ 8).to(torch.int8) - 8
    return values.to(torch.int8)
