# SPDX-License-Identifier: Apache-2.0
"""The expressions of a norm (`norm.py`) as values of a chain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from catenary import ops
from catenary.chain import Tensor, elementwise
from catenary.torch.graph.expression import Expression


class RowForm:
    """Values that are computed from the rows of x.

    Args:
        x: a tensor with the labels `labels`: first `rows`, and last the norm's dimension.
        vectors: one dimension each, that of the norm.
    """

    def __init__(self, x: Tensor, labels: str, rows: str, vectors: Sequence[Tensor]):
        self._labels = labels
        self._rows = rows
        self._x = (x, labels)
        self._vectors = [(vector, labels[len(rows) :]) for vector in vectors]
        self._made: dict[int, tuple[Any, str]] = {}

    def value(self, e: Expression) -> tuple[Any, str]:
        """A value and its labels; "": a number."""
        if isinstance(e, (int, float)):
            return float(e), ""
        if id(e) not in self._made:
            self._made[id(e)] = self._computed(e)
        return self._made[id(e)]

    def _computed(self, e: Expression) -> tuple[Any, str]:
        op, operands = e[0], list(e[1:])
        if op == "x":
            return self._x
        if op == "vector":
            return self._vectors[operands[0]]
        if op == "row_sum":
            return ops.sum(f"{self._labels}->{self._rows}", self.value(operands[0])[0]), self._rows
        if op == "cast":
            value, labels = self.value(operands[0])
            return ops.cast(value, operands[1]), labels
        numbers: list[float] = []
        if op in ("clamp", "pow"):
            operands, numbers = operands[:1], [float(n) for n in operands[1:]]
        values = [self.value(operand) for operand in operands]
        given = [v.labeled(labels) if labels else v for v, labels in values]
        return elementwise(op, *given, attributes=numbers), max((labels for _, labels in values), key=len)
