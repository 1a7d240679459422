# SPDX-License-Identifier: Apache-2.0
"""Norms before products: rows that a product's kernel computes from other rows as it loads them. A norm is any
pointwise work on one tensor x, on numbers for each row that come from sums over the rows of x, and on vectors along the
rows: LayerNorm, RMSNorm and what models write instead of them."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.fx import Node

from catenary.torch.graph.axes import same
from catenary.torch.graph.expression import Expression, make
from catenary.torch.graph.table import POINTWISE, PRODUCTS, applied, aten, is_float, prims

MOST_ROWS = 64
"""A product's kernel forms the rows that it reads up to here."""
MOST_READERS = 4
"""Products of one norm."""

_MOST_NODES = 48
_convert = prims.convert_element_type.default
_RESHAPES = {aten.reshape.default, aten.view.default, aten._unsafe_view.default}
_PLAIN = {aten.mm.default, aten.addmm.default}
_SHORT = {torch.bfloat16: "bf16", torch.float16: "f16"}
_X: Expression = make("x")


class Scaled(NamedTuple):
    """A norm that scales rows by numbers only: x * gain, and the scale, which may follow the product."""

    gain: Expression | None
    scale: Expression


@dataclass(frozen=True)
class Norm:
    """A norm, whose result is rounded to the dtype of its products."""

    x: Node
    result: Node
    form: Expression
    """Of the result: ("x",), ("vector", i), ("row_sum", e) over the last dimension, and pointwise operations."""
    vectors: tuple[tuple[Node, Node], ...]
    """Gains and shifts, each with what reads it."""
    scaled: Scaled | None
    """None: the rows are formed as the graph has them."""
    products: tuple[Node, ...]
    """All that read it, as their left operand, in the graph's order."""
    nodes: tuple[Node, ...]
    """It and its views; nothing else reads them."""


class _Refused(Exception):
    """Why a norm is left, as a part of a sentence."""


class Norms:
    """The norms before the products of a graph, each looked for once, and again where the graph has changed there."""

    def __init__(self) -> None:
        self._found: dict[Node, tuple[Norm | str | None, set[Node]]] = {}

    def before(self, product: Node) -> Norm | str | None:
        """The norm whose result is the left operand of a product; a text: why it stays with Inductor; None: there is no
        norm."""
        if product.target not in _PLAIN:
            return None
        if product not in self._found:
            result = product.args[PRODUCTS[product.target][0]]
            views = {product, result}
            while result.target in _RESHAPES and same(_last(result), _last(result.args[0])):
                result = result.args[0]
                views.add(result)
            trace = _Trace(result)
            found = _norm(product, trace)
            seen = views | trace.inside | set(found.nodes if isinstance(found, Norm) else ())
            near = {other for node in seen for other in (*node.users, *node.all_input_nodes)}
            self._found[product] = (found, seen | near)
        return self._found[product][0]

    def forget(self, nodes: Iterable[Node]) -> None:
        """Forgets what was found at these nodes, which are replaced."""
        gone = set(nodes)
        self._found = {product: entry for product, entry in self._found.items() if entry[1].isdisjoint(gone)}


def _norm(product: Node, trace: _Trace) -> Norm | str | None:
    result = trace.result
    try:
        trace.run()
        _check_product(product)
        products, views = _readers(result)
        _check_users(trace, {*trace.inside, *views})
        form = trace.value(result)
    except _Refused as refusal:
        return str(refusal) if trace.sums else None
    nodes = {*trace.inside, *views}
    scaled = _scaled(form, trace.x.meta["val"].dtype, result.meta["val"].dtype)
    return Norm(trace.x, result, form, tuple(trace.vectors.items()), scaled, products, tuple(sorted(nodes)))


def _check_product(product: Node) -> None:
    if product.meta["val"].dtype not in _SHORT:
        raise _Refused("only kernels of bf16 and f16 form it")
    rows = product.meta["val"].shape[0]
    highest = rows if isinstance(rows, int) else rows.node.shape_env.bound_sympy(rows.node.expr).upper
    if not highest <= MOST_ROWS:
        what = f"there are {rows}" if isinstance(rows, int) else "their number is dynamic without such a bound"
        raise _Refused(f"kernels form it for at most {MOST_ROWS} rows, and {what}")


def _readers(result: Node) -> tuple[tuple[Node, ...], list[Node]]:
    """The products that read a node through views, and these."""
    products: list[Node] = []
    views: list[Node] = []
    queue = [(result, user) for user in result.users]
    while queue:
        source, user = queue.pop()
        if user.target in _RESHAPES and same(_last(user), _last(result)):
            views.append(user)
            queue.extend((user, reader) for reader in user.users)
        elif user.target in _PLAIN and [a for a in user.args if a is source] == [user.args[PRODUCTS[user.target][0]]]:
            products.append(user)
        else:
            raise _Refused(_too(user, source, "its rows"))
    if len(products) > MOST_READERS:
        raise _Refused(f"{len(products)} products read it, and a region has at most {MOST_READERS}")
    return tuple(sorted(products)), views


