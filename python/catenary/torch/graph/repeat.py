# SPDX-License-Identifier: Apache-2.0
"""Pointwise work outside a region that the region computes once more, because that reads fewer bytes than its result.

The backward of `silu` under autocast is an example: the graph has the slope's values in f32, computed from bf16."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any

from torch.fx import Node

from catenary.torch.graph.axes import Dims, Mismatch, same
from catenary.torch.graph.expression import Expression
from catenary.torch.graph.table import POINTWISE, is_float

if TYPE_CHECKING:
    from catenary.torch.graph.region import Region

MOST_NODES = 16
"""Nodes that a region computes once more for one of its operands."""


def may_repeat(region: Region, node: Node, left: Container[Node]) -> bool:
    """Whether a region may compute an outer node once more than its graph does. `left`: nodes that it may not."""
    return (
        node.op == "call_function"
        and node.target in POINTWISE
        and is_float(node)
        and node not in region.nodes
        and node not in left
        and all(is_float(n) for n in node.all_input_nodes)
    )


def reads_less(region: Region, node: Node, left: Container[Node]) -> bool:
    """Whether what an outer node is computed from is fewer bytes than the node, without what the region reads."""
    if not may_repeat(region, node, left):
        return False
    known = {read.node for read in region.reads}
    leaves: set[Node] = set()
    queue, seen = [node], {node}
    while queue:
        for source in queue.pop().all_input_nodes:
            if source in region.nodes:
                return False
            if source in seen:
                continue
            seen.add(source)
            if source not in known and may_repeat(region, source, left):
                queue.append(source)
            elif source not in known:
                leaves.add(source)
        if len(seen) > MOST_NODES:
            return False
    return sum(map(_bytes, leaves)) < _bytes(node)


def again(
    region: Region, node: Node, dims: Dims, left: Container[Node], read: Callable[[Node, Dims], Expression]
) -> Expression:
    """The value of an outer node at `dims`, from what it is computed from. The node stays what it is to others.
    `read`: the value of a tensor from outside."""
    known = {each.node for each in region.reads}

    def operand(source: Node) -> Expression:
        shape = source.meta["val"].shape
        axes = list(zip(reversed(list(shape)), reversed(dims), strict=False))
        own: Dims = [() if same(size, 1) else axis for size, axis in reversed(axes)]
        if source not in known and may_repeat(region, source, left):
            return again(region, source, own, left, read)
        return read(source, own)

    arguments = [operand(a) if isinstance(a, Node) else a for a in node.args]
    if any(isinstance(a, (bool, complex)) for a in arguments):
        raise Mismatch
    value = POINTWISE[node.target](*arguments, **{k: v for k, v in node.kwargs.items() if k != "dtype"})
    if value is None:
        raise Mismatch
    return value


def _bytes(node: Node) -> int:
    """Bytes of a node's value, at the hint of a symbolic size."""
    value = node.meta["val"]
    return functools.reduce(operator.mul, (_hint(n) for n in value.shape), value.element_size())


def _hint(size: Any) -> int:
    return size if isinstance(size, int) else int(size.node.hint)
