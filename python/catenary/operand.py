# SPDX-License-Identifier: Apache-2.0
"""What a tensor of a chain is: `DType`, `Role`, the symbol, and `Operand`, a parameter or an output."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

from catenary import _native
from catenary.arguments import shown
from catenary.errors import ArgumentError


class DType(enum.IntEnum):
    """The type of elements in memory."""

    bf16 = 0
    f16 = 1
    f32 = 2
    i32 = 3
    i8 = 4
    i4 = 5
    """Two elements a byte, the low half first; `u4` likewise."""
    u4 = 6
    e4m3 = 7
    """float8_e4m3fn: no infinity; values beyond 448 are rounded to 448."""
    e5m2 = 8

    @property
    def bits(self) -> int:
        """Bits of one element."""
        return 4 if self in (DType.i4, DType.u4) else 8 * self.itemsize

    @property
    def itemsize(self) -> int:
        """Bytes of one element; of two elements where the dtype has 4 bits."""
        if self in (DType.i8, DType.i4, DType.u4, DType.e4m3, DType.e5m2):
            return 1
        return 2 if self in (DType.bf16, DType.f16) else 4

    def __str__(self) -> str:
        return self.name

    @classmethod
    def of(cls, dtype: Any) -> DType:
        """From a DType, its name, or a dtype of numpy, torch or jax ("bfloat16", numpy.float32, torch.half)."""
        if isinstance(dtype, cls):
            return dtype
        name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
        found = _DTYPES.get(str(name).removeprefix("torch."))
        if found is None:
            raise ArgumentError(
                f"{shown(dtype)} is not a dtype of a chain: use bf16, f16, f32, e4m3, e5m2, i32 for the ends of "
                "groups, or i8, i4 and u4 for quantised weights"
            )
        return found


_DTYPES = {
    "bf16": DType.bf16,
    "bfloat16": DType.bf16,
    "f16": DType.f16,
    "float16": DType.f16,
    "f32": DType.f32,
    "float32": DType.f32,
    "i32": DType.i32,
    "int32": DType.i32,
    "i8": DType.i8,
    "int8": DType.i8,
    "i4": DType.i4,
    "u4": DType.u4,
    "e4m3": DType.e4m3,
    "float8_e4m3fn": DType.e4m3,
    "e5m2": DType.e5m2,
    "float8_e5m2": DType.e5m2,
}


class Role(enum.IntEnum):
    """The role of a parameter's memory: an input may be written by the stream's previous kernel, a weight may not."""

    input = 0
    weight = 1
    scalar = 2


class Symbol:
    """As the size of a dimension: the chain's symbol. There is one object of this class, and no arithmetic with it."""

    _only: ClassVar[Symbol | None] = None

    def __new__(cls) -> Symbol:
        if cls._only is None:
            cls._only = super().__new__(cls)
        return cls._only

    def __repr__(self) -> str:
        return "symbol"

    def __reduce__(self):
        return Symbol, ()

    def _refuse(self, *others: Any) -> NoReturn:
        raise ArgumentError(
            "the symbol is computed with: as in chain text it is a size of a shape and nothing else, so write other "
            "sizes as integers, and declare a Chain.scalar for a number that a launch passes"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __divmod__ = __rdivmod__ = __pow__ = __rpow__ = _refuse
    __neg__ = __pos__ = __abs__ = __invert__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __int__ = __float__ = __index__ = __round__ = __trunc__ = __floor__ = __ceil__ = _refuse


symbol = Symbol()


def dims_of(numbers: Sequence[int]) -> tuple[int | Symbol, ...]:
    """A shape from sizes of the C ABI."""
    return tuple(symbol if n == _native.SYMBOL else n for n in numbers)


@dataclass(frozen=True)
class SymbolRange:
    """The chain's symbolic size: lo <= name <= hi."""

    name: str
    lo: int
    hi: int


@dataclass(frozen=True)
class Operand:
    """A parameter or an output of a chain."""

    name: str
    """The name of the parameter, or of the value that the output stores."""
    is_output: bool
    role: Role
    """The parameter's role; Role.input for an output."""
    dtype: DType
    shape: tuple[int | Symbol, ...]
    """Sizes, or `catenary.symbol`."""
    strides: tuple[int, ...]
    """Elements from one index to the next."""
    align: int
    """The address is a multiple of this many bytes."""
    bytes: int
    """From the first element to the last, at the symbol's upper bound; of a packed tensor with its padding."""
    in_place: int | None
    """The number of the parameter that the output overwrites; None: it overwrites none."""
    packed: bool = False
    """In the packed layout of quantised weights, which strides do not describe."""

    def shape_for(self, size: int) -> tuple[int, ...]:
        """The shape where the symbol is `size`."""
        return tuple(size if isinstance(n, Symbol) else n for n in self.shape)

    @property
    def is_bytes(self) -> bool:
        """Whether its array has bytes for elements: it is packed, or an element has 4 bits."""
        return self.packed or self.dtype.bits < 8

    def bytes_shape(self) -> tuple[int, ...]:
        """The shape of its array where that has bytes: all of a packed tensor, else rows of two elements a byte."""
        if self.packed:
            return (self.bytes,)
        return (*self.shape[:-1], (self.shape[-1] + 1) // 2)

    def bytes_strides(self) -> tuple[int, ...]:
        """The strides of that array: rows of two elements a byte begin with a byte."""
        return (1,) if self.packed else (*(n // 2 for n in self.strides[:-1]), 1)
