# SPDX-License-Identifier: Apache-2.0
"""Building a chain: `Chain`, its values as `Tensor`, its operands as `Operand`.

The names are those of the C++ builder, include/catenary/chain.hpp; what operations mean is in ir/README.md.
"""

from __future__ import annotations

import ctypes
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from catenary import _native
from catenary._native import lib
from catenary.arguments import (
    INT32,
    counted,
    encode,
    flag,
    instance,
    int64s,
    integer,
    integers,
    is_number,
    items,
    number,
    optional,
    shown,
    utf8,
)
from catenary.errors import ArgumentError, ArgumentTypeError, ChainError, Handle, check, result, text
from catenary.operand import DType, Operand, Role, Symbol, SymbolRange, dims_of, symbol

if TYPE_CHECKING:
    from catenary.compiled import Plan
    from catenary.gradient import Gradient


class Tensor:
    """A value of a chain: a parameter, a constant, or the result of an operation."""

    __slots__ = ("__weakref__", "chain", "labels", "rank", "value")
    __array_ufunc__ = None  # numpy numbers leave the operators to this class

    def __init__(self, chain: Chain, value: int, rank: int, labels: str | None = None):
        self.chain = chain
        self.value = value
        self.rank = rank
        self.labels = labels

    def labeled(self, labels: str) -> Tensor:
        """With a label per dimension, to broadcast by label: `y.labeled("mn") * s.labeled("m")`."""
        encode(labels)
        return Tensor(self.chain, self.value, self.rank, labels)

    def __matmul__(self, labels: str) -> Tensor:
        """`s @ "m"`, as in chain text: `labeled`."""
        if not isinstance(labels, str):
            raise ArgumentTypeError(
                f"{shown(labels)} is {type(labels).__name__}: give labels after @, or use linear or contract"
            )
        return self.labeled(labels)

    def _compare(self, other: object) -> NoReturn:
        raise ArgumentTypeError(
            "a value of a chain is compared by == or !=, which would give a bool of Python: use ctn.eq or ctn.ne, and "
            "`is` for the object"
        )

    def __bool__(self) -> NoReturn:
        raise ArgumentTypeError("a value of a chain is no bool: use ctn.select, or `is None` for the object")

    __eq__ = __ne__ = _compare
    __hash__ = object.__hash__

    def __neg__(self) -> Tensor:
        return elementwise("neg", self)

    def __abs__(self) -> Tensor:
        return elementwise("abs", self)

    def __add__(self, other: Tensor | float) -> Tensor:
        return elementwise("add", self, other)

    def __radd__(self, other: float) -> Tensor:
        return elementwise("add", other, self)

    def __sub__(self, other: Tensor | float) -> Tensor:
        return elementwise("sub", self, other)

    def __rsub__(self, other: float) -> Tensor:
        return elementwise("sub", other, self)

    def __mul__(self, other: Tensor | float) -> Tensor:
        return elementwise("mul", self, other)

    def __rmul__(self, other: float) -> Tensor:
        return elementwise("mul", other, self)

    def __truediv__(self, other: Tensor | float) -> Tensor:
        return elementwise("div", self, other)

    def __rtruediv__(self, other: float) -> Tensor:
        return elementwise("div", other, self)

    def __pow__(self, exponent: int) -> Tensor:
        return elementwise("pow", self, attributes=[exponent])

    def __reduce__(self):
        # A copy would have a chain of its own, where the number may be another value's.
        raise ArgumentTypeError(f"{self!r} is copied or pickled, and a value belongs to its chain: copy the chain")

    def __repr__(self) -> str:
        return f"<Tensor {self.value} of chain '{self.chain.name}', {self.rank} dimensions>"


