# SPDX-License-Identifier: Apache-2.0
"""Regions of a graph: matrix products and the pointwise operations around them that one chain computes."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.fx import Graph, Node

from catenary.torch.graph.axes import Axes, Dims, Mismatch, same
from catenary.torch.graph.expression import Expression, make
from catenary.torch.graph.norm import Norm, Norms
from catenary.torch.graph.repeat import compute_again, reads_less
from catenary.torch.graph.scaled import SCALED, Scales, scale_reads, scales_of
from catenary.torch.graph.table import POINTWISE, PRODUCTS, SPLITS, VIEWS, applied, aten, is_float, is_quantised

MOST_NODES = 64
MOST_PRODUCTS = 4


@dataclass
class Product:
    """A matrix product of a region. `columns`: of its right operand, where only a slice is taken."""

    node: Node
    left: Node
    right: Node
    added: Node | None
    ends: Node | None
    batch: tuple[int, ...]
    rows: int
    inner: int
    width: int
    group: int | None = None
    """The axis of the groups of rows."""
    scales: Scales | None = None
    columns: tuple[int, int] | None = None
    norm: int | None = None
    """The index of the norm that computes the left operand."""


@dataclass
class Read:
    """A tensor from outside a region, at the dimensions of the node that reads it."""

    node: Node
    dims: Dims
    columns: tuple[int, int] | None = None
    weight: bool = False


@dataclass
class RowNorm:
    """A norm of a region: its x by rows, and the expressions of its vectors."""

    norm: Norm
    dims: Dims
    vectors: list[Expression]


@dataclass
class Region:
    """Nodes of a graph that one chain computes."""

    products: list[Product] = field(default_factory=list)
    nodes: dict[Node, None] = field(default_factory=dict)
    axes: Axes = field(default_factory=Axes)
    dims: dict[Node, Dims] = field(default_factory=dict)
    values: dict[Node, Expression] = field(default_factory=dict)
    reads: list[Read] = field(default_factory=list)
    norms: list[RowNorm] = field(default_factory=list)

    def copy(self) -> Region:
        """A copy that may grow by itself."""
        lists = (list(self.reads), list(self.norms))
        return Region(
            list(self.products), dict(self.nodes), self.axes.copy(), dict(self.dims), dict(self.values), *lists
        )

    def outputs(self) -> list[Node]:
        """The nodes whose values are used outside. Of a view of a value, the value: views stay in the graph."""
        used = {self.base(node) for node in self.nodes if any(user not in self.nodes for user in node.users)}
        return [node for node in self.nodes if node in used]

    def arguments(self) -> Iterator[Node | None]:
        """The nodes whose values the operator of the region takes."""
        for product in self.products:
            yield from (product.left if product.norm is None else None, product.right, product.ends)
        yield from (read.node for read in self.reads)

    def base(self, node: Node) -> Node:
        """The node of the region that a node is a view of, or the node."""
        while node.target in VIEWS and node.args[0] in self.nodes:
            node = node.args[0]
        return node

    def views(self, node: Node) -> list[Node]:
        """A node, and the views of it in the region."""
        return [other for other in self.nodes if self.base(other) is node]


class Grower:
    """Grows regions in one graph, which is sorted. `order`: the position of each node. `found`: the graph's norms."""

    def __init__(self, graph: Graph, found: Norms | None = None):
        self.order = {node: i for i, node in enumerate(graph.nodes)}
        self.claimed: set[Node] = set()
        self._found = found or Norms()

    @functools.cached_property
    def norms(self) -> dict[Node, Norm | str]:
        """By product, the norm before it, or why that stays with Inductor."""
        found = {product: self._found.before(product) for product in self.order if product.target in PRODUCTS}
        return {product: norm for product, norm in found.items() if norm is not None}

    @functools.cached_property
    def norms_of(self) -> dict[Node, Norm]:
        """The norms that regions may have, by what they are of."""
        return {norm.x: norm for norm in self.norms.values() if isinstance(norm, Norm)}

    @functools.cached_property
    def _in_norms(self) -> set[Node]:
        return {node for norm in self.norms.values() if isinstance(norm, Norm) for node in norm.nodes}

    def grow(self, start: Node) -> list[Region]:
        """The regions around a product, the largest last."""
        region = Region()
        try:
            self._add_product(region, start)
        except Mismatch:
            return []
        return self.stages(region)

    def stages(self, region: Region) -> list[Region]:
        """The region, then larger ones: each adds one pointwise operation or view."""
        stages = [region]
        while len(region.nodes) < MOST_NODES:
            larger = self._larger(region)
            if larger is None:
                return stages
            region = larger
            stages.append(region)
        return stages

    def beside(self, region: Region) -> Region | None:
        """The region with further products of its left operand, such as those of QKV; None: there are none."""
        left = origin(region.products[0].left)
        found = region
        for node in self.order:
            if node.target not in PRODUCTS or node in found.nodes or node in self.claimed:
                continue
            if len({p.node for p in found.products}) == MOST_PRODUCTS:
                break
            if origin(node.args[PRODUCTS[node.target][0]]) != left:
                continue
            larger = found.copy()
            try:
                self._add_product(larger, node)
            except Mismatch:
                continue
            if self._convex(larger):
                found = larger
        return None if found is region else found

    def with_norm(self, product: Node) -> Region | str | None:
        """The region of all products that read the norm before `product`, and of the norm; a text: why there is none;
        None: no norm is before it."""
        norm = self.norms.get(product)
        if not isinstance(norm, Norm):
            return norm
        region = Region()
        try:
            for node in norm.products:
                self._add_product(region, node, norm)
        except Mismatch as mismatch:
            return str(mismatch) or "one of its products is in another region, or is none of a chain"
        return region if self._convex(region) else "what its products read depends on the products"

    @staticmethod
    def single(region: Region, node: Node) -> None:
        """Makes `region` that of one product."""
        Grower._add_product(_NOTHING_CLAIMED, region, node)

    def _larger(self, region: Region) -> Region | None:
        users = {user for node in region.nodes for user in node.users if user not in region.nodes}
        for user in sorted(users, key=self.order.__getitem__):
            if user in self.claimed or user.op != "call_function":
                continue
            larger = region.copy()
            try:
                self._absorb(larger, user, depth=0)
            except Mismatch:
                continue
            if self._convex(larger):
                return larger
        return None

    def _absorb(self, region: Region, node: Node, depth: int) -> None:
        if node in region.nodes:
            return
        if node in self.claimed or node in self._in_norms or depth > 8:  # a part of a norm is of no use
            raise Mismatch
        if node.target in VIEWS:
            self._absorb_view(region, node)
        elif node.target is aten.slice.Tensor:
            start = node.args[2] if len(node.args) > 2 and node.args[2] is not None else 0
            end = node.args[3] if len(node.args) > 3 and node.args[3] is not None else None
            if len(node.args) > 4 and node.args[4] != 1:
                raise Mismatch
            self._absorb_columns(region, node, node.args[0], node.args[1] if len(node.args) > 1 else 0, start, end)
        elif node.target in SPLITS and node.args[0] in region.nodes:
            self._put(region, node, region.dims[node.args[0]], region.values[node.args[0]])
        elif node.target is operator.getitem and node.args[0] in region.nodes and node.args[0].target in SPLITS:
            self._absorb_part(region, node)
        elif node.target in POINTWISE and (is_float(node) or is_quantised(node)):
            self._absorb_pointwise(region, node, depth)
        else:
            raise Mismatch

    def _absorb_view(self, region: Region, node: Node) -> None:
        source = node.args[0]
        if source not in region.nodes:
            raise Mismatch
        shape = list(node.meta["val"].shape)
        dims = region.axes.dims(region.dims[source])
        if node.target is aten.permute.default:
            made = [dims[d] for d in node.args[1]]
        elif node.target in (aten.t.default, aten.transpose.int):
            a, b = (0, 1) if node.target is aten.t.default else (node.args[1], node.args[2])
            made = list(dims)
            made[a], made[b] = made[b], made[a]
        else:
            made = region.axes.reshape(dims, shape)
        self._put(region, node, made, region.values[source])

    def _absorb_part(self, region: Region, node: Node) -> None:
        """A part of a split."""
        split, index = node.args
        source, sizes = split.args[0], split.args[1]
        dim = split.args[2] if len(split.args) > 2 else 0
        if not all(isinstance(n, int) for n in (sizes if isinstance(sizes, (list, tuple)) else [sizes])):
            raise Mismatch
        if isinstance(sizes, int):
            start, size = index * sizes, sizes
        else:
            start, size = sum(sizes[:index]), sizes[index]
        self._absorb_columns(region, node, source, dim, start, start + size)

    def _absorb_columns(self, region: Region, node: Node, whole: Node, dim: int, start: Any, end: Any) -> None:
        """Columns of a product: a product of these columns of its right operand. A start or end that is symbolic is a
        node."""
        if isinstance(start, Node) or isinstance(end, Node):
            raise Mismatch
        source = whole
        while source in region.nodes and source.target in VIEWS:
            source = source.args[0]
        found = [p for p in region.products if p.node is source and p.columns is None]
        shape = whole.meta["val"].shape
        dim %= len(shape)
        if not found or whole not in region.nodes or not isinstance(shape[dim], int):
            raise Mismatch
        product = found[0]
        width = region.axes.flat((product.width,))
        if region.axes.dims(region.dims[whole])[dim] != width or len(width) != 1:
            raise Mismatch
        start, end, _ = slice(start, end).indices(shape[dim])
        if start >= end:
            raise Mismatch
        axis = region.axes.add(end - start)
        sliced = replace(product, width=axis, columns=(start, end))
        dims = [(axis,) if d == dim else axes for d, axes in enumerate(region.axes.dims(region.dims[whole]))]
        self._put(region, node, dims, self._product_value(region, sliced))

    def _absorb_pointwise(self, region: Region, node: Node, depth: int) -> None:
        shape = list(node.meta["val"].shape)
        operands = [a for a in node.args if isinstance(a, Node)]
        if not all(is_float(operand) for operand in operands) or not operands:
            raise Mismatch
        for operand in operands:  # what only this region reads is computed in it
            if operand not in region.nodes:
                self._absorb_producer(region, node, operand, depth)
        inside = [o for o in operands if o in region.nodes and _same_shape(o.meta["val"].shape, shape)]
        if not inside:
            raise Mismatch
        dims = region.axes.dims(region.dims[inside[0]])
        for operand in inside[1:]:
            for a, b in zip(dims, region.dims[operand], strict=False):
                region.axes.unify(a, b)
        if any(o in region.nodes and o not in inside for o in operands):
            raise Mismatch  # a value of the region that is broadcast
        dims = region.axes.dims(dims)
        self._put_pointwise(region, node, dims)

    def _put_pointwise(self, region: Region, node: Node, dims: Dims) -> None:
        arguments = [self._operand(region, node, a, dims) if isinstance(a, Node) else a for a in node.args]
        if any(isinstance(a, (bool, complex)) for a in arguments):
            raise Mismatch
        value = applied(node, arguments)
        if value is None:
            raise Mismatch
        self._put(region, node, dims, value)

    def _absorb_producer(self, region: Region, node: Node, operand: Node, depth: int) -> None:
        """Another product of the same rows, or pointwise work that nothing else reads."""
        if operand in self.claimed or operand.op != "call_function":
            return
        trial = region.copy()
        try:
            if operand.target in PRODUCTS and len(trial.products) < MOST_PRODUCTS:
                self._add_product(trial, operand)
            elif operand.target in VIEWS or operand.target is aten.slice.Tensor or operand.target is operator.getitem:
                only = set(operand.users) <= {node, *region.nodes}
                self._absorb_producer(trial, operand if only else node, operand.args[0], depth + 1)
                self._absorb(trial, operand, depth + 1)
            elif operand.target in POINTWISE and set(operand.users) <= {node, *region.nodes} and depth < 8:
                self._absorb_pointwise(trial, operand, depth + 1)
            else:
                return
        except Mismatch:
            return
        for name, value in trial.__dict__.items():
            setattr(region, name, value)

    def _operand(self, region: Region, node: Node, operand: Node, dims: Dims) -> Expression:
        """A value of the region, pointwise work on outer tensors, or an outer tensor. Pointwise work that others read
        too is computed again where that reads fewer bytes."""
        if operand in region.nodes:
            return region.values[operand]
        shape = operand.meta["val"].shape
        own: Dims = []
        for size, axes in zip(reversed(list(shape)), reversed(dims), strict=False):
            own.append(() if same(size, 1) else axes)
        own.reverse()
        computed = operand.op == "call_function" and operand.target in POINTWISE and operand not in self.claimed
        if (
            computed
            and all(read.node is not operand for read in region.reads)
            and set(operand.users) <= {node, *region.nodes}
            and all(is_float(n) for n in operand.all_input_nodes)
        ):
            self._put_pointwise(region, operand, own)
            return region.values[operand]
        if reads_less(region, operand, self._in_norms):
            reads = list(region.reads)
            try:
                return compute_again(region, operand, own, self._in_norms, functools.partial(self._read, region))
            except Mismatch:
                region.reads = reads
        return self._read(region, operand, own)

    def _read(self, region: Region, node: Node, dims: Dims, columns: tuple[int, int] | None = None) -> Expression:
        for i, read in enumerate(region.reads):
            if read.node is node and read.columns == columns and region.axes.dims(read.dims) == region.axes.dims(dims):
                return make("input", i)
        if region.products and node.meta["val"].device != region.products[0].node.meta["val"].device:
            raise Mismatch  # a number on the CPU, which an operator does not take
        region.reads.append(Read(node, dims, columns))
        return make("input", len(region.reads) - 1)

    def _add_norm(self, region: Region, norm: Norm, rows: int, inner: int) -> int:
        """The index of a norm whose result has these axes."""
        if region.norms:
            return 0
        region.nodes.update(dict.fromkeys(norm.nodes))
        shape = list(norm.x.meta["val"].shape)
        dims = region.axes.reshape([(rows,), (inner,)], shape)
        vectors = []
        for vector, reader in norm.vectors:
            own: Dims = [*[()] * (vector.meta["val"].dim() - 1), (inner,)]
            first = len(region.reads)
            vectors.append(self._operand(region, reader, vector, own))
            if not all(read.node.op in ("placeholder", "get_attr") for read in region.reads[first:]):
                raise Mismatch(f"Inductor would compute '{vector.name}' by a kernel of its own")
            for read in region.reads[first:]:
                read.weight = True
        region.norms.append(RowNorm(norm, dims, vectors))
        return 0

    def _add_product(self, region: Region, node: Node, norm: Norm | None = None) -> None:
        if node in region.nodes:
            return
        if node in self.claimed or not is_float(node):
            raise Mismatch
        left_at, right_at, added_at = PRODUCTS[node.target]
        left, right = node.args[left_at], node.args[right_at]
        added = node.args[added_at] if added_at is not None else None
        ends = node.args[2] if node.target is aten._grouped_mm.default else None
        scales = None
        if node.target in SCALED:
            scales = scales_of(node)
            if isinstance(scales, str):
                raise Mismatch
            added, ends = scales.bias, scales.ends
        elif not _plain(node) or left.meta["val"].dtype != node.meta["val"].dtype:
            raise Mismatch
        if ends is not None and (left.meta["val"].dim() != 2 or right.meta["val"].dim() != 3):
            raise Mismatch
        shape = node.meta["val"].shape
        batch = (region.axes.add(shape[0]),) if len(shape) == 3 else ()
        rows, inner = region.axes.add(shape[-2]), region.axes.add(left.meta["val"].shape[-1])
        group = None if ends is None else region.axes.add(right.meta["val"].shape[0])
        for other in region.products:  # dual GEMM: one left operand
            if origin(other.left) == origin(left) and bool(other.batch) == bool(batch):
                region.axes.unify((other.rows,), (rows,))
                region.axes.unify((other.inner,), (inner,))
                for a, b in zip(other.batch, batch, strict=False):
                    region.axes.unify((a,), (b,))
                if ends is not None and other.ends is ends:  # rows by the same ends are of the same groups
                    region.axes.unify((other.group,), (group,))
        product = Product(node, left, right, added, ends, batch, rows, inner, region.axes.add(shape[-1]), group, scales)
        if norm is not None:
            product.norm = self._add_norm(region, norm, rows, inner)
        dims: Dims = [*((axis,) for axis in batch), (product.rows,), (product.width,)]
        self._put(region, node, dims, self._product_value(region, product))

    def _product_value(self, region: Region, product: Product) -> Expression:
        region.products.append(product)
        value = make("product", len(region.products) - 1)
        if product.scales is not None:
            for scale, axes, columns in scale_reads(product):
                value = make("mul", value, self._read(region, scale, axes, columns))
        if product.norm is not None and region.norms[product.norm].norm.scaled is not None:
            value = make("mul", value, make("norm", product.norm))
        if product.added is None:
            return value
        dims: Dims = [*((axis,) for axis in product.batch), (product.rows,), (product.width,)]
        shape = product.added.meta["val"].shape
        own = [() if same(n, 1) else axes for n, axes in zip(shape, dims[len(dims) - len(shape) :], strict=False)]
        columns = product.columns if own and own[-1] else None
        return make("add", value, self._read(region, product.added, own, columns))

    def _put(self, region: Region, node: Node, dims: Dims, value: Expression) -> None:
        region.nodes[node] = None
        region.dims[node] = dims
        region.values[node] = value

    def _convex(self, region: Region) -> bool:
        """No path from the region leaves it and comes back, and none of its nodes is an argument of its operator."""
        if any(argument in region.nodes for argument in region.arguments()):
            return False
        last = max(self.order[node] for node in region.nodes)
        below: set[Node] = set()
        queue = [user for node in region.nodes for user in node.users if user not in region.nodes]
        while queue:
            node = queue.pop()
            if node in below or self.order[node] > last:
                continue
            if node in region.nodes:
                return False
            below.add(node)
            queue.extend(node.users)
        return not any(
            read in below for node in region.nodes for read in node.all_input_nodes if read not in region.nodes
        )


class _Unclaimed(Grower):
    def __init__(self) -> None:
        self.order = {}
        self.claimed = set()


_NOTHING_CLAIMED = _Unclaimed()


def _plain(node: Node) -> bool:
    """A product without alpha, beta, a bias of grouped_mm, or another dtype of the result."""
    if any(value not in (None, 1) for value in node.kwargs.values()):
        return False
    extra = node.args[3:] if node.target in (aten.addmm.default, aten.baddbmm.default, aten._grouped_mm.default) else ()
    return all(value in (None, 1) for value in extra)


def origin(node: Node) -> Any:
    """What identifies the memory that a node reads: equal for two views that are the same."""
    value = node.meta["val"]
    layout = (str(tuple(value.shape)), str(value.stride()), str(value.storage_offset()))
    while node.target in VIEWS and isinstance(node.args[0], Node):
        node = node.args[0]
    return node, layout


def _same_shape(a: Any, b: Any) -> bool:
    return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=False))


def products_of(graph: Graph) -> list[Node]:
    """The matrix products of a graph, in order."""
    return [
        n
        for n in graph.nodes
        if n.op == "call_function" and n.target in PRODUCTS and isinstance(n.meta.get("val"), torch.Tensor)
    ]
