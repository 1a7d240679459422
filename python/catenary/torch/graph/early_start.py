# SPDX-License-Identifier: Apache-2.0
"""Which operators of a graph may start, and read weights, before the stream's previous kernel has ended (PDL).

A kernel of Inductor starts when all before it has ended, so that what ran before the graph has ended when an operator
that depends on such a kernel starts; and the graph writes none of the operator's weights. Calls of libraries do not
count: cuBLAS has kernels that start early."""

from __future__ import annotations

import operator
from collections.abc import Iterator

import torch
from torch._inductor import config
from torch.fx import Graph, Node

from catenary.chain import Chain
from catenary.operand import Role
from catenary.torch.graph.table import POINTWISE, PRODUCTS, VIEWS, aten, prims

_convert = prims.convert_element_type.default

# What Inductor always computes by a kernel of its own. It may drop a conversion or a power.
_KERNELS = (set(POINTWISE) - {_convert, aten.pow.Tensor_Scalar}) | {
    aten.sum.dim_IntList, aten.mean.dim, aten.amax.default, aten.var_mean.correction, aten.embedding.default,
    aten.index.Tensor, aten.gather.default,
}  # fmt: skip


class EarlyStarts:
    """The rule for one graph, in its final form."""

    def __init__(self, graph: Graph):
        self._known = not config.triton.enable_pdl and config.post_grad_custom_post_pass is None
        self._written = {_memory(node) for user in graph.nodes for node in _written(user)}
        self._fed: set[Node] = set()  # depends on an input: constants may be computed before
        for node in graph.nodes:
            if node.op == "placeholder" or any(source in self._fed for source in node.all_input_nodes):
                self._fed.add(node)
            if getattr(node.target, "namespace", "") == "streams":  # of several CUDA streams
                self._known = False

    def allowed(self, call: Node, chain: Chain) -> bool:
        """Whether the operator `call` of `chain` may start early."""
        tensors = call.args[0]
        weights = [_memory(t) for t, o in zip(tensors, chain.operands, strict=False) if o.role == Role.weight]
        if not self._known or any(weight in self._written for weight in weights):
            return False
        device = tensors[0].meta["val"].device
        return any(self._is_kernel(node, device) for node in _ancestors(call))

    def _is_kernel(self, node: Node, device: torch.device) -> bool:
        value = node.meta.get("val")
        value = value[0] if isinstance(value, (list, tuple)) and value else value
        if node.target not in _KERNELS or node not in self._fed or not isinstance(value, torch.Tensor):
            return False
        if value.device != device or any(isinstance(n, int) and n == 0 for n in value.shape):
            return False
        return not any(_is_product(source) for source in node.all_input_nodes)


def _ancestors(node: Node) -> Iterator[Node]:
    seen: set[Node] = set()
    queue = list(node.all_input_nodes)
    while queue:
        source = queue.pop()
        if source not in seen:
            seen.add(source)
            yield source
            queue.extend(source.all_input_nodes)


def _is_product(node: Node) -> bool:
    """Whether Inductor may make the user of a node a part of a library's product."""
    while node.target in VIEWS or node.target is _convert:
        node = node.args[0]
    return node.target in PRODUCTS


def _written(node: Node) -> list[Node]:
    """What a node writes: by its schema, else all that it is given."""
    if node.op in ("placeholder", "get_attr", "output") or node.target is operator.getitem:
        return []
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        is_number = all(not isinstance(n.meta.get("val"), torch.Tensor) for n in node.all_input_nodes)
        return [] if is_number else node.all_input_nodes
    if not schema.is_mutable:
        return []
    given = {argument.name: value for argument, value in zip(schema.arguments, node.args, strict=False)}
    given.update(node.kwargs)
    found: list[Node] = []
    for argument in schema.arguments:
        if argument.alias_info is not None and argument.alias_info.is_write:
            torch.fx.node.map_arg(given.get(argument.name), found.append)
    return found


def _memory(node: Node) -> Node:
    """The node whose memory a view has."""
    while node.op == "call_function":
        schema = getattr(node.target, "_schema", None)
        aliases = schema is not None and any(result.alias_info is not None for result in schema.returns)
        if not aliases and node.target is not operator.getitem and node.target not in VIEWS:
            break
        node = node.args[0]
    return node
