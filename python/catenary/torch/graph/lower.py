# SPDX-License-Identifier: Apache-2.0
"""A region as a chain, and the chain's operator in the graph."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, Node

from catenary import ops
from catenary.chain import Chain, Tensor, elementwise
from catenary.operand import symbol
from catenary.torch import operators
from catenary.torch.graph.axes import Dims, Mismatch, elements, hint, same
from catenary.torch.graph.expression import Expression, make
from catenary.torch.graph.region import Product, Region, RowNorm, origin
from catenary.torch.graph.row_form import RowForm
from catenary.torch.graph.table import VIEWS, aten

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
HIGHEST_ROWS = 65536


@dataclass
class Argument:
    """A tensor that the chain takes: a node of the graph, sliced and reshaped."""

    node: Node
    columns: tuple[int, int] | None
    sizes: list[Any]


@dataclass
class Lowered:
    """A region as a chain."""

    chain: Chain
    arguments: list[Argument]
    outputs: list[Node]
    orders: list[tuple[list[int], list[int]]]
    """Per output: its axes in the chain, and as the node has them."""
    symbolic: bool


def lower(region: Region, outputs: Sequence[Node], static: bool = False) -> Lowered:
    """The chain of a region that returns `outputs`; `static`: for the sizes of the example only.

    Raises Mismatch where a chain cannot have it: more than 8 dimensions, gaps in an output, no such value, a reshape to
    two symbolic sizes.
    """
    return _Lowering(region, outputs, static).run()


class _Lowering:
    def __init__(self, region: Region, outputs: Sequence[Node], static: bool):
        self.region = region
        self.axes = region.axes.copy()
        self.outputs = list(outputs)
        self.chain = Chain("region")
        self.static = static
        self.arguments: list[Argument] = []
        self.orders: list[tuple[list[int], list[int]]] = []
        self.letters: dict[int, str] = {}
        self.symbol: Any = None
        self.made: dict[int, Tensor | float] = {}
        self.shared: dict[Any, tuple[Tensor, str]] = {}
        self.units: set[int] = set()  # axes of size 1, which products keep
        self.unit_axes: dict[str, int] = {}
        self.norms: dict[int, tuple[Tensor, Tensor | None, str]] = {}  # left operand, scale and labels of its rows
        self.stored = self._stored_dtypes()

    def run(self) -> Lowered:
        vectors = [vector for norm in self.region.norms for vector in norm.vectors]
        used = _leaves([*vectors, *(self.region.values[node] for node in self.outputs)])
        if self.region.norms:
            self._join_rows(used)
        self._find_symbol()
        operands = {i: self._product_operands(p) for i, p in enumerate(self.region.products) if ("product", i) in used}
        self.reads = {
            i: self._once(read.node, self.axes.dims(read.dims), read.columns, read.weight)
            for i, read in enumerate(self.region.reads)
            if ("input", i) in used
        }
        self.products = {i: self._contract(self.region.products[i], *parts) for i, parts in operands.items()}
        for node in self.outputs:
            self._output(node)
        self._check_sizes()
        return Lowered(self.chain, self.arguments, self.outputs, self.orders, self.symbol is not None)

    def _stored_dtypes(self) -> dict[int, torch.dtype]:
        """By value, the dtype of its first node, where that is stored and not f32. Other nodes of the value are copies:
        one that rounds an f32 value changes nothing for what reads the value."""
        first: dict[int, Node] = {}
        for node, value in self.region.values.items():
            first.setdefault(id(value), node)
        found = {}
        for node in self.outputs:
            values = (first[id(self.region.values[node])].meta["val"], node.meta["val"])
            dtypes = {value.dtype for value in values if isinstance(value, torch.Tensor)}
            if len(dtypes) == 1 and torch.float32 not in dtypes:
                found[id(self.region.values[node])] = dtypes.pop()
        return found

    def _check_sizes(self) -> None:
        """Raises Mismatch where an output of the chain has not as many elements as its node, which no view can mend."""
        for operand, node in zip(self.chain.outputs, self.outputs, strict=True):
            sizes = operand.shape_for(0 if self.symbol is None else hint(self.symbol))
            if math.prod(sizes) != elements(node.meta["val"]):
                raise Mismatch

    def _find_symbol(self) -> None:
        """The outermost axis of the rows is the chain's symbol, if its size is symbolic. Other symbolic sizes are the
        tensors' at each call."""
        rows = self.axes.flat((self.region.products[0].rows,))
        if not self.static and rows and not isinstance(self.axes.size(rows[0]), int):
            self.symbol = self.axes.size(rows[0])
            self.chain.symbol("M", 1, HIGHEST_ROWS)

    def _join_rows(self, used: set[tuple[str, int]]) -> None:
        """Makes one axis of the axes of the rows, as kernels that form rows need it, where they follow each other in
        all tensors."""
        places = [(read.node, read.dims) for i, read in enumerate(self.region.reads) if ("input", i) in used]
        places += [(node, self.region.dims[node]) for node in self.outputs]
        places += [(norm.norm.x, norm.dims) for norm in self.region.norms]
        others = [p for i, p in enumerate(self.region.products) if ("product", i) in used and p.norm is None]
        places += [(p.left, [*((axis,) for axis in p.batch), (p.rows,), (p.inner,)]) for p in others]
        rows = self.axes.flat((self.region.products[0].rows,))
        i = 0
        while i + 1 < len(rows):
            a, b = rows[i : i + 2]
            if all(_follows(node.meta["val"], self.axes.dims(dims), a, b) for node, dims in places):
                self.axes.join(a, b)
                rows = self.axes.flat((self.region.products[0].rows,))
            else:
                i += 1

    def _letter(self, axis: int) -> str:
        if axis not in self.letters:
            if len(self.letters) == len(LETTERS):
                raise Mismatch
            self.letters[axis] = LETTERS[len(self.letters)]
        return self.letters[axis]

    def _labels(self, dims: Dims) -> str:
        labels = "".join(self._letter(axis) for dim in dims for axis in dim)
        if len(labels) > 8:
            raise Mismatch
        return labels

    def _argument(self, node: Node, dims: Dims, columns: tuple[int, int] | None,
                  weight: bool = False) -> tuple[Tensor, str]:  # fmt: skip
        """A parameter for `node`, one dimension per axis."""
        value = node.meta["val"]
        labels = self._labels(dims)
        sizes: list[Any] = []
        strides: list[int] = []
        for dim, axes in enumerate(dims):
            step = hint(value.stride(dim))
            parts = []
            for axis in reversed(axes):
                parts.append((self.axes.size(axis), step))
                step *= hint(self.axes.size(axis))
            for size, stride in reversed(parts):
                sizes.append(size)
                strides.append(stride)
        taken = value.shape if columns is None else (*value.shape[:-1], columns[1] - columns[0])
        if math.prod(map(hint, sizes)) != math.prod(map(hint, taken)):
            raise Mismatch
        if not _equal_shapes(value.shape, sizes):
            _static_sizes(sizes)
        name = operators.NAMES[value.dtype]
        shape = [self._dim(i, size) for i, size in enumerate(sizes)]
        role = self.chain.weight if weight and _is_parameter(node) else self.chain.input
        first = hint(value.storage_offset()) + (columns[0] * hint(value.stride(-1)) if columns else 0)
        align = 16 if first * value.dtype.itemsize % 16 == 0 else value.dtype.itemsize
        parameter = role(f"p{len(self.arguments)}", name, shape, strides, align)
        self.arguments.append(Argument(node, columns, sizes))
        return parameter, labels

    def _dim(self, place: int, size: Any) -> int:
        leading = place == 0 and self.symbol is not None and same(size, self.symbol)
        return symbol if leading else hint(size)

    def _product_operands(self, product: Product) -> tuple[Any, ...]:
        batch = [self.axes.flat((axis,)) for axis in product.batch]
        rows, inner, width = (
            self.axes.flat((axis,)) or self._unit(role, axis)
            for role, axis in (("rows", product.rows), ("inner", product.inner), ("width", product.width))
        )
        if product.norm is None:
            left = self._once(product.left, [*batch, rows, inner], None)
        else:
            left = self._once(*self._norm_input(self.region.norms[product.norm], rows, inner), None)
        if product.ends is None:
            right = self._once(product.right, [*batch, inner, width], product.columns, weight=True)
            return (left, right, None, [*batch, rows, width])
        group = self.axes.flat((product.group,)) or self._unit("group", product.group)
        right = self._argument(product.right, [group, inner, width], product.columns, weight=True)
        ends = self._once(product.ends, [group], None)
        if len(rows) != 1:
            raise Mismatch
        ragged = ops.Ragged(self._letter(rows[0]), ends[0], self._letter(group[0]))
        return (left, right, ragged, [rows, width])

    def _norm_input(self, norm: RowNorm, rows: tuple[int, ...], inner: tuple[int, ...]) -> tuple[Node, Dims]:
        """What a norm is of, at dimensions that have all axes of the product's left operand."""
        dims = self.axes.dims(norm.dims)
        present = {axis for dim in dims for axis in dim}
        dims[0] = (*(axis for axis in rows if axis not in present), *dims[0])
        dims[-1] = (*dims[-1], *(axis for axis in inner if axis not in present))
        return norm.norm.x, dims

    def _normed(self, index: int, x: Tensor, labels: str, rows: str) -> Tensor:
        """The left operand of products after a norm: products of one norm have one. Where the norm only scales rows,
        they are scaled after the product, whose kernel can form the sum; else the rows are formed before it."""
        if index not in self.norms:
            norm = self.region.norms[index]
            vectors = [self._value(vector) for vector in norm.vectors]
            formed = RowForm(x, labels, rows, vectors)
            scaled = norm.norm.scaled
            if scaled is None:
                self.norms[index] = (formed.value(norm.norm.form)[0], None, rows)
            else:
                left = x
                if scaled.gain is not None:
                    gained, _ = formed.value(make("mul", make("x"), scaled.gain))
                    left = ops.cast(gained, operators.NAMES[norm.norm.result.meta["val"].dtype])
                self.norms[index] = (left, formed.value(scaled.scale)[0], rows)
        return self.norms[index][0]

    def _unit(self, role: str, axis: int) -> tuple[int]:
        """The axis of size 1 that all products of the region share."""
        while axis in self.axes._parts:
            axis = self.axes._parts[axis][0]
        found = self.unit_axes.setdefault(role, axis)
        self.units.add(found)
        return (found,)

    def _once(self, node: Node, dims: Dims, columns: tuple[int, int] | None,
              weight: bool = False) -> tuple[Tensor, str]:  # fmt: skip
        """Products of one operand take one parameter, so that the planner sees that it is shared."""
        key = (origin(node), columns, tuple(dims))
        if key not in self.shared:
            self.shared[key] = self._argument(node, dims, columns, weight)
        return self.shared[key]

    def _contract(self, product: Product, left: Any, right: Any, ragged: Any, dims: Dims) -> tuple[Tensor, str]:
        labels = self._labels(dims)
        is_f32 = product.left.meta["val"].dtype == torch.float32
        exact = is_f32 and torch.get_float32_matmul_precision() == "highest"
        fast = product.scales is not None and product.scales.fast_accum
        operand = left[0]
        if product.norm is not None:
            inner = self._labels([self.axes.flat((product.inner,)) or self._unit("inner", product.inner)])
            operand = self._normed(product.norm, *left, left[1].removesuffix(inner))
        equation = f"{left[1]},{right[1]}->{labels}"
        value = ops.contract(equation, operand, right[0], ragged, true_f32=exact, fast_accum=fast)
        return value, labels

    def _value(self, e: Expression) -> Tensor | float:
        if isinstance(e, (int, float)):
            return float(e)
        if id(e) in self.made:
            return self.made[id(e)]
        if e[0] == "product":
            tensor, labels = self.products[e[1]]
            value: Any = tensor.labeled(labels)
        elif e[0] == "input":
            tensor, labels = self.reads[e[1]]
            value = tensor.labeled(labels)
        elif e[0] == "norm":
            _, tensor, labels = self.norms[e[1]]
            value = tensor.labeled(labels)
        else:
            value = self._elementwise(e)
        dtype = self.stored.get(id(e))
        if dtype is not None and e[0] != "input":  # what is also stored is read as it is stored
            value = ops.cast(value, operators.NAMES[dtype]).labeled(value.labels)
        self.made[id(e)] = value
        return value

    def _elementwise(self, e: Expression) -> Tensor:
        op, operands = e[0], list(e[1:])
        numbers: list[float] = []
        if op == "cast":
            value: Any = self._value(operands[0])
            return ops.cast(value, operands[1]).labeled(value.labels)
        if op in ("clamp", "pow"):
            operands, numbers = operands[:1], [float(n) for n in operands[1:]]
        values = [self._value(operand) for operand in operands]
        labels = self._joint_labels([value.labels for value in values if isinstance(value, Tensor)])
        return elementwise(op, *values, attributes=numbers).labeled(labels)

    def _joint_labels(self, operands: Sequence[str]) -> str:
        """The labels of an elementwise result: those of its first operand of full rank. Without labels it would be
        aligned by its last dimensions. An operand by the group of a row has a letter that the result has not."""
        grouped = [p.group for p in self.region.products if p.group is not None]
        groups = {self.letters.get(axis) for axis in self.axes.flat(grouped)}
        result = max([o for o in operands if groups.isdisjoint(o)] or operands, key=len, default=None)
        if result is None or any(set(labels) - {*result, *groups} for labels in operands):
            raise Mismatch
        return result

    def _output(self, node: Node) -> None:
        meta = node.meta["val"]
        if not isinstance(meta, torch.Tensor):  # a split with a part outside
            raise Mismatch
        value = self._value(self.region.values[node])
        dims = self.axes.dims(self.region.dims[node])
        if not isinstance(value, Tensor) or meta.dtype not in operators.NAMES:
            raise Mismatch
        if not _dense(meta):
            raise Mismatch
        axis_of = {letter: axis for axis, letter in self.letters.items()}
        own = [axis_of[letter] for letter in value.labels]
        wanted = [axis for dim in dims for axis in dim]
        strides: dict[int, int] = {}
        for dim, axes in enumerate(dims):
            step = hint(meta.stride(dim))
            for axis in reversed(axes):
                strides[axis] = step
                step *= hint(self.axes.size(axis))
        units = [axis for axis in own if axis in self.units]
        if sorted(own) != sorted([*units, *wanted]):
            raise Mismatch
        end = max([strides[axis] * hint(self.axes.size(axis)) for axis in wanted], default=1)
        self.chain.output(value, operators.NAMES[meta.dtype], [strides.get(axis, end) for axis in own])
        kept = [axis for axis in own if axis not in units]
        permuted = own if kept == wanted else [*units, *wanted]
        if not _equal_shapes([self.axes.size(axis) for axis in permuted], meta.shape):
            _static_sizes(meta.shape)
        self.orders.append((own, permuted))


