# SPDX-License-Identifier: Apache-2.0
"""The gradient of a chain as chains: the forward with saved values, and the backward chains, with a table of
operands. Mirrors include/catenary/gradient.hpp; the rules are in docs/gradients.md."""

from __future__ import annotations

import ctypes
import enum
from collections.abc import Sequence
from dataclasses import dataclass

from catenary import _native
from catenary._native import lib
from catenary.arguments import flag, instance, integer, names, shown
from catenary.chain import Chain
from catenary.errors import ArgumentError, Handle, check, result
from catenary.operand import DType, Symbol, dims_of


class Recompute(enum.IntEnum):
    """What the forward saves for the backward."""

    none = 0
    """The fewest bytes with which the backward repeats no contraction or sum."""
    all = 1
    """Nothing is saved: the backward repeats contractions and sums."""
    budget = 2
    """Values of at most `save_budget` bytes."""
    unstored = 3
    """As `none`, and elementwise results that the forward stores for its own contractions."""


class GradientKind(enum.IntEnum):
    """What an operand of a gradient is."""

    input = 0
    weight = 1
    scalar = 2
    output = 3
    saved = 4
    of_output = 5
    of_input = 6
    of_weight = 7
    of_scalar = 8
    intermediate = 9
    accumulator = 10


class Pass(enum.IntEnum):
    """What a chain of a gradient computes."""

    forward = 0
    backward = 1
    dgrad = 2
    wgrad = 3


@dataclass(frozen=True)
class GradientOperand:
    """One operand of a chain. Two operands of equal kind and index are the same tensor."""

    kind: GradientKind
    index: int
    """The number of a parameter or output of the forward, or a count from 0, as the kind says."""
    is_output: bool
    name: str
    dtype: DType
    shape: tuple[int | Symbol, ...]
    """Sizes, or `catenary.symbol`."""
    strides: tuple[int, ...]
    """In elements."""
    bytes: int
    """From the first element to the last, at the symbol's upper bound."""
    parameter_dims: tuple[int, ...] | None
    """Of a gradient of a parameter or its accumulator: per dimension that of the parameter's; else None."""


@dataclass(frozen=True)
class GradientChain:
    """One chain of a gradient, to be compiled as any other."""

    chain: Chain
    pass_: Pass
    operands: tuple[GradientOperand, ...]
    """The parameters in order, scalars too, then the outputs."""


@dataclass(frozen=True)
class Gradient:
    """The chains of a gradient, in the order of launches; the first is the forward."""

    chains: tuple[GradientChain, ...]
    saved_bytes: int
    """Bytes of the saved values, at the symbol's upper bound."""

    @property
    def forward(self) -> GradientChain:
        """The forward, with saved values as further outputs."""
        return self.chains[0]

    @property
    def backward(self) -> tuple[GradientChain, ...]:
        """The chains after the forward: one backward, or a dgrad and a wgrad."""
        return self.chains[1:]


def recompute_kind(given: Recompute | str) -> Recompute:
    """What `gradient` takes for `recompute`. ArgumentError: nothing that it has."""
    try:
        return Recompute[given] if isinstance(given, str) else Recompute(given)
    except (KeyError, TypeError, ValueError):
        raise ArgumentError(f"recompute is {shown(given)}: use 'none', 'unstored', 'all' or 'budget'") from None


def gradient(
    chain: Chain,
    *,
    wanted: Sequence[str] | str = (),
    outputs: Sequence[str] | str = (),
    recompute: Recompute | str = Recompute.none,
    save_budget: int = 0,
    save_f32: bool = False,
    f32_weights: bool = False,
    accumulate: bool = False,
) -> Gradient:
    """The chains of the gradient of `chain`.

    Args:
        wanted: names of parameters; none: every input and weight of a float dtype.
        outputs: names of those that the loss depends on; none: all.
        recompute: what is saved; also by name, "all".
        save_budget: bytes at the symbol's upper bound, for Recompute.budget.
        save_f32: f32 values are saved as f32, not in the dtype of the operands.
        f32_weights: gradients of weights are f32, not of the weight's dtype.
        accumulate: gradients of weights are added to tensors of the caller.

    Raises ArgumentError for an option, UnsupportedError for an output in place or an operand by the group of its row.
    """
    instance(chain, Chain, "the chain")
    wanted_names, output_names = names(wanted, "wanted"), names(outputs, "outputs")
    kind = recompute_kind(recompute)
    options = _native.GradientOptions(
        wanted=(ctypes.c_char_p * len(wanted_names))(*wanted_names),
        num_wanted=len(wanted_names),
        outputs=(ctypes.c_char_p * len(output_names))(*output_names),
        num_outputs=len(output_names),
        recompute=kind,
        save_f32=flag(save_f32, "save_f32"),
        save_budget=integer(save_budget, "save_budget"),
        f32_weights=flag(f32_weights, "f32_weights"),
        accumulate=flag(accumulate, "accumulate"),
    )
    handle = Handle(lib.ctn_gradient_destroy, lib.ctn_chain_gradient, chain._handle.pointer, ctypes.byref(options))
    count = result(ctypes.c_size_t, lib.ctn_gradient_count, handle.pointer)
    return Gradient(
        tuple(_chain(handle, index) for index in range(count)),
        result(ctypes.c_int64, lib.ctn_gradient_saved_bytes, handle.pointer),
    )


def _chain(handle: Handle, index: int) -> GradientChain:
    kind = ctypes.c_int32()
    chain = Chain._adopt(lambda made: lib.ctn_gradient_chain(handle.pointer, index, made, ctypes.byref(kind)))
    count = result(ctypes.c_size_t, lib.ctn_gradient_operand_count, handle.pointer, index)
    operands = tuple(_operand(handle, index, number) for number in range(count))
    return GradientChain(chain, Pass(kind.value), operands)


def _operand(handle: Handle, chain: int, number: int) -> GradientOperand:
    facts = _native.GradientOperand()
    check(lib.ctn_gradient_binding(handle.pointer, chain, number, ctypes.byref(facts)))
    rank = facts.rank
    places = tuple(facts.parameter_dims[:rank]) if facts.parameter_dims else None
    return GradientOperand(
        GradientKind(facts.kind),
        facts.index,
        bool(facts.is_output),
        facts.name.decode(),
        DType(facts.dtype),
        dims_of(facts.dims[:rank]),
        tuple(facts.strides[:rank]),
        facts.bytes,
        places,
    )