class Chain:
    """A chain under construction. One thread at a time may change it.

    >>> chain = Chain("layer")
    >>> x = chain.input("x", f32, (64, 128))
    >>> w = chain.weight("w", f32, (256, 128))
    >>> chain.output(silu(linear(x, w)), f32)

    Every call checks what it adds and leaves the chain as it is where it raises: ChainError, ArgumentError,
    UnsupportedError for a limit.
    """

    def __init__(self, name: str):
        self._handle = Handle(lib.ctn_chain_destroy, lib.ctn_chain_create, encode(name))
        self.name = name
        self._facts: _Facts | None = None
        self._may_have_symbol = False

    @classmethod
    def _adopt(cls, *call: Any) -> Chain:
        """The chain that a function of the C ABI makes."""
        chain = cls.__new__(cls)
        chain._handle = Handle(lib.ctn_chain_destroy, *call)
        chain._facts = None
        chain._may_have_symbol = True
        # A symbol, a word such as batch_invariant or the parameters follow the name.
        chain.name = re.split(r"[\s\[(]", chain.text.removeprefix("chain "), maxsplit=1)[0]
        return chain

    @classmethod
    def parse(cls, text: str) -> Chain:
        """From chain text. ParseError.line and .column say where a mistake is."""
        data = utf8(text)
        return cls._adopt(lib.ctn_chain_parse, data, len(data))

    def word(self, word: str) -> None:
        """Gives the chain a word, as after its name in text: batch_invariant, algebraic_norms or rounded_weights."""
        self._facts = None
        check(lib.ctn_chain_word(self._handle.pointer, encode(word)))

    def symbol(self, name: str, lo: int, hi: int) -> Symbol:
        """Declares the symbolic size, lo <= name <= hi, before the first shape with it. Returns it for shapes."""
        self._facts = None
        bounds = integer(lo, f"the lower bound of symbol '{name}'"), integer(hi, f"the upper bound of symbol '{name}'")
        check(lib.ctn_chain_symbol(self._handle.pointer, encode(name), *bounds))
        self._may_have_symbol = True
        return symbol

    def input(
        self,
        name: str,
        dtype: Any,
        shape: Sequence[int | Symbol],
        strides: Sequence[int] | None = None,
        align: int = 0,
        packed: bool = False,
    ) -> Tensor:
        """A tensor that the previous kernel of the stream may write.

        Args:
            shape: sizes in elements, or the symbol.
            strides: elements, one per dimension; None: contiguous, the last dimension fastest.
            align: the address is a multiple of this many bytes; 0: 16.
            packed: i8, i4 or u4 in the order that kernels read, as `repack` writes it; without strides.
        """
        return self._parameter(Role.input, name, dtype, shape, strides, align, packed)

    def weight(
        self,
        name: str,
        dtype: Any,
        shape: Sequence[int | Symbol],
        strides: Sequence[int] | None = None,
        align: int = 0,
        packed: bool = False,
    ) -> Tensor:
        """A tensor that does not change while the chain (with allow_pdl, also the previous kernel) runs."""
        return self._parameter(Role.weight, name, dtype, shape, strides, align, packed)

    def scalar(self, name: str) -> Tensor:
        """One float, passed by value to a launch."""
        return self._parameter(Role.scalar, name, DType.f32, (), None, 0, False)

    def constant(self, value: float, name: str = "") -> Tensor:
        """A number, finite in f32."""
        return self._value(0, lib.ctn_chain_constant, number(value, "the constant"), optional(name))

    def output(self, value: Tensor, dtype: Any, strides: Sequence[int] | None = None, align: int = 0) -> None:
        """Makes `value`, rounded to `dtype`, the next output. Strides and align as for `input`."""
        self._output(value, dtype, strides, align, 0)

    def output_in_place(self, value: Tensor, dtype: Any, input: Tensor) -> None:
        """The same in place of `input`, of that dtype and the value's shape: `x += f(x)`."""
        self._check_own(input, "the input")
        self._output(value, dtype, None, 0, input.value + 1)

    def verify(self) -> None:
        """Raises the first rule that the chain breaks."""
        check(lib.ctn_chain_verify(self._handle.pointer))

    @property
    def text(self) -> str:
        """Canonical chain text: `Chain.parse(chain.text).text == chain.text`."""
        return text(lib.ctn_chain_print, self._handle.pointer)

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The parameters in order, scalars too, then the outputs."""
        return self._read().operands

    @property
    def parameters(self) -> tuple[Operand, ...]:
        """The operands that are parameters."""
        return tuple(operand for operand in self.operands if not operand.is_output)

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """The operands that are outputs."""
        return tuple(operand for operand in self.operands if operand.is_output)

    @property
    def symbol_range(self) -> SymbolRange | None:
        """The symbol and its range; None: the chain has none."""
        return self._read().symbol

    @property
    def digest(self) -> str:
        """What the chain computes, as SHA-256 in hex digits. Names of values and labels do not count."""
        return self._read().digest

    @property
    def key(self) -> int:
        """The first 63 bits of the digest: the chain's identity where an integer is needed."""
        return int(self.digest[:16], 16) >> 1

    @property
    def factors(self) -> Factors:
        """Along which dimensions the work divides over devices."""
        return Factors(**json.loads(text(lib.ctn_chain_factors, self._handle.pointer)))

    def shard(self, parts: Sequence[int]) -> Chain:
        """The chain of one device where factor f is divided into parts[f] equal parts. ArgumentError: it has no such
        parts."""
        numbers = integers(parts, "parts")
        return Chain._adopt(lib.ctn_chain_shard, self._handle.pointer, int64s(numbers), len(numbers))

    def gradient(self, **options: Any) -> Gradient:
        """The gradient as chains: `catenary.gradient(chain, ...)`."""
        from catenary.gradient import gradient

        return gradient(self, **options)

    def explain(self, target: str = "h200") -> Plan:
        """The plan for a GPU or an architecture, without compiling: `Engine.explain` of the default engine."""
        from catenary.engine import default_engine

        return default_engine().explain(self, target)

    def reference(self, /, *arguments: Any, threads: int = 0, **named: Any) -> Any:
        """Evaluates the chain on the host in float64, rounding at casts and outputs only. Slow: for checks.

        Takes host arrays and floats as `Executable.__call__` does, and returns arrays of their kind.
        """
        from catenary.executable import run_reference

        return run_reference(self, arguments, named, integer(threads, "threads", hi=INT32))

    def __str__(self) -> str:
        try:
            return self.text
        except ChainError:  # it is under construction
            return repr(self)

    def __repr__(self) -> str:
        return f"<catenary.Chain '{self.name}'>"

    def __reduce__(self):
        return Chain.parse, (self.text,)

    def __copy__(self) -> Chain:
        return Chain.parse(self.text)

    def __deepcopy__(self, memo: dict) -> Chain:
        return Chain.parse(self.text)

    def _parameter(
        self,
        role: Role,
        name: str,
        dtype: Any,
        shape: Sequence[int | Symbol],
        strides: Sequence[int] | None,
        align: int,
        packed: bool,
    ) -> Tensor:
        who = f"parameter '{name}'"
        label = encode(name)
        shape = items(shape, f"the shape of {who}")
        if not self._may_have_symbol and any(n is symbol for n in shape):
            raise ArgumentError(
                f"a size of {who} is the symbol, and the chain has none: declare it with Chain.symbol(name, lo, hi)"
            )
        dims = tuple(_native.SYMBOL if n is symbol else integer(n, f"size {i} of {who}") for i, n in enumerate(shape))
        steps = None if strides is None else integers(strides, f"the strides of {who}")
        if steps is not None and len(steps) != len(dims):
            raise ArgumentError(
                f"parameter '{name}' has {counted(len(steps), 'stride')} and {counted(len(dims), 'dimension')}: "
                "give one stride per dimension"
            )
        parameter = _native.Parameter(
            name=label,
            role=role,
            dtype=DType.of(dtype),
            rank=len(dims),
            dims=int64s(dims),
            strides=None if steps is None else int64s(steps),
            align=integer(align, f"align of {who}"),
            packed=flag(packed, f"packed of {who}"),
        )
        return self._value(len(dims), lib.ctn_chain_parameter, ctypes.byref(parameter))

    def _output(self, value: Tensor, dtype: Any, strides: Sequence[int] | None, align: int, in_place: int) -> None:
        self._check_own(value, "the output")
        steps = () if strides is None else integers(strides, "the strides of the output")
        output = _native.Output(
            value=value.value,
            dtype=DType.of(dtype),
            num_strides=len(steps),
            strides=int64s(steps),
            align=integer(align, "align of the output"),
            in_place=in_place,
        )
        self._facts = None
        check(lib.ctn_chain_return(self._handle.pointer, ctypes.byref(output)))

    def _check_own(self, value: Tensor, who: str) -> None:
        if instance(value, Tensor, who).chain is not self:
            raise ArgumentError(
                f"value {value.value} belongs to chain '{value.chain.name}', not to '{self.name}': "
                "return a value of this chain"
            )

    def _value(self, rank: int, function: Any, *arguments: Any) -> Tensor:
        self._facts = None
        return Tensor(self, result(ctypes.c_int32, function, self._handle.pointer, *arguments), rank)

    def _read(self) -> _Facts:
        facts = self._facts
        if facts is None:
            facts = self._facts = _Facts(self._handle)
        return facts