def _follows(value: torch.Tensor, dims: Dims, a: int, b: int) -> bool:
    """Whether the elements of axis b follow those of axis a as if both were one axis, or the tensor has neither."""
    places = [(dim, axis) for dim, axes in enumerate(dims) for axis in axes]
    here = [i for i, (_, axis) in enumerate(places) if axis in (a, b)]
    if not here:
        return True
    if [places[i][1] for i in here] != [a, b] or here[1] != here[0] + 1:
        return False
    outer, inner = (places[i][0] for i in here)
    return outer == inner or same(value.stride(outer), value.stride(inner) * value.shape[inner])


def _leaves(expressions: Sequence[Expression]) -> set[tuple[str, int]]:
    """The products and inputs that expressions read."""
    seen: set[int] = set()
    found: set[tuple[str, int]] = set()
    queue = list(expressions)
    while queue:
        e = queue.pop()
        if not isinstance(e, tuple) or id(e) in seen:
            continue
        seen.add(id(e))
        if e[0] in ("product", "input"):
            found.add((e[0], e[1]))
        else:
            queue.extend(e[1:])
    return found


def _is_parameter(node: Node) -> bool:
    """Whether a tensor comes into the graph from outside, looking through views."""
    while node.target in VIEWS or node.target is aten.slice.Tensor:
        node = node.args[0]
    return node.op == "get_attr" or (node.op == "placeholder" and node.name.startswith(("arg", "primals")))


