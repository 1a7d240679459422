# SPDX-License-Identifier: Apache-2.0
"""The chains of the layers in `catenary.torch`: their sizes are examples, each call has those of its tensors."""

from __future__ import annotations

import functools

from catenary import ops
from catenary.chain import Chain, Tensor
from catenary.errors import ArgumentError
from catenary.torch.function import ChainFunction

# No two sizes are equal, so that the order of dimensions in memory is evident.
_ROWS, _IN, _OUT, _INNER, _GROUPS = 65536, 64, 96, 160, 6

ACTIVATIONS = ("relu", "relu2", "gelu", "gelu_tanh", "quick_gelu", "silu", "sigmoid", "tanh", "softplus", "exp")
_SAME = {None: None, "none": None, "identity": None, "swish": "silu", "gelu_new": "gelu_tanh",
         "gelu_pytorch_tanh": "gelu_tanh", "gelu_fast": "gelu_tanh", "relu_squared": "relu2"}  # fmt: skip


def activation_name(activation: str | None) -> str | None:
    """The chain's name of an activation, also by its name in transformers; None: no activation."""
    name = _SAME.get(activation, activation)
    if name is not None and name not in ACTIVATIONS:
        raise ArgumentError(f"activation is {activation!r}: use one of {', '.join(ACTIVATIONS)}, or None")
    return name


def _activate(value: Tensor, activation: str | None) -> Tensor:
    return value if activation is None else getattr(ops, activation)(value)


class _Layer:
    """A chain whose first parameter is x[M, k], with M symbolic."""

    def __init__(self, name: str, dtype: str, exact_f32: bool):
        self.chain = Chain(name)
        self.dtype = dtype
        self.exact_f32 = exact_f32
        self.rows = self.chain.symbol("M", 1, _ROWS)

    def product(self, equation: str, x: Tensor, w: Tensor, ragged: ops.Ragged | None = None,
                fast_accum: bool = False) -> Tensor:  # fmt: skip
        return ops.contract(equation, x, w, ragged, true_f32=self.exact_f32, fast_accum=fast_accum)

    def function(self, value: Tensor, recompute: str = "unstored") -> ChainFunction:
        self.chain.output(value, self.dtype)
        return ChainFunction(self.chain, exact=False, recompute=recompute)


@functools.cache
def linear(dtype: str, bias: bool, activation: str | None, exact_f32: bool,
           recompute: str = "unstored") -> ChainFunction:  # fmt: skip
    """activation(x[..., k] w[n, k]^T + b[n])."""
    layer = _Layer("linear", dtype, exact_f32)
    x = layer.chain.input("x", dtype, (layer.rows, _IN))
    w = layer.chain.weight("w", dtype, (_OUT, _IN))
    y = layer.product("mk,nk->mn", x, w)
    if bias:
        y = y + layer.chain.weight("b", dtype, (_OUT,))
    return layer.function(_activate(y, activation), recompute)


