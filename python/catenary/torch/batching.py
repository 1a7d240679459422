# SPDX-License-Identifier: Apache-2.0
"""Chains under torch.vmap: the chain with a dimension of samples, and whether the rows of all samples may be those of
one call. A sample is an index of vmap's dimension."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from catenary.chain import Chain
from catenary.errors import Error
from catenary.operand import Role
from catenary.torch.operators import form_of

_SAMPLES = 6  # an example, as all sizes are
_LETTERS = "zyxwvutsrqponmlkjihgfedcbaZYXWVUTSRQPONMLKJIHGFEDCBA"
_PARAMETER = re.compile(r"    (input|weight|scalar) (\w+): (\w+)(?:\[([^\]]*)\])?( packed)?(,|\) .*)")
_STATEMENT = re.compile(r'  (\w+) = (\w+)(?: "([^"]*)")?( f32 | fast_accum )?\(([^()]*)\)( block .*| ragged .*)?')
_OPERAND = re.compile(r'(\w+)(?: @ "([^"]*)")?')


@dataclass(frozen=True)
class Batched:
    """A chain with a dimension of samples in some parameters."""

    text: str
    outputs: tuple[int | None, ...]
    """Per output, the dimension of the samples: 1 after rows, else 0; None: the output has none."""


@dataclass
class _Value:
    rank: int
    labels: str
    """As the chain without samples has them, or empty."""
    rows: bool
    """Its first dimension is the symbol."""
    batched: bool

    def insert(self, labels: str, letter: str) -> str:
        """The labels with that of the samples, after the rows."""
        return _insert(labels, letter, self.rows) if self.batched else labels


class _NoForm(Exception):
    """The chain has no such form in the language of chains."""


def _insert(labels: str, letter: str, rows: bool) -> str:
    return labels[:rows] + letter + labels[rows:]


def without_strides(text: str) -> str:
    """The text of a chain whose tensors have default strides."""
    return re.sub(r" strides\[[^\]]*\]| align \d+", "", text)


@functools.lru_cache(maxsize=4096)
def with_samples(text: str, batched: tuple[bool, ...]) -> Batched | None:
    """The chain where the tensor parameters that are `batched` have samples. None: there is no such chain."""
    try:
        made = _Writer(without_strides(text), batched).run()
        Chain.parse(made.text)
    except (_NoForm, Error):
        return None
    return made


class _Writer:
    """Reads the text line by line: `print` of the library writes one parameter or value per line."""

    def __init__(self, text: str, batched: tuple[bool, ...]):
        self.lines = text.splitlines()
        self.left = list(batched)
        self.values: dict[str, _Value] = {}
        symbol = re.match(r"chain \w+\[(\w+) in ", text)
        self.symbol = symbol[1] if symbol else None

    def run(self) -> Batched:
        written, outputs = [self.lines[0]], ()
        for line in self.lines[1:]:
            if found := _PARAMETER.fullmatch(line):
                line = self.parameter(line, *found.groups())
            elif found := _STATEMENT.fullmatch(line):
                line = self.statement(line, *found.groups())
            elif line.startswith("  return "):
                outputs = self.outputs(line)
            elif line not in ("}", ""):
                raise _NoForm
            written.append(line)
        return Batched("\n".join(written) + "\n", outputs)

    def parameter(self, line: str, role: str, name: str, dtype: str, sizes: str | None, packed: str | None,
                  end: str) -> str:  # fmt: skip
        shape = sizes.split(", ") if sizes else []
        batched = role != "scalar" and self.left.pop(0)
        value = self.values[name] = _Value(len(shape), "", shape[:1] == [self.symbol], batched)
        if not batched:
            return line
        if packed or dtype in ("i32", "i4", "u4"):  # bytes, and the ends of groups
            raise _NoForm
        shape.insert(value.rows, str(_SAMPLES))
        return f"    {role} {name}: {dtype}[{', '.join(shape)}]{end}"

    def outputs(self, line: str) -> tuple[int | None, ...]:
        if " inplace " in line:
            raise _NoForm
        values = [self.values[item.split(":")[0]] for item in line.removeprefix("  return ").split(", ")]
        return tuple(int(value.rows) if value.batched else None for value in values)

    def statement(self, line: str, name: str, op: str, equation: str | None, word: str | None, arguments: str,
                  rest: str | None) -> str:  # fmt: skip
        items = arguments.split(", ")
        uses = [found.groups(default="") for item in items if (found := _OPERAND.fullmatch(item))]
        uses = [(value, labels) for value, labels in uses if value in self.values] if op != "constant" else []
        operands = [self.values[value] for value, _ in uses]
        any_batched = any(value.batched for value in operands)
        if any_batched and (rest or op == "dequant"):
            raise _NoForm
        if equation is not None:
            made, text = self.by_equation(equation, operands, [labels for _, labels in uses])
            self.values[name] = made
            arguments = ", ".join(value for value, _ in uses)
            return f'  {name} = {op} "{text}"{word or ""}({arguments})' if any_batched else line
        if op == "dequant":
            operands = operands[:1]
        made, placed = self.elementwise(operands, [labels for _, labels in uses])
        self.values[name] = made
        if not any_batched:
            return line
        if op == "scale" and operands[1].batched:  # the factor is no single number
            op = "mul"
        named = zip([value for value, _ in uses], placed, strict=True)
        written = [f'{value} @ "{labels}"' if labels else value for value, labels in named]
        return f"  {name} = {op}({', '.join(written + items[len(uses) :])})"

    @staticmethod
    def by_equation(equation: str, operands: Sequence[_Value], labels: Sequence[str]) -> tuple[_Value, str]:
        """The result of a contraction or a reduction, and the equation with samples."""
        sources, result = equation.split("->")
        parts = sources.split(",")
        rows = {part[0] for part, value in zip(parts, operands, strict=True) if value.rows}
        made = _Value(len(result), result, result[:1] in rows, any(value.batched for value in operands))
        if made.batched and (any(labels) or rows & set(result[1:])):
            raise _NoForm
        letter = _letter(equation)
        parts = [value.insert(part, letter) for part, value in zip(parts, operands, strict=True)]
        return made, f"{','.join(parts)}->{made.insert(result, letter)}"

    @staticmethod
    def elementwise(operands: Sequence[_Value], labels: Sequence[str]) -> tuple[_Value, list[str]]:
        """The result, and the labels of all operands with samples."""
        rank = max((value.rank for value in operands), default=0)
        named = (own or value.labels for value, own in zip(operands, labels, strict=False) if value.rank == rank)
        inherent = next((found for found in named if found), "")
        made = _Value(rank, inherent, any(v.rows for v in operands), any(v.batched for v in operands))
        if not made.batched:
            return made, []
        result = inherent or _LETTERS[::-1][:rank]
        # Operands are aligned by their own labels, and without these by the last dimensions.
        placed = [own or result[rank - value.rank :] for value, own in zip(operands, labels, strict=True)]
        if any(value.rows and part[0] != result[0] for value, part in zip(operands, placed, strict=True)):
            raise _NoForm
        letter = _letter(result + "".join(placed))
        placed = [value.insert(part, letter) for value, part in zip(operands, placed, strict=True)]
        # The first operand with all dimensions gives their order.
        whole = next((part for part in placed if len(part) == rank + 1), None)
        if whole != made.insert(result, letter):
            raise _NoForm
        aligned = all(whole.endswith(part) for part in placed)  # then labels say nothing more
        return made, [""] * len(placed) if aligned else placed


def _letter(used: str) -> str:
    return next(letter for letter in _LETTERS if letter not in used)


@functools.lru_cache(maxsize=4096)
def rows_are_apart(key: int, batched: tuple[bool, ...]) -> bool:
    """Whether samples of the tensors that are `batched` may be more rows of one call: all of these have rows, and so
    have the outputs, each of its own row only."""
    form = form_of(key)
    if not all(p.leading or not b for p, b in zip(form.inputs, batched, strict=True)):
        return False
    if not all(output.leading and output.in_place < 0 for output in form.outputs):
        return False
    chain = Chain.parse(form.text)
    factors, parameters = chain.factors, chain.parameters
    dims = [d for d, p in zip(factors.operands, parameters, strict=False) if p.role != Role.scalar]
    first = {d[0] for d, p in zip(dims, form.inputs, strict=True) if p.leading}
    of_outputs = factors.operands[len(parameters) :]
    return len(first) == 1 and all(
        factors.divides[d[0]] and {d[0]} == first and d[0] not in sums
        for d, sums in zip(of_outputs, factors.sums, strict=True)
    )


@functools.lru_cache(maxsize=4096)
def ragged_ends(key: int, batched: tuple[bool, ...]) -> int | None:
    """The number of the tensor with the ends of groups, if samples may be more rows of these groups. Else None."""
    form = form_of(key)
    names = {match[1] for match in re.finditer(r" ragged \w by (\w+) over \w", form.text)}
    inputs = [parameter.name for parameter in form.inputs]
    if len(names) != 1 or not all(output.leading and output.in_place < 0 for output in form.outputs):
        return None
    ends = inputs.index(names.pop())
    if not all(p.leading or not b or i == ends for i, (p, b) in enumerate(zip(form.inputs, batched, strict=True))):
        return None
    rows = {parameter.name for parameter in form.inputs if parameter.leading}
    for line in form.text.splitlines():
        found = _STATEMENT.fullmatch(line)
        if found is None:
            continue
        name, _, equation, _, arguments, _ = found.groups()
        operands = [item.split(" @ ")[0] for item in arguments.split(", ")]
        if not rows.intersection(operands):
            continue
        rows.add(name)
        if equation is None:
            continue
        sources, result = equation.split("->")
        letters = {part[0] for part, operand in zip(sources.split(","), operands, strict=True) if operand in rows}
        if letters != set(result[:1]):
            return None
    return ends
