# SPDX-License-Identifier: Apache-2.0
"""Index maps of a region: each dimension of a node is a sequence of axes, which views split, join and reorder.

An axis is a loop of the chain. Two nodes of one elementwise operation have equal axes in equal dimensions: `unify`
splits axes until they have. Sizes are ints, or torch.SymInt.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

Dims = list[tuple[int, ...]]  # per dimension the axes, the outermost first; () has size 1


class Mismatch(Exception):
    """Dimensions that no split of axes makes equal."""


def hint(size: Any) -> int:
    """The number that a size had when the graph was traced. Mismatch: it depends on data, and had none."""
    if isinstance(size, int):
        return size
    if not size.node.has_hint():
        raise Mismatch
    return int(size.node.hint)


def has_hints(value: Any) -> bool:
    """Whether no size of a tensor depends on data. A symbolic number has none."""
    return all(isinstance(size, int) or size.node.has_hint() for size in getattr(value, "shape", ()))


def elements(tensor: Any) -> int:
    """Of a tensor, with the hints of its sizes."""
    return math.prod(hint(size) for size in tensor.shape)


class Axes:
    """The axes of one region."""

    def __init__(self) -> None:
        self._sizes: list[Any] = []
        self._parts: dict[int, tuple[int, ...]] = {}  # of an axis that is split, or is another one
        self._joined: dict[tuple[int, int], int] = {}  # two axes that follow each other everywhere

    def copy(self) -> Axes:
        """A copy that may be split and joined by itself."""
        made = Axes()
        made._sizes, made._parts, made._joined = list(self._sizes), dict(self._parts), dict(self._joined)
        return made

    def add(self, size: Any) -> int:
        """A new axis."""
        self._sizes.append(size)
        return len(self._sizes) - 1

    def size(self, axis: int) -> Any:
        """Of an axis that is not split."""
        return self._sizes[axis]

    def flat(self, axes: Sequence[int]) -> tuple[int, ...]:
        """The axes that are left after all splits and joins, without those of size 1."""
        return self.dims([tuple(axes)])[0]

    def dims(self, dims: Dims) -> Dims:
        """`dims` after all splits and joins. Axes of two dimensions that are joined are in the inner one."""
        made = [self._split(dim) for dim in dims]
        if not self._joined:
            return made
        places = [(d, axis) for d, dim in enumerate(made) for axis in dim]
        i = 0
        while i + 1 < len(places):
            joined = self._joined.get((places[i][1], places[i + 1][1]))
            if joined is None:
                i += 1
            else:
                places[i : i + 2] = [(places[i + 1][0], joined)]
                i = 0
        return [tuple(axis for place, axis in places if place == d) for d in range(len(made))]

    def join(self, a: int, b: int) -> None:
        """Makes axes a and b one: b follows a wherever either is. No axis is split afterwards."""
        self._joined[a, b] = self.add(self._sizes[a] * self._sizes[b])

    def _split(self, axes: Sequence[int]) -> tuple[int, ...]:
        result: list[int] = []
        for axis in axes:
            if axis in self._parts:
                result.extend(self._split(self._parts[axis]))
            elif not same(self._sizes[axis], 1):
                result.append(axis)
        return tuple(result)

    def unify(self, a: Sequence[int], b: Sequence[int]) -> None:
        """Makes two dimensions of one size the same axes."""
        left, right = list(self.flat(a)), list(self.flat(b))
        while left and right:
            x, y = left.pop(), right.pop()
            if x == y:
                continue
            if same(self._sizes[x], self._sizes[y]):
                self._parts[y] = (x,)
                left, right = list(self.flat(left)), list(self.flat(right))
            elif (outer := quotient(self._sizes[x], self._sizes[y])) is not None:
                part = self.add(outer)
                self._parts[x] = (part, y)
                left, right = [*self.flat(left), part], list(self.flat(right))
            elif (outer := quotient(self._sizes[y], self._sizes[x])) is not None:
                part = self.add(outer)
                self._parts[y] = (part, x)
                left, right = list(self.flat(left)), [*self.flat(right), part]
            else:
                raise Mismatch
        if left or right:
            raise Mismatch

    def reshape(self, dims: Dims, shape: Sequence[Any]) -> Dims:
        """The dimensions of a reshaped node."""
        left = [axis for dim in self.dims(dims) for axis in dim]
        result: Dims = []
        for size in reversed(list(shape)):
            taken: list[int] = []
            rest = size
            while not same(rest, 1):
                if not left:
                    raise Mismatch
                axis = left.pop()
                if (outer := quotient(rest, self._sizes[axis])) is not None:
                    taken.append(axis)
                    rest = outer
                elif (outer := quotient(self._sizes[axis], rest)) is not None:
                    part, inner = self.add(outer), self.add(rest)
                    self._parts[axis] = (part, inner)
                    left.append(part)
                    taken.append(inner)
                    rest = 1
                else:
                    raise Mismatch
            result.append(tuple(reversed(taken)))
        if left:
            raise Mismatch
        return self.dims(list(reversed(result)))


def same(a: Any, b: Any) -> bool:
    """Whether two sizes are equal whatever their symbols are."""
    return a == b if isinstance(a, int) and isinstance(b, int) else str(a) == str(b)


def quotient(a: Any, b: Any) -> Any | None:
    """a / b, if it is a whole number whatever their symbols are; sizes of 1 divide nothing."""
    if same(b, 1):
        return None
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b > 0 and a % b == 0 else None
    if isinstance(b, int):
        expression = a.node.expr / b
        # s0 * 8 / 8: no division is left.
        if any(not factor.is_integer for factor in expression.as_ordered_factors()):
            return None
        return a // b
    expression = (a.node.expr if not isinstance(a, int) else a) / b.node.expr
    return int(expression) if getattr(expression, "is_Integer", False) else None