@dataclass(frozen=True)
class Factors:
    """Along which dimensions the work of a chain divides over devices. A factor is a dimension that operations set
    equal; factors are numbers from 0."""

    operands: list[list[int]]
    """The factor of each dimension: of the parameters in order, scalars too, then of the outputs."""
    divides: list[bool]
    """Per factor: whether each device may compute the chain on its own part of the indices."""
    sums: list[list[int]]
    """Per output: the factors that divide and that it sums over: it is then the sum of what the devices compute."""


class _Facts:
    """What the library says of a finished chain."""

    def __init__(self, chain: Handle):
        handle = Handle(lib.ctn_operands_destroy, lib.ctn_chain_operands, chain.pointer)
        count = result(ctypes.c_size_t, lib.ctn_operands_count, handle.pointer)
        self.operands = tuple(self._operand(handle, index) for index in range(count))
        name, lo, hi = ctypes.c_char_p(), ctypes.c_int64(), ctypes.c_int64()
        check(lib.ctn_operands_symbol(handle.pointer, *map(ctypes.byref, (name, lo, hi))))
        self.symbol = SymbolRange(name.value.decode(), lo.value, hi.value) if name.value is not None else None
        digest = ctypes.create_string_buffer(65)
        check(lib.ctn_chain_digest(chain.pointer, digest))
        self.digest = digest.value.decode()

    @staticmethod
    def _operand(handle: Handle, index: int) -> Operand:
        facts = _native.Operand()
        check(lib.ctn_operands_get(handle.pointer, index, ctypes.byref(facts)))
        return Operand(
            facts.name.decode(),
            bool(facts.is_output),
            Role(facts.role),
            DType(facts.dtype),
            dims_of(facts.dims[: facts.rank]),
            tuple(facts.strides[: facts.rank]),
            facts.align,
            facts.bytes,
            facts.in_place - 1 if facts.in_place else None,
            bool(facts.packed),
        )