def _check_users(trace: _Trace, inside: set[Node]) -> None:
    """Nothing else reads a part of the norm."""
    for node in sorted(trace.inside - {trace.result}):
        for user in node.users:
            if user not in inside:
                raise _Refused(_too(user, node, "its part"))


def _too(user: Node, node: Node, what: str) -> str:
    readers = user.users if user.target is _convert else ()
    if user.op == "output" or (readers and all(reader.op == "output" for reader in readers)):
        return f"the graph returns {what} '{node.name}' too, for the caller or for a backward graph"
    return f"'{user.name}' reads {what} '{node.name}' too"


class _Trace:
    """What a node is computed from, down to one tensor of its shape that all of it and all sums are of."""

    def __init__(self, result: Node):
        self.result = result
        self.inside: set[Node] = set()
        self.sums: set[Node] = set()
        self.vectors: dict[Node, Node] = {}
        self.x: Node = result
        self._widened: Node | None = None
        self._matrices = {result}
        self._values: dict[Node, Expression] = {}

    def run(self) -> None:
        """Finds x. Raises _Refused; there is no norm where `sums` is empty then."""
        value = self.result.meta.get("val")
        if not is_float(self.result) or value.dim() < 2 or not isinstance(value.shape[-1], int) or value.shape[-1] < 2:
            raise _Refused("its dtype or width is none of a norm")
        self._shape, self._width = value.shape, value.shape[-1]
        refusal = None
        while self._matrices and (refusal or not self.sums or len(self._matrices) > 1):
            last = max(self._matrices)
            self._matrices.remove(last)
            try:
                self._expand(last)
            except _Refused as why:  # there may be a sum in what is left
                refusal = refusal or why
        if refusal or not self._matrices:
            raise refusal or _Refused("it is of numbers only")
        (self.x,) = self._matrices
        source = self.x.args[0] if self.x.target is _convert else None
        if source is not None and self.x.meta["val"].dtype == torch.float32 and source.meta["val"].dtype in _SHORT:
            self._widened, self.x = self.x, source
            if set(self._widened.users) <= self.inside:
                self.inside.add(self._widened)
        if not is_float(self.x):
            raise _Refused(f"'{self.x.name}' has a dtype that no norm has")

    def value(self, node: Any) -> Expression:
        """A node of the norm as an expression, rounded where the graph rounds it."""
        if not isinstance(node, Node):
            return node
        if node is self.x or node is self._widened:
            return _X
        if node in self.vectors:
            return make("vector", list(self.vectors).index(node))
        if node not in self._values:
            self._values[node] = self._computed(node)
        return self._values[node]

    def _computed(self, node: Node) -> Expression:
        if node.target in _REDUCTIONS or node.target is operator.getitem:
            return self._reduced(node)
        if node.target is aten.unsqueeze.default:
            return self.value(node.args[0])
        arguments = [self.value(a) for a in node.args]
        value = applied(node, arguments)
        if value is None:
            raise _Refused(f"no chain has '{node.name}'")
        return self._rounded(value, node)

    def _expand(self, node: Node) -> None:
        """Replaces a matrix by what it is computed from."""
        if node.target not in POINTWISE or not is_float(node):
            raise _Refused(f"'{node.name}' is one of several tensors that it is computed from")
        if len(self.inside) > _MOST_NODES:
            raise _Refused("it has too many operations")
        self.inside.add(node)
        operands = [a for a in node.args if isinstance(a, Node)]
        kinds = [self._kind(operand) for operand in operands]
        if "matrix" not in kinds:
            raise _Refused(f"'{node.name}' is computed from numbers by row and by column only")
        for operand, kind in zip(operands, kinds, strict=True):
            if kind == "matrix":
                self._matrices.add(operand)
            elif kind == "row":
                self._add_row(operand)
            elif kind == "vector":
                self.vectors.setdefault(operand, node)
        if None in kinds:
            raise _Refused(f"'{operands[kinds.index(None)].name}' is neither by row nor by column")

    def _kind(self, node: Node) -> str | None:
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            return None
        shape = value.shape
        if len(shape) == len(self._shape) and all(same(a, b) for a, b in zip(shape[:-1], self._shape, strict=False)):
            return "matrix" if same(shape[-1], self._width) else "row" if same(shape[-1], 1) else None
        return "vector" if shape and same(shape[-1], self._width) and same(value.numel(), self._width) else None

    def _add_row(self, node: Node) -> None:
        """Adds what a number for each row is computed from."""
        if node in self.inside:
            return
        self.inside.add(node)
        if node.target is aten.unsqueeze.default and node.args[1] in (-1, len(self._shape) - 1):
            self._add_sum(node.args[0], kept=False)
        elif node.target is operator.getitem or node.target in _REDUCTIONS:
            self._add_sum(node, kept=True)
        elif node.target in POINTWISE and is_float(node):
            for operand in node.all_input_nodes:
                if self._kind(operand) != "row":
                    raise _Refused(f"'{operand.name}' is no number for each row")
                self._add_row(operand)
        else:
            raise _Refused(f"'{node.name}' is a number for each row that no sum gives")

    def _add_sum(self, node: Node, kept: bool) -> None:
        """Adds a sum over the last dimension, with that dimension (of size 1) or without."""
        self.inside.add(node)
        source = node.args[0] if node.target is operator.getitem else node
        if source.target not in _REDUCTIONS:
            raise _Refused(f"'{node.name}' is a number for each row that no sum gives")
        self.inside.add(source)
        found = _reduction(source)
        if found is None or found[1] is not kept or self._kind(source.args[0]) != "matrix":
            raise _Refused(f"'{source.name}' is no sum over the last dimension")
        self.sums.add(source)
        self._matrices.add(source.args[0])

    def _reduced(self, node: Node) -> Expression:
        """A sum, mean or variance over the last dimension."""
        source = node.args[0] if node.target is operator.getitem else node
        terms = self.value(source.args[0])
        total = make("row_sum", terms)
        if source.target is aten.sum.dim_IntList:
            return self._rounded(total, node)
        mean = make("mul", total, 1 / self._width)
        if source.target is aten.mean.dim or (node is not source and node.args[1] == 1):
            return self._rounded(mean, node)
        correction = source.kwargs.get("correction")
        divisor = self._width - (1 if correction is None else correction)
        if divisor <= 0:
            raise _Refused(f"'{source.name}' divides by {divisor}")
        squares = make("row_sum", make("square", make("sub", terms, mean)))
        return self._rounded(make("mul", squares, 1 / divisor), node)

    @staticmethod
    def _rounded(value: Expression, node: Node) -> Expression:
        dtype = node.meta["val"].dtype
        return make("cast", value, _SHORT[dtype]) if dtype in _SHORT else value


