# SPDX-License-Identifier: Apache-2.0
"""What a region replaces, and how long it takes: the kernels of a library and of Inductor."""

from __future__ import annotations

import operator
from collections.abc import Container

import torch
from torch.fx import Node

from catenary.torch import operators
from catenary.torch.graph import cost
from catenary.torch.graph.axes import elements, hint
from catenary.torch.graph.lower import lower
from catenary.torch.graph.region import Grower, Region
from catenary.torch.graph.scaled import SCALED
from catenary.torch.graph.table import POINTWISE, SPLITS, VIEWS, aten, is_library_call


def replaced_us(region: Region, target: str, sums: Container[Node] = (), ready: Container[Node] = ()) -> float:
    """The time of a region as Inductor runs it: a library's product each, or a kernel of Inductor of those in `sums`;
    one pointwise kernel after them, unless that is part of the sums' kernels or of the one that reads its result; and
    the kernel of a norm, unless it computes more. `ready`: what other regions will compute."""
    total = 0.0
    written: list[torch.Tensor] = []
    for node in dict.fromkeys(p.node for p in region.products):
        alone = Region()
        Grower.single(alone, node)
        text = lower(alone, [node], static=True).chain.text
        shape = node.meta["val"].shape
        ratio = 1.0 if _is_unmeasured(node) else cost.peer_ratio(hint(shape[-2]))
        if node in sums:
            ratio = cost.ROW_SUM
        total += cost.predicted_us(text, target) * ratio
        written.append(node.meta["val"])
    for norm in (norm.norm for norm in region.norms):
        if is_alone(norm.x, sums, ready):
            total += cost.predicted_us(_copies([norm.x.meta["val"]], [norm.result.meta["val"]]), target)
    outputs = [node for node in region.outputs() if _computes(node, region) and _is_kernel(node, region)]
    if not outputs or all(p.node in sums for p in region.products):
        return total
    reads = {p.added for p in region.products} | {p.left for p in region.products} | {p.right for p in region.products}
    reads |= {scale for p in region.products if p.scales for scale in (p.scales.left, p.scales.right)}
    pointwise = [read.node.meta["val"] for read in region.reads if read.node not in reads]
    return total + cost.predicted_us(_copies([*written, *pointwise], [n.meta["val"] for n in outputs]), target)


def _is_unmeasured(node: Node) -> bool:
    """Whether the peer's time of a product is not measured by rows (fp8, ragged groups). It counts as equal to ours."""
    return node.target in SCALED or node.target is aten._grouped_mm.default


def _computes(node: Node, region: Region) -> bool:
    """Whether a node is more than a view of a product."""
    while node.target in VIEWS or node.target in (aten.slice.Tensor, operator.getitem, *SPLITS):
        node = node.args[0]
    return node in region.nodes and node.target in POINTWISE


def _is_kernel(node: Node, region: Region) -> bool:
    """Whether Inductor writes a node by a kernel of its own: every user outside, after views, is a library's call."""
    queue = [user for view in region.views(node) for user in view.users if user not in region.nodes]
    while queue:
        user = queue.pop()
        if user.target in VIEWS:
            queue.extend(user.users)
        elif not is_library_call(user):
            return False
    return True


def is_alone(x: Node, sums: Container[Node], ready: Container[Node] = ()) -> bool:
    """Whether Inductor's kernel of a norm of x computes only the norm, so that a region with the norm replaces it. Else
    it computes x too."""
    while x.target in VIEWS or x.target is operator.getitem:
        x = x.args[0]
    if x in ready or x.op != "call_function" or is_library_call(x):
        return True
    queue, seen = [x], {x}
    while queue:  # a pointwise operation after a sum is a part of the sum's kernel
        node = queue.pop()
        if node in sums:
            return True
        if node.target in POINTWISE or node.target in VIEWS:
            queue.extend(source for source in node.all_input_nodes if source not in seen)
            seen.update(node.all_input_nodes)
    return False


def _copies(read: list[torch.Tensor], written: list[torch.Tensor]) -> str:
    """A pointwise chain that moves as many bytes: reads all of `read`, writes all of `written`."""
    count = max(elements(t) for t in written)
    parameters, terms = [], []
    for i, tensor in enumerate(read):
        if elements(tensor) == count:
            parameters.append(f"input p{i}: {operators.NAMES[tensor.dtype]}[{count}]")
            terms.append(f"p{i}")
    value = terms[0] if terms else "0"
    for term in terms[1:]:
        value = f"add({value}, {term})"
    names = [operators.NAMES[tensor.dtype] for tensor in written if elements(tensor) == count]
    body = "".join(f"  y{i} = add({value}, {i + 1})\n" for i in range(len(names)))
    returned = ", ".join(f"y{i}: {name}" for i, name in enumerate(names))
    return f"chain pointwise({', '.join(parameters)}) {{\n{body}  return {returned}\n}}\n"
