# SPDX-License-Identifier: Apache-2.0
"""Pointwise work outside a region that the region computes once more, because that reads fewer bytes than its result.

The backward of `silu` under autocast is an example: the graph has the slope's values in f32, computed from bf16."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any

from torch.fx import Node

from catenary.torch.graph.axes import Dims, Mismatch, elements, same
from catenary.torch.graph.expression import Expression
from catenary.torch.graph.table import POINTWISE, applied, is_float

if TYPE_CHECKING:
    from catenary.torch.graph.region import Region

MOST_NODES = 16
"""Nodes that a region computes once more for one of its operands."""


def may_repeat(region: Region, node: Node, excluded: Container[Node]) -> bool:
    """Whether a region may compute an outer node once more than its graph does, which it may not for `excluded`."""
    return (
        node.op == "call_function"
        and node.target in POINTWISE
        and is_float(node)
        and node not in region.nodes
        and node not in excluded
        and all(is_float(n) for n in node.all_input_nodes)
    )


def reads_less(region: Region, node: Node, excluded: Container[Node]) -> bool:
    """Whether the tensors that an outer node is computed from are fewer bytes than the node. Tensors that the region
    reads anyway do not count. Where a size depends on data, they are not."""
    known = {read.node for read in region.reads}
    if node in known or not may_repeat(region, node, excluded):
        return False
    leaves: set[Node] = set()
    queue, seen = [node], {node}
    while queue:
        for source in queue.pop().all_input_nodes:
            if source in region.nodes:
                return False
            if source in seen:
                continue
            seen.add(source)
            if source not in known and may_repeat(region, source, excluded):
                queue.append(source)
            elif source.meta["val"].device != node.meta["val"].device:
                return False
            elif source not in known:
                leaves.add(source)
        if len(seen) > MOST_NODES:
            return False
    try:
        return sum(map(_bytes, leaves)) < _bytes(node)
    except Mismatch:
        return False


def compute_again(
    region: Region, node: Node, dims: Dims, excluded: Container[Node], read: Callable[[Node, Dims], Expression]
) -> Expression:
    """The value of an outer node at `dims`, from what it is computed from. The node stays what it is to others.
    `read`: the value of a tensor from outside."""
    known = {each.node for each in region.reads}
    made: dict[Any, Expression] = {}

    def value_of(outer: Node, dims: Dims) -> Expression:
        key = (outer, tuple(dims))
        if key not in made:
            made[key] = compute(outer, dims) if outer is node or repeats(outer) else read(outer, dims)
        return made[key]

    def repeats(outer: Node) -> bool:
        return outer not in known and may_repeat(region, outer, excluded)

    def compute(outer: Node, dims: Dims) -> Expression:
        def argument(source: Node) -> Expression:
            axes = list(zip(reversed(list(source.meta["val"].shape)), reversed(dims), strict=False))
            return value_of(source, [() if same(size, 1) else axis for size, axis in reversed(axes)])

        arguments = [argument(a) if isinstance(a, Node) else a for a in outer.args]
        if any(isinstance(a, (bool, complex)) for a in arguments):
            raise Mismatch
        value = applied(outer, arguments)
        if value is None:
            raise Mismatch
        return value

    return value_of(node, dims)


def _bytes(node: Node) -> int:
    """Bytes of a node's value, with the hints of its sizes."""
    value = node.meta["val"]
    return elements(value) * value.element_size()
