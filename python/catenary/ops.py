# SPDX-License-Identifier: Apache-2.0
"""The operations of a chain, by the names of chain text and of include/catenary/chain.hpp."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

from catenary import _native
from catenary._native import lib
from catenary.arguments import encode, flag, instance, instance_or_none, integer, optional
from catenary.chain import Tensor, chain_of, elementwise, elementwise_by_group
from catenary.errors import ArgumentError
from catenary.operand import DType


@dataclass(frozen=True)
class Ragged:
    """Divides label `label` into groups: group g, an index of `group`, has indices ends[g-1] to ends[g] - 1.

    `ends` is an i32 parameter with one element per group, ascending; kernels read it on the device. Indices from the
    last end on belong to no group.
    """

    label: str
    ends: Tensor
    group: str


def contract(
    equation: str,
    left: Tensor,
    right: Tensor,
    ragged: Ragged | None = None,
    name: str = "",
    true_f32: bool = False,
    fast_accum: bool = False,
) -> Tensor:
    """`contract("mk,nk->mn", x, w)`: one letter per dimension; a label of both operands only is summed.

    Args:
        ragged: rows of M or of K by group: `contract("mk,enk->mn", x, w, Ragged("m", ends, "e"))`.
        true_f32: f32 operands are multiplied in f32, not rounded to tf32.
        fast_accum: sums of fp8 products stay in the tensor cores, which keep 13 fraction bits of them; without it
            they are added to sums in f32 after every 128 terms.
    """
    values = [instance(left, Tensor, "the left operand"), instance(right, Tensor, "the right operand")]
    parts = None
    if instance_or_none(ragged, Ragged, "ragged") is not None:
        values.append(instance(ragged.ends, Tensor, "ragged.ends"))
        parts = ctypes.byref(_ragged(ragged))
    chain = chain_of(*values)
    return chain._value(
        _result_rank(equation),
        lib.ctn_chain_contract,
        encode(equation),
        left.value,
        right.value,
        int(flag(true_f32, "true_f32")) | 2 * int(flag(fast_accum, "fast_accum")),
        parts,
        optional(name),
    )


def linear(x: Tensor, w: Tensor, bias: Tensor | None = None, name: str = "") -> Tensor:
    """A linear layer: x[..., k] times w[n, k], plus bias[n], is [..., n]."""
    instance(x, Tensor, "x")
    # Before the product is added: a refused call leaves the chain as it is.
    if bias is not None:
        chain_of(x, instance(w, Tensor, "w"), bias)
    rows = "m" if x.rank == 2 else "abcdefgh"[: max(x.rank - 1, 0)]
    product = contract(f"{rows}k,nk->{rows}n", x, w, name=name)
    return product if bias is None else product + bias


def dequant(
    q: Tensor, scale: Tensor, block_rows: int, block_columns: int, zero: Tensor | None = None, name: str = ""
) -> Tensor:
    """The weight (q - zero) * scale of integers `q`, for `linear` and `contract` with a bf16 or f16 tensor, and for `cast`
    to one of these: a matrix like any other.

    For q of e4m3 or e5m2 the weight is q * scale, without zeros; the other operand has the same dtype.
    Blocks of block_rows x block_columns of `q` share one scale and zero: `dequant(q, s, 1, 128)` has s[n, k / 128].
    All three are parameters; `zero` is an integer.
    """
    values = [instance(q, Tensor, "q"), instance(scale, Tensor, "the scale")]
    if instance_or_none(zero, Tensor, "the zero") is not None:
        values.append(zero)
    chain = chain_of(*values)
    return chain._value(
        q.rank,
        lib.ctn_chain_dequant,
        q.value,
        scale.value,
        -1 if zero is None else zero.value,
        integer(block_rows, "block_rows"),
        integer(block_columns, "block_columns"),
        optional(name),
    )


def sum(equation: str, x: Tensor, name: str = "", ragged: Ragged | None = None) -> Tensor:
    """`sum("mn->n", t)` sums over m, `sum("mn->en", t, ragged=Ragged("m", ends, "e"))` over the rows of each group."""
    instance(x, Tensor, "x")
    if instance_or_none(ragged, Ragged, "ragged") is not None:
        chain = chain_of(x, instance(ragged.ends, Tensor, "ragged.ends"))
        parts = ctypes.byref(_ragged(ragged))
        arguments = encode(equation), x.value, parts, optional(name)
        return chain._value(_result_rank(equation), lib.ctn_chain_sum_by_group, *arguments)
    return x.chain._value(_result_rank(equation), lib.ctn_chain_sum, encode(equation), x.value, optional(name))


def by_group(
    op: str, ragged: Ragged, *operands: Tensor | float, attributes: Sequence[float] = (), name: str = ""
) -> Tensor:
    """An elementwise operation with operands by the group of a row, where no contraction says which it is.

    `by_group("mul", Ragged("m", ends, "e"), x @ "mn", s @ "e")` multiplies a row of group g by s[g]; a row of no group
    takes 0 in place of such an operand.
    """
    instance(ragged, Ragged, "ragged")
    chain_of(instance(ragged.ends, Tensor, "ragged.ends"), *operands)
    return elementwise_by_group(op, operands, attributes, name, _ragged(ragged))


def reduce_max(equation: str, x: Tensor, name: str = "") -> Tensor:
    """`reduce_max("mn->m", t)` is the largest element over n: NaN if one is, -inf if there is none."""
    instance(x, Tensor, "x")
    return x.chain._value(
        _result_rank(equation), lib.ctn_chain_reduce, b"reduce_max", encode(equation), x.value, optional(name)
    )


def cast(x: Tensor, dtype: DType, name: str = "") -> Tensor:
    """Rounds to `dtype`. Besides casts, a chain rounds its outputs only."""
    instance(x, Tensor, "x")
    return x.chain._value(x.rank, lib.ctn_chain_cast, x.value, DType.of(dtype), optional(name))


def _result_rank(equation: str) -> int:
    return len(encode(equation).partition(b"->")[2])


def _ragged(ragged: Ragged) -> _native.Ragged:
    return _native.Ragged(label=_letter(ragged.label), group=_letter(ragged.group), ends=ragged.ends.value)


def _letter(label: str) -> bytes:
    data = encode(label)
    if len(data) != 1:
        raise ArgumentError(f"label {label!r} of Ragged has {len(data)} letters: give one")
    return data


def _unary(op: str):
    def function(x: Tensor, name: str = "") -> Tensor:
        return elementwise(op, x, name=name)

    function.__name__ = function.__qualname__ = op
    function.__doc__ = f"`{op}(x)` of every element; edge cases are in ir/README.md."
    return function


def _binary(op: str):
    def function(a: Tensor | float, b: Tensor | float, name: str = "") -> Tensor:
        return elementwise(op, a, b, name=name)

    function.__name__ = function.__qualname__ = op
    function.__doc__ = f"`{op}(a, b)` of every pair of elements; edge cases are in ir/README.md."
    return function


relu, relu2, gelu, gelu_tanh, quick_gelu, silu, sigmoid, tanh, softplus, exp, neg = map(
    _unary, "relu relu2 gelu gelu_tanh quick_gelu silu sigmoid tanh softplus exp neg".split()
)
abs, square, sqrt, rsqrt, recip, exp2, log, erf, sin, cos = map(
    _unary, "abs square sqrt rsqrt recip exp2 log erf sin cos".split()
)
add, sub, mul, div, min, max, scale = map(_binary, "add sub mul div min max scale".split())
lt, le, gt, ge, eq, ne = map(_binary, "lt le gt ge eq ne".split())


def leaky_relu(x: Tensor, slope: float, name: str = "") -> Tensor:
    """x where it is positive, else slope * x."""
    return elementwise("leaky_relu", x, attributes=[slope], name=name)


def clamp(x: Tensor, lo: float, hi: float, name: str = "") -> Tensor:
    """x, at least lo and at most hi; NaN stays."""
    return elementwise("clamp", x, attributes=[lo, hi], name=name)


def pow(x: Tensor, exponent: int, name: str = "") -> Tensor:
    """x to a whole power from -64 to 64. x^0 is 1 for every x, also for a NaN."""
    return elementwise("pow", x, attributes=[exponent], name=name)


def select(condition: Tensor, a: Tensor | float, b: Tensor | float, name: str = "") -> Tensor:
    """a where `condition` is not 0, else b. Nothing of the other operand reaches the result."""
    return elementwise("select", condition, a, b, name=name)