def elementwise(op: str, *operands: Tensor | float, attributes: Sequence[float] = (), name: str = "") -> Tensor:
    """An elementwise operation by its name in chain text. A number is a constant; a smaller value broadcasts.

    Args:
        attributes: those of the op in its order; "clamp": lo, hi.
        name: of the value; "": "t<number>".
    """
    return elementwise_by_group(op, operands, attributes, name, None)


def elementwise_by_group(
    op: str, operands: Sequence[Tensor | float], attributes: Sequence[float], name: str, ragged: _native.Ragged | None
) -> Tensor:
    """`elementwise` with operands by the group of a row: `ops.by_group`."""
    chain = chain_of(*operands)
    numbers = [number(value, f"attribute {i} of {op}") for i, value in enumerate(items(attributes, "attributes"))]
    words = encode(op), optional(name)
    given = [operand if isinstance(operand, Tensor) else number(operand, "an operand") for operand in operands]
    values = [operand if isinstance(operand, Tensor) else chain.constant(operand) for operand in given]
    named = [_native.Use(v.value, None if v.labels is None else encode(v.labels)) for v in values]
    uses = (_native.Use * len(values))(*named)
    arguments = (words[0], uses, len(values), (ctypes.c_double * len(numbers))(*numbers), len(numbers))
    if ragged is None:
        rank = max((v.rank for v in values), default=0)
        return chain._value(rank, lib.ctn_chain_elementwise, *arguments, words[1])
    group = ragged.group.decode()
    rank = max((v.rank - (group in (v.labels or "")) for v in values), default=0)
    return chain._value(rank, lib.ctn_chain_elementwise_by_group, *arguments, ctypes.byref(ragged), words[1])


def chain_of(*operands: Any) -> Chain:
    """The one chain of the values among `operands`."""
    chains = [operand.chain for operand in operands if isinstance(operand, Tensor)]
    for operand in operands:
        if not isinstance(operand, Tensor) and not is_number(operand):
            raise ArgumentTypeError(f"{shown(operand)} is {type(operand).__name__}: use a value of a chain or a number")
    if not chains:
        raise ArgumentError("no operand is a value of a chain: use Chain.constant for a number")
    for chain in chains[1:]:
        if chain is not chains[0]:
            raise ArgumentError(
                f"operands belong to the chains '{chains[0].name}' and '{chain.name}': combine values of one chain"
            )
    return chains[0]