_REDUCTIONS = {aten.sum.dim_IntList, aten.mean.dim, aten.var.correction, aten.var_mean.correction}


def _reduction(node: Node) -> tuple[Node, bool] | None:
    """What a reduction over the last dimension is of, and whether it keeps that dimension; None: other dimensions."""
    named = dict(node.kwargs)
    dims = node.args[1] if len(node.args) > 1 else named.pop("dim", None)
    keep = node.args[2] if len(node.args) > 2 else named.pop("keepdim", False)
    named.pop("correction", None)
    if len(node.args) > 3 or named.get("dtype") not in (None, torch.float32) or set(named) - {"dtype"}:
        return None
    rank = node.args[0].meta["val"].dim()
    if not dims or [d % rank for d in dims] != [rank - 1]:
        return None
    return node.args[0], bool(keep)


def _scaled(form: Expression, x: torch.dtype, result: torch.dtype) -> Scaled | None:
    """x * gain and the scale of its rows, where they are scaled by numbers from its squares only. A gain may put a
    value of f16 out of its range before the rows are scaled."""
    factors = list(_factors(form))
    scales = [f for f in factors if _has(f, "row_sum")]
    gains = [f for f in factors if not _has(f, "x")]
    if x != result or len(scales) != 1 or len(factors) != len(gains) + 2 or not any(f is _X for f in factors):
        return None
    if (gains and result == torch.float16) or not _is_of_squares(scales[0]):
        return None
    return Scaled(functools.reduce(lambda a, b: make("mul", a, b), gains) if gains else None, scales[0])


def _factors(e: Expression) -> Iterator[Expression]:
    if isinstance(e, tuple) and e[0] == "cast":
        yield from _factors(e[1])
    elif isinstance(e, tuple) and e[0] == "mul":
        yield from _factors(e[1])
        yield from _factors(e[2])
    else:
        yield e


def _has(e: Expression, op: str) -> bool:
    return any(part[0] == op for part in _parts(e))


def _parts(e: Expression, before: bool = True) -> list[tuple[Any, ...]]:
    """The operations of an expression, each once. `before`: also those inside sums."""
    found: dict[int, tuple[Any, ...]] = {}
    queue = [e]
    while queue:
        part = queue.pop()
        if isinstance(part, tuple) and id(part) not in found:
            found[id(part)] = part
            queue.extend(part[1:] if before or part[0] != "row_sum" else ())
    return list(found.values())


def _is_of_squares(e: Expression) -> bool:
    """Whether the only sums are of the squares of x, which is read by nothing else."""
    parts = _parts(e, before=False)
    sums = [part for part in parts if part[0] == "row_sum"]
    return all(part[1] is make("square", _X) for part in sums) and not any(part is _X for part in parts)


def _last(node: Node) -> Any:
    return node.meta["val"].shape[-1]
