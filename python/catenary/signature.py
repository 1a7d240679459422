# SPDX-License-Identifier: Apache-2.0
"""The operands of a chain, and how arguments of a call are bound to them and checked: `Signature`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from catenary.arguments import finite_in_f32, is_number, number, shown
from catenary.arrays import View, accepts, is_bytes
from catenary.chain import Chain
from catenary.errors import ArgumentError, ArgumentTypeError
from catenary.operand import Operand, Role, symbol

MOST_SIZES = 1024  # distinct layouts of arguments that a chain remembers


class Signature:
    """The operands of a chain, and how arguments of a call are bound to them."""

    def __init__(self, chain: Chain):
        self.name = chain.name
        self.parameters = chain.parameters
        self.outputs = chain.outputs
        self.symbol = chain.symbol_range
        self.numbers = [i for i, p in enumerate(self.parameters) if p.role != Role.scalar]
        self.tensors = [self.parameters[i] for i in self.numbers]
        self._names = {p.name: i for i, p in enumerate(self.parameters)}
        self._only_tensors = len(self.tensors) == len(self.parameters)
        self._sizes: dict[Any, int] = {}  # by what size() has accepted

    def bind(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> tuple[list[Any], list[float]]:
        """The tensors and the scalars of a call, by position in the order of the parameters, or by name."""
        count = len(self.parameters)
        if self._only_tensors and len(arguments) == count and not named:
            return list(arguments), []
        if len(arguments) > count or (not named and len(arguments) != count):
            raise ArgumentError(
                f"chain '{self.name}' takes {count} arguments, got {len(arguments)}: pass {', '.join(self._names)}"
            )
        values = list(arguments) + [None] * (count - len(arguments))
        for name, value in named.items():
            index = self._names.get(name)
            if index is None or index < len(arguments):
                why = "twice" if index is not None else "and no parameter has this name"
                raise ArgumentError(f"chain '{self.name}' is called with '{name}' {why}: pass {', '.join(self._names)}")
            values[index] = value
        missing = [p.name for p, value in zip(self.parameters, values, strict=True) if value is None]
        if missing:
            raise ArgumentError(f"chain '{self.name}' is called without '{missing[0]}': pass {', '.join(self._names)}")
        tensors, scalars = [], []
        for parameter, value in zip(self.parameters, values, strict=True):
            if parameter.role == Role.scalar:
                scalars.append(self._scalar(parameter, value))
            else:
                tensors.append(value)
        return tensors, scalars

    @staticmethod
    def _scalar(parameter: Operand, value: Any) -> float:
        who = f"argument '{parameter.name}'"
        try:
            found = number(value, who)
        except ArgumentError:
            if not is_number(value) or not hasattr(value, "dtype"):
                raise
            # A tracer of JAX, or a tensor without memory: its own error has many lines.
            raise ArgumentTypeError(f"{who} is {shown(value)}, whose value is not known: pass a float") from None
        return finite_in_f32(found, value, who)

    def size(self, views: Sequence[View], outputs: Sequence[View | None]) -> int:
        """Checks dtype, shape and strides of all tensors; returns the symbolic size, 0 without a symbol."""
        key = tuple((v.dtype_name, v.shape, v.strides) if v is not None else None for v in (*views, *outputs))
        size = self._sizes.get(key)
        if size is None:
            size = self._checked_size(views, outputs)
            if len(self._sizes) >= MOST_SIZES:
                self._sizes.clear()
            self._sizes[key] = size
        return size

    def _checked_size(self, views: Sequence[View], outputs: Sequence[View | None]) -> int:
        size = None
        for operand, found in zip([*self.tensors, *self.outputs], [*views, *outputs], strict=True):
            if found is not None:
                size = self._check(operand, found, size)
        if self.symbol is None:
            return 0
        if size is None:
            raise ArgumentError(f"no argument of chain '{self.name}' has the size {self.symbol.name}: pass out=")
        if not self.symbol.lo <= size <= self.symbol.hi:
            raise ArgumentError(
                f"the size {self.symbol.name} is {size}: chain '{self.name}' takes {self.symbol.lo} to {self.symbol.hi}"
            )
        return size

    def _check(self, operand: Operand, found: View, size: int | None) -> int | None:
        who = f"{'output' if operand.is_output else 'argument'} '{operand.name}'"
        if operand.is_bytes:
            self._check_bytes(who, operand, found)
            return size
        if not accepts(found, operand.dtype):
            raise ArgumentError(
                f"{who} has dtype {found.dtype_name}, and the chain takes {operand.dtype}: convert it, "
                "or declare its dtype in the chain"
            )
        if len(found.shape) != len(operand.shape):
            raise ArgumentError(
                f"{who} has shape {list(found.shape)}, and the chain takes {self._shape(operand)}: pass "
                f"{len(operand.shape)} dimensions"
            )
        for got, want in zip(found.shape, operand.shape, strict=True):
            if want is symbol:
                size = got if size is None else size
                want = size
            if got != want:
                at = f" with {self.symbol.name} = {size}" if self.symbol and size is not None else ""
                raise ArgumentError(
                    f"{who} has shape {list(found.shape)}, and the chain takes {self._shape(operand)}{at}"
                )
        for n, got, want in zip(found.shape, found.strides, operand.strides, strict=True):
            # The stride of a dimension of size 1 is never used, nor any of an empty tensor.
            if n > 1 and got != want and 0 not in found.shape:
                raise ArgumentError(
                    f"{who} has strides {list(found.strides)}, and the chain takes "
                    f"{list(operand.strides)} elements: make it contiguous, or declare its strides in "
                    "the chain"
                )
        return size

    @staticmethod
    def _check_bytes(who: str, operand: Operand, found: View) -> None:
        shape = operand.bytes_shape()
        kind = "packed" if operand.packed else "two elements a byte"
        source = f", as catenary.repack returns it for a weight {list(operand.shape)}" if operand.packed else ""
        if not is_bytes(found) or found.shape != shape:
            raise ArgumentError(
                f"{who} has dtype {found.dtype_name} and shape {list(found.shape)}, and the chain takes "
                f"{operand.dtype}, {kind}: pass uint8 of shape {list(shape)}{source}"
            )
        strides = operand.bytes_strides()
        if any(n > 1 and got != want for n, got, want in zip(shape, found.strides, strides, strict=True)):
            raise ArgumentError(
                f"{who} has strides {list(found.strides)}, and the chain takes {list(strides)} bytes: make it "
                "contiguous, or declare its strides in the chain"
            )

    def _shape(self, operand: Operand) -> str:
        name = self.symbol.name if self.symbol else ""
        return "[" + ", ".join(name if n is symbol else str(n) for n in operand.shape) + "]"

    def given_outputs(self, out: Any) -> list[Any]:
        """One entry per output: the caller's array, or None."""
        count = len(self.outputs)
        if out is None:
            return [None] * count
        given = list(out) if isinstance(out, (tuple, list)) else [out]
        if len(given) != count:
            raise ArgumentError(
                f"chain '{self.name}' has {count} outputs, and out has {len(given)}: pass one each, "
                "None for one to be allocated"
            )
        return given