def _dense(value: torch.Tensor) -> bool:
    """Whether the elements of a tensor have no gaps."""
    step = 1
    for size, stride in sorted(
        ((hint(n), hint(s)) for n, s in zip(value.shape, value.stride(), strict=False)), key=lambda p: p[1]
    ):
        if size == 1:
            continue
        if stride != step:
            return False
        step *= size
    return True


def insert(graph: Graph, lowered: Lowered, key: int, region: Region, fake: Callable[..., Any]) -> Node:
    """Puts the operator of a chain after the region, and its results in place of the outputs. Returns the operator's
    node. The caller sorts the graph afterwards: the operator may come after a user of its output."""
    order = {node: i for i, node in enumerate(graph.nodes)}
    last = max(region.nodes, key=order.__getitem__)

    def call(target: Any, *arguments: Any) -> Node:
        node = graph.call_function(target, arguments)
        values = torch.fx.node.map_arg(arguments, lambda n: n.meta["val"])
        node.meta["val"] = fake(target, values)
        return node

    with graph.inserting_before(last.next):
        tensors = [_view(call, argument) for argument in lowered.arguments]
        count = len(lowered.outputs)
        result = call(operators._run[count], tensors, key)
        results = [result] if count == 1 else [call(operator.getitem, result, i) for i in range(count)]
        for node, value, (own, wanted) in zip(lowered.outputs, results, lowered.orders, strict=False):
            if own != wanted:
                value = call(aten.permute.default, value, [own.index(axis) for axis in wanted])
            if not _equal_shapes(value.meta["val"].shape, node.meta["val"].shape):
                value = call(aten.reshape.default, value, _static_sizes(node.meta["val"].shape))
            node.replace_all_uses_with(value)
            for name in ("stack_trace", "original_aten", "from_node"):
                if name in node.meta:
                    value.meta[name] = node.meta[name]
    for node in sorted(region.nodes, key=order.__getitem__, reverse=True):
        if not node.users:
            graph.erase_node(node)
    return result


def _view(call: Callable[..., Node], argument: Argument) -> Node:
    node = argument.node
    if argument.columns is not None:
        dim = node.meta["val"].dim() - 1
        node = call(aten.slice.Tensor, node, dim, *argument.columns)
    if _equal_shapes(node.meta["val"].shape, argument.sizes):
        return node
    return call(aten.reshape.default, node, _static_sizes(argument.sizes))


def _equal_shapes(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=False))


def _static_sizes(sizes: Sequence[Any]) -> list[int]:
    """Sizes for reshape: the symbolic one is what is left. Raises Mismatch where there are two."""
    if sum(not isinstance(n, int) for n in sizes) > 1:
        raise Mismatch
    return [n if isinstance(n, int) else -1 for n in sizes]
