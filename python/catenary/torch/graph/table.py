# SPDX-License-Identifier: Apache-2.0
"""Which operations of ATen a region may hold, and what they are in a chain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from catenary.torch.graph.expression import Expression, make
from catenary.torch.graph.scaled import SCALED
from catenary.torch.operators import FP8

aten, prims = torch.ops.aten, torch.ops.prims

FLOATS = (torch.float32, torch.bfloat16, torch.float16)

# Matrix products: the positions of left, right and added operand among the arguments, and the dimensions.
PRODUCTS = {
    aten.mm.default: (0, 1, None),
    aten.addmm.default: (1, 2, 0),
    aten.bmm.default: (0, 1, None),
    aten.baddbmm.default: (1, 2, 0),
    aten._grouped_mm.default: (0, 1, None),
    **{target: (0, 1, None) for target in SCALED},
}


def _unary(op: str) -> Callable[..., Expression]:
    return lambda x: make(op, x)


def _binary(op: str) -> Callable[..., Expression]:
    return lambda a, b: make(op, a, b)


def _add(a: Any, b: Any, alpha: float = 1) -> Expression:
    return make("add", a, b if alpha == 1 else make("mul", b, alpha))


def _sub(a: Any, b: Any, alpha: float = 1) -> Expression:
    return make("sub", a, b if alpha == 1 else make("mul", b, alpha))


def _clamp(x: Any, lo: float | None = None, hi: float | None = None) -> Expression:
    if lo is not None and hi is not None:
        return make("clamp", x, lo, hi)
    if lo is not None:
        return make("relu", x) if lo == 0 else make("max", x, lo)
    return make("min", x, hi)


def _gelu(x: Any, approximate: str = "none") -> Expression:
    return make("gelu" if approximate == "none" else "gelu_tanh", x)


def _pow(x: Any, exponent: float) -> Expression | None:
    if abs(exponent) == 0.5:
        return make("sqrt" if exponent > 0 else "rsqrt", x)
    if float(exponent).is_integer() and abs(exponent) <= 64:
        return make("square", x) if exponent == 2 else make("pow", x, int(exponent))
    return None


def _convert(x: Any, dtype: torch.dtype) -> Expression | None:
    """Values of a region are f32 until they are stored; fp8 saturates in a chain only, so that its values must be
    within its range."""
    if dtype not in FP8:
        return x
    largest = torch.finfo(dtype).max
    fits = isinstance(x, tuple) and x[0] == "clamp" and -largest <= x[2] and x[3] <= largest
    return make("cast", x, FP8[dtype]) if fits else None


# An operation gets expressions and numbers, and returns an expression, or None: no chain has it.
POINTWISE: dict[Any, Callable[..., Expression | None]] = {
    aten.add.Tensor: _add, aten.add.Scalar: _add, aten.sub.Tensor: _sub, aten.sub.Scalar: _sub,
    aten.mul.Tensor: _binary("mul"), aten.mul.Scalar: _binary("mul"), aten.div.Tensor: _binary("div"),
    aten.div.Scalar: _binary("div"), aten.maximum.default: _binary("max"), aten.minimum.default: _binary("min"),
    aten.neg.default: _unary("neg"), aten.exp.default: _unary("exp"), aten.exp2.default: _unary("exp2"),
    aten.tanh.default: _unary("tanh"), aten.sigmoid.default: _unary("sigmoid"), aten.relu.default: _unary("relu"),
    aten.erf.default: _unary("erf"), aten.sqrt.default: _unary("sqrt"), aten.rsqrt.default: _unary("rsqrt"),
    aten.reciprocal.default: _unary("recip"), aten.abs.default: _unary("abs"), aten.sin.default: _unary("sin"),
    aten.cos.default: _unary("cos"), aten.log.default: _unary("log"), aten.silu.default: _unary("silu"),
    aten.gelu.default: _gelu, aten.clamp.default: _clamp, aten.clamp_min.default: lambda x, lo: _clamp(x, lo),
    aten.clamp_max.default: lambda x, hi: _clamp(x, None, hi), aten.pow.Tensor_Scalar: _pow,
    aten.square.default: _unary("square"),
    prims.convert_element_type.default: _convert,
}  # fmt: skip


def applied(node: torch.fx.Node, arguments: Sequence[Any]) -> Expression | None:
    """A pointwise node of these arguments; None: no chain has it, or a number of it (alpha) is symbolic."""
    named = {name: value for name, value in node.kwargs.items() if name != "dtype"}
    if any(isinstance(value, torch.fx.Node) for value in named.values()):
        return None
    return POINTWISE[node.target](*arguments, **named)


VIEWS = {aten.reshape.default, aten.view.default, aten._unsafe_view.default, aten.permute.default,
         aten.unsqueeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.t.default, aten.transpose.int}  # fmt: skip

SPLITS = {aten.split.Tensor, aten.split_with_sizes.default}


def is_library_call(node: torch.fx.Node) -> bool:
    """Whether Inductor calls a library or an operator for a node, so that no pointwise kernel takes its operand."""
    if node.op == "output" or node.target in PRODUCTS:
        return True
    namespace = getattr(node.target, "namespace", "")
    return "attention" in str(node.target) or namespace not in ("aten", "prims", "")


def is_quantised(node: torch.fx.Node) -> bool:
    """Whether the node rounds to fp8."""
    return node.target is prims.convert_element_type.default and node.args[1] in FP8


def is_float(node: torch.fx.Node) -> bool:
    """Whether the node is a tensor of a dtype that a chain stores."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype in FLOATS