@functools.cache
def quantized_linear(dtype: str, q: str, shape: tuple[int, int], group: int, scale: str, zero: bool, bias: bool,
                     activation: str | None) -> ChainFunction:  # fmt: skip
    """activation(x[..., k] ((q - zero) scale)^T + b[n]): q packed, of the shape [n, k]; a scale for `group` columns."""
    layer = _Layer("quantized_linear", dtype, False)
    n, k = shape
    blocks = (n, -(-k // group))
    x = layer.chain.input("x", dtype, (layer.rows, k))
    weight = layer.chain.weight("weight", q, shape, packed=True)
    scales = layer.chain.weight("scale", scale, blocks)
    zeros = layer.chain.weight("zero", "i8", blocks) if zero else None
    y = layer.product("mk,nk->mn", x, ops.dequant(weight, scales, 1, group, zeros))
    if bias:
        y = y + layer.chain.weight("bias", dtype, (n,))
    layer.chain.word("rounded_weights")
    return layer.function(_activate(y, activation))


@functools.cache
def scaled_linear(dtype: str, x_rows: bool, w_rows: bool, bias: str | None, activation: str | None, out: str,
                  divided: bool, fast_accum: bool) -> ChainFunction:  # fmt: skip
    """activation(x[..., k] w[n, k]^T sx sw + b[n]) / so: sx [...] or [1], sw [n] or [1], so [1]; `bias`: its dtype."""
    layer = _Layer("scaled_linear", dtype, False)
    x = layer.chain.input("x", dtype, (layer.rows, _IN))
    w = layer.chain.weight("w", dtype, (_OUT, _IN))
    sx = layer.chain.input("x_scale", "f32", (layer.rows if x_rows else 1,))
    sw = layer.chain.weight("w_scale", "f32", (_OUT if w_rows else 1,))
    y = layer.product("mk,nk->mn", x, w, fast_accum=fast_accum) * (sx @ "m" if x_rows else sx) * sw
    if bias is not None:
        y = y + layer.chain.weight("b", bias, (_OUT,))
    return _scaled_result(layer, _activate(y, activation), out, divided)


@functools.cache
def scaled_ragged(dtype: str, x_rows: bool, w_scale: str, bias: str | None, activation: str | None, out: str,
                  divided: bool, fast_accum: bool) -> ChainFunction:  # fmt: skip
    """The same by the group of each row: w [e, n, k], sw [e, n], [e] or [1] (`w_scale`: "channel", "group", "tensor"),
    b [e, n]."""
    layer = _Layer("scaled_ragged", dtype, False)
    x = layer.chain.input("x", dtype, (layer.rows, _IN))
    w = layer.chain.weight("w", dtype, (_GROUPS, _OUT, _IN))
    ends = layer.chain.input("ends", "i32", (_GROUPS,))
    sx = layer.chain.input("x_scale", "f32", (layer.rows if x_rows else 1,))
    sizes, labels = {"channel": ((_GROUPS, _OUT), "en"), "group": ((_GROUPS,), "e"), "tensor": ((1,), "")}[w_scale]
    sw = layer.chain.weight("w_scale", "f32", sizes)
    y = layer.product("mk,enk->mn", x, w, ops.Ragged("m", ends, "e"), fast_accum)
    y = y * (sx @ "m" if x_rows else sx) * (sw @ labels if labels else sw)
    if bias is not None:
        y = y + layer.chain.weight("b", bias, (_GROUPS, _OUT)) @ "en"
    return _scaled_result(layer, _activate(y, activation), out, divided)


def _scaled_result(layer: _Layer, y: Tensor, out: str, divided: bool) -> ChainFunction:
    if divided:
        y = y / layer.chain.input("out_scale", "f32", (1,))
    layer.chain.output(y, out)
    return ChainFunction(layer.chain, exact=False)


@functools.cache
def glu(dtype: str, bias: bool, activation: str | None, exact_f32: bool, recompute: str = "unstored") -> ChainFunction:
    """activation(x wg^T + bg) * (x wu^T + bu), both weights [n, k]."""
    layer = _Layer("glu", dtype, exact_f32)
    x = layer.chain.input("x", dtype, (layer.rows, _IN))
    wg = layer.chain.weight("wg", dtype, (_OUT, _IN))
    wu = layer.chain.weight("wu", dtype, (_OUT, _IN))
    gate, up = layer.product("mk,nk->mn", x, wg), layer.product("mk,nk->mn", x, wu)
    if bias:
        gate = gate + layer.chain.weight("bg", dtype, (_OUT,))
        up = up + layer.chain.weight("bu", dtype, (_OUT,))
    return layer.function(_activate(gate, activation) * up, recompute)


@functools.cache
def glu_mlp(dtype: str, activation: str | None, exact_f32: bool, recompute: str = "unstored") -> ChainFunction:
    """(activation(x wg^T) * (x wu^T)) wd^T: wg, wu [n, k], wd [k, n]."""
    layer = _Layer("glu_mlp", dtype, exact_f32)
    x = layer.chain.input("x", dtype, (layer.rows, _IN))
    wg = layer.chain.weight("wg", dtype, (_INNER, _IN))
    wu = layer.chain.weight("wu", dtype, (_INNER, _IN))
    wd = layer.chain.weight("wd", dtype, (_OUT, _INNER))
    h = _activate(layer.product("mk,nk->mn", x, wg), activation) * layer.product("mk,nk->mn", x, wu)
    return layer.function(layer.product("mk,nk->mn", ops.cast(h, dtype), wd), recompute)


@functools.cache
def groups(dtype: str, bias: bool, activation: str | None, exact_f32: bool,
           recompute: str = "unstored") -> ChainFunction:  # fmt: skip
    """activation(x[..., g, k] w[g, n, k]^T + b[g, n])."""
    layer = _Layer("grouped_linear", dtype, exact_f32)
    x = layer.chain.input("x", dtype, (layer.rows, _GROUPS, _IN))
    w = layer.chain.weight("w", dtype, (_GROUPS, _OUT, _IN))
    y = layer.product("mgk,gnk->mgn", x, w)
    if bias:
        y = y + layer.chain.weight("b", dtype, (_GROUPS, _OUT)) @ "gn"
    return layer.function(_activate(y, activation), recompute)


@functools.cache
def ragged(dtype: str, bias: bool, activation: str | None, exact_f32: bool,
           recompute: str = "unstored") -> ChainFunction:  # fmt: skip
    """activation(x[m, k] w[e, n, k]^T + b[e, n]) by the group of each row, which ends[e] divide."""
    layer = _Layer("ragged_linear", dtype, exact_f32)
    x = layer.chain.input("x", dtype, (layer.rows, _IN))
    w = layer.chain.weight("w", dtype, (_GROUPS, _OUT, _IN))
    ends = layer.chain.input("ends", "i32", (_GROUPS,))
    y = layer.product("mk,enk->mn", x, w, ops.Ragged("m", ends, "e"))
    if bias:
        y = y + layer.chain.weight("b", dtype, (_GROUPS, _OUT)) @ "en"
    return layer.function(_activate(y, activation), recompute)


@functools.cache
def ragged_glu_mlp(dtype: str, bias: bool, scaled: bool, activation: str | None, exact_f32: bool,
                   recompute: str = "none") -> ChainFunction:  # fmt: skip
    """s[m] * ((activation(x wg^T + bg) * (x wu^T + bu)) wd^T + bd) by the group of each row.

    wg, wu [e, n, k], wd [e, k, n], bg, bu [e, n], bd [e, k].
    """
    layer = _Layer("ragged_glu_mlp", dtype, exact_f32)
    x = layer.chain.input("x", dtype, (layer.rows, _IN))
    wg = layer.chain.weight("wg", dtype, (_GROUPS, _INNER, _IN))
    wu = layer.chain.weight("wu", dtype, (_GROUPS, _INNER, _IN))
    wd = layer.chain.weight("wd", dtype, (_GROUPS, _OUT, _INNER))
    ends = layer.chain.input("ends", "i32", (_GROUPS,))
    split = ops.Ragged("m", ends, "e")
    biases = [layer.chain.weight(name, dtype, (_GROUPS, size)) @ "en"
              for name, size in (("bg", _INNER), ("bu", _INNER), ("bd", _OUT)) if bias]  # fmt: skip
    gate, up = layer.product("mk,enk->mn", x, wg, split), layer.product("mk,enk->mn", x, wu, split)
    if bias:
        gate, up = gate + biases[0], up + biases[1]
    h = ops.cast(_activate(gate, activation) * up, dtype)
    y = layer.product("mk,enk->mn", h, wd, split)
    if bias:
        y = y + biases[2]
    if scaled:
        y = y * layer.chain.input("s", dtype, (layer.rows,)).labeled("m")
    return layer.function(y, recompute)
