# SPDX-License-Identifier: Apache-2.0
"""Products of one row or one column. Where Inductor tunes by coordinate descent (mode "max-autotune"), it writes them as
a multiplication and a sum in f32 (`torch/_inductor/decomposition.py`, mm and bmm). The pass sees products instead. A
product that no region takes becomes the sum again."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

import torch
from torch.fx import Graph, Node

from catenary.torch.graph.table import FLOATS, aten, prims


@dataclass(frozen=True)
class _Product:
    node: Node
    """The matrix product."""
    widened: Node
    """Its result in f32, in place of the sum."""
    total: Node
    """Inductor's sum."""


class RowProducts:
    """Replaces the sums of a graph by products; `restore` undoes it."""

    def __init__(self, graph: Graph):
        self._graph = graph
        self._products = [found for node in list(graph.nodes) if (found := self._replace(node)) is not None]

    def restore(self, taken: Container[Node]) -> None:
        """Puts the sums back whose products are not in `taken`."""
        for product in self._products:
            if product.node not in taken:
                product.widened.replace_all_uses_with(product.total)
        if self._products:
            self._graph.eliminate_dead_code()

    def _replace(self, total: Node) -> _Product | None:
        operands = _operands(total)
        if operands is None:
            return None
        left, right = (_narrow(node) for node in operands)
        dtype = right.meta["val"].dtype
        if dtype not in FLOATS:
            return None
        target = aten.mm.default if total.meta["val"].dim() == 2 else aten.bmm.default
        with self._graph.inserting_before(total):
            # Inductor drops the rounding of an operand that it widens at once.
            if left.meta["val"].dtype != dtype:
                left = self._call(prims.convert_element_type.default, operands[0], dtype)
            product = self._call(target, left, right)
            widened = self._call(prims.convert_element_type.default, product, total.meta["val"].dtype)
        total.replace_all_uses_with(widened)
        return _Product(product, widened, total)

    def _call(self, target: torch._ops.OpOverload, *arguments: object) -> Node:
        node = self._graph.call_function(target, arguments)
        node.meta["val"] = target(*[a.meta["val"] if isinstance(a, Node) else a for a in arguments])
        return node


def _operands(total: Node) -> tuple[Node, Node] | None:
    """[.., 1 or M, K] and [.., K, N or 1] of sum(left[.., K, 1] * right[.., 1, K, N]) over K; None: another node."""
    if total.target is not aten.sum.dim_IntList or len(total.args) != 2 or total.kwargs:
        return None
    product = total.args[0]
    if product.target is not aten.mul.Tensor or not all(isinstance(a, Node) for a in product.args):
        return None
    rank = product.meta["val"].dim()
    columns, rows = rank - 1, rank - 3
    if rows not in (0, 1) or [d % rank for d in total.args[1]] != [rank - 2]:
        return None
    places = [a.args[1] % rank if a.target is aten.unsqueeze.default else None for a in product.args]
    if places != [columns, rows]:
        return None
    left, right = (a.args[0] for a in product.args)
    m, n = left.meta["val"].shape[-2], right.meta["val"].shape[-1]
    return (left, right) if m == 1 or n == 1 else None


def _narrow(node: Node) -> Node:
    """What was widened to f32, else the node itself."""
    if node.target is prims.convert_element_type.default and node.args[1] == torch.float32:
        return node.args[0]
    return node
