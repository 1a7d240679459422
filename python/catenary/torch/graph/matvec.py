# SPDX-License-Identifier: Apache-2.0
"""Products of one row or one column. Where Inductor tunes by coordinate descent (mode "max-autotune"), it writes them
as a multiplication and a sum in f32 (`torch/_inductor/decomposition.py`, mm and bmm). The pass sees products instead. A
product that no region takes becomes the sum again. Other sums are left: what they are of, and their results, may be
f32 that no product rounds."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

import torch
from torch.fx import Graph, Node

from catenary.torch.graph.table import FLOATS, aten, prims

_convert = prims.convert_element_type.default
_DECOMPOSED = ("aten.mm.default", "aten.bmm.default")
_FORMS = (aten.mm.default, aten.bmm.default, aten.mul.Tensor, aten.sum.dim_IntList, aten.unsqueeze.default, _convert)


@dataclass(frozen=True)
class _Product:
    node: Node
    """The matrix product."""
    widened: Node
    """Its result in f32, in place of the sum."""


class RowProducts:
    """Replaces the sums of a graph by products; `restore` undoes it. The graph holds one form of each, never both: a
    user that nothing reads would make its operand an output of a region."""

    def __init__(self, graph: Graph):
        self._graph = graph
        self._products = [found for node in list(graph.nodes) if (found := self._replace(node)) is not None]

    def __contains__(self, node: Node) -> bool:
        """Whether a product replaces a sum."""
        return any(product.node is node for product in self._products)

    def restore(self, taken: Container[Node]) -> None:
        """Puts the sums back whose products are not in `taken`."""
        for product in self._products:
            if product.node not in taken:
                self._put_back(product)

    def _replace(self, total: Node) -> _Product | None:
        operands = _operands(total)
        if operands is None:
            return None
        left, right = (_narrow(node) for node in operands)
        dtype = right.meta["val"].dtype
        if dtype not in FLOATS or (dtype != torch.float32 and left.meta["val"].dtype not in (dtype, torch.float32)):
            return None
        target = aten.mm.default if total.meta["val"].dim() == 2 else aten.bmm.default
        with self._graph.inserting_before(total):
            # Inductor drops the rounding of an operand that it widens at once.
            if left.meta["val"].dtype != dtype:
                left = self._rounded(operands[0], dtype, total)
            product = self._call(total, target, left, right)
            widened = self._call(total, _convert, product, total.meta["val"].dtype)
        total.replace_all_uses_with(widened)
        self._erase_unread(total)
        return _Product(product, widened)

    def _put_back(self, product: _Product) -> None:
        left, right = product.node.args
        rank = left.meta["val"].dim() + 1
        dtype = product.widened.meta["val"].dtype
        with self._graph.inserting_before(product.node):
            terms = [
                self._call(product.node, aten.unsqueeze.default, self._widened(node, dtype, product.node), dim)
                for node, dim in ((left, rank - 1), (right, rank - 3))
            ]
            scaled = self._call(product.node, aten.mul.Tensor, *terms)
            total = self._call(product.node, aten.sum.dim_IntList, scaled, [rank - 2])
            narrowed = self._call(product.node, _convert, total, product.node.meta["val"].dtype)
        if product.widened in product.node.users:  # else a region has it, and reads the product
            product.widened.replace_all_uses_with(total)
            self._erase_unread(product.widened)
        if product.node.users:
            product.node.replace_all_uses_with(narrowed)
        self._erase_unread(product.node)
        self._erase_unread(narrowed)

    def _rounded(self, node: Node, dtype: torch.dtype, place: Node) -> Node:
        """`node` in `dtype`: one node for all products, so that they have one left operand."""
        for user in node.users:
            if user.target is _convert and user.args[1] == dtype and user < place:
                return user
        return self._call(place, _convert, node, dtype)

    def _widened(self, node: Node, dtype: torch.dtype, place: Node) -> Node:
        """`node` in `dtype`, without a rounding that nothing else reads."""
        if node.meta["val"].dtype == dtype:
            return node
        if node.target is _convert and len(node.users) == 1 and node.args[0].meta["val"].dtype == dtype:
            return node.args[0]
        return self._call(place, _convert, node, dtype)

    def _call(self, source: Node, target: torch._ops.OpOverload, *arguments: object) -> Node:
        """A node that computes a part of what `source` does."""
        node = self._graph.call_function(target, arguments)
        node.meta["val"] = target(*[a.meta["val"] if isinstance(a, Node) else a for a in arguments])
        for name in ("stack_trace", "original_aten", "from_node"):
            if name in source.meta:
                node.meta[name] = source.meta[name]
        return node

    def _erase_unread(self, node: Node) -> None:
        """Erases a node that nothing reads, and the nodes of either form that only it reads."""
        if node.users or node.target not in _FORMS or node._erased:
            return
        operands = node.all_input_nodes
        self._graph.erase_node(node)
        for operand in operands:
            self._erase_unread(operand)


def _operands(total: Node) -> tuple[Node, Node] | None:
    """[.., 1 or M, K] and [.., K, N or 1] of sum(left[.., K, 1] * right[.., 1, K, N]) over K, in place of a product;
    None: another node."""
    if total.target is not aten.sum.dim_IntList or len(total.args) != 2 or total.kwargs:
        return None
    if not _is_decomposed(total):
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
    widened = [_is_widened(node) for node in (left, right)]
    if not all(widened) and any(node.target is _convert for node in (left, right)):
        return None  # a product of f32, whose sum widens as it reads
    return (left, right) if m == 1 or n == 1 else None


def _narrow(node: Node) -> Node:
    """What was widened to f32, else the node itself."""
    return node.args[0] if _is_widened(node) else node


def _is_widened(node: Node) -> bool:
    """Whether Inductor widens an operand of a product to f32, which it does to those of bf16 and f16 only. One whose
    rounding it dropped is f32 before that too."""
    return _is_decomposed(node) and node.target is _convert and node.args[1] == torch.float32


def _is_decomposed(node: Node) -> bool:
    """Whether Inductor computes a part of a product by a node. Compared by name: graphs have copies of operators."""
    return str(node.meta.get("original_aten")) in _DECOMPOSED
