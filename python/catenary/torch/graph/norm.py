# SPDX-License-Identifier: Apache-2.0
"""RMS norms before products: what Inductor's graph has, and which products are all that read one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from catenary.torch.graph.axes import same
from catenary.torch.graph.table import PRODUCTS, aten, prims

MOST_ROWS = 24
"""A product's kernel forms the norm of the rows that it reads up to here."""

_convert = prims.convert_element_type.default
_RESHAPES = {aten.reshape.default, aten.view.default, aten._unsafe_view.default}
_PLAIN = {aten.mm.default, aten.addmm.default}
_MUL = {aten.mul.Tensor, aten.mul.Scalar}


@dataclass(frozen=True)
class Norm:
    """x * rsqrt(mean(x^2) + eps) * gain over the last dimension, rounded to the dtype of x."""

    x: Node
    gain: Node | None
    reader: Node
    """What multiplies by the gain."""
    eps: float
    width: int
    products: tuple[Node, ...]
    """All that read it, as their left operand, in the graph's order."""
    nodes: tuple[Node, ...]
    """It and its views; nothing else reads them."""


def norm_of(product: Node) -> Norm | None:
    """The norm whose result is the left operand of a product; None: there is none, something else reads a part of it,
    or there are too many rows."""
    if product.target not in _PLAIN:
        return None
    rows = product.meta["val"].shape[0]
    if not isinstance(rows, int) or rows > MOST_ROWS:
        return None
    result = product.args[PRODUCTS[product.target][0]]
    while result.target in _RESHAPES and same(_last(result), _last(result.args[0])):
        result = result.args[0]
    match = _match(result)
    if match is None:
        return None
    found = _readers(result)
    if found is None:
        return None
    products, views = found
    x, gain, reader, eps, inner, widened = match
    if set(widened.users) <= inner:
        inner.add(widened)
    inner.add(result)
    inside = {*inner, *views}
    if any(not set(node.users) <= inside for node in inner if node is not result):
        return None
    return Norm(x, gain, reader, eps, _last(result), tuple(sorted(products)), tuple(inside))


def _readers(result: Node) -> tuple[list[Node], list[Node]] | None:
    """The products that read a node through views, and these; None: something else reads it."""
    products: list[Node] = []
    views: list[Node] = []
    queue = [(result, user) for user in result.users]
    while queue:
        source, user = queue.pop()
        if user.target in _RESHAPES and same(_last(user), _last(result)):
            views.append(user)
            queue.extend((user, reader) for reader in user.users)
        elif user.target in _PLAIN and [a for a in user.args if a is source] == [
            user.args[PRODUCTS[user.target][0]]
        ]:
            products.append(user)
        else:
            return None
    return products, views


def _match(result: Node) -> tuple[Node, Node | None, Node, float, set[Node], Node] | None:
    """x, gain, its reader, eps, the nodes but `result` and the one that widens x, and that one."""
    value = result.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.dtype not in (torch.bfloat16, torch.float16):
        return None
    width = value.shape[-1]
    if not isinstance(width, int):
        return None
    for normed, gain, outer in _gained(result, width):
        scaled = _scaled(normed, width)
        if scaled is None:
            continue
        widened, eps, inner = scaled
        x = widened.args[0]
        # A gain may put a value of f16 out of its range before the rows are scaled.
        if x.meta["val"].dtype != value.dtype or (gain is not None and value.dtype == torch.float16):
            continue
        return x, gain, outer[-1] if outer else result, eps, inner | set(outer) - {result}, widened
    return None


def _gained(result: Node, width: int) -> Iterator[tuple[Node, Node | None, list[Node]]]:
    """What `result` may be the product of: a norm in f32, a gain, and the nodes from `result` to what multiplies."""
    if result.target is _convert:
        inner = result.args[0]
        yield inner, None, []
        if inner.target is aten.mul.Tensor:
            for normed, gain in _both(inner):
                if _is_gain(gain, width):
                    yield normed, gain, [inner]
    elif result.target is aten.mul.Tensor:
        for rounded, gain in _both(result):
            if rounded.target is _convert and rounded.args[1] == result.meta["val"].dtype and _is_gain(gain, width):
                yield rounded.args[0], gain, [rounded, result]


def _is_gain(node: Node, width: int) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.numel() == width and same(value.shape[-1], width)


def _scaled(node: Node, width: int) -> tuple[Node, float, set[Node]] | None:
    """The node that widens x, eps and the nodes of x * rsqrt(mean(x^2) + eps) in f32."""
    if node.target is not aten.mul.Tensor:
        return None
    for widened, root in _both(node):
        if widened.target is not _convert or widened.args[1] != torch.float32 or root.target is not aten.rsqrt.default:
            continue
        shifted = root.args[0]
        if shifted.target not in (aten.add.Tensor, aten.add.Scalar) or len(shifted.args) != 2 or shifted.kwargs:
            continue
        total, eps = shifted.args
        mean = _mean(total, width)
        if mean is None or not isinstance(eps, (int, float)) or not _squares(mean[0], widened):
            continue
        return widened, float(eps), {node, root, shifted, *mean}
    return None


def _mean(node: Any, width: int) -> list[Node] | None:
    """What a mean over the last dimension is of, and the mean's nodes."""
    found = [node]
    if isinstance(node, Node) and (
        (node.target in _MUL and _near(node.args[1], 1 / width))
        or (node.target in (aten.div.Tensor, aten.div.Scalar) and _near(node.args[1], width))
    ):
        node = node.args[0]
        found.append(node)
    wanted = aten.sum.dim_IntList if len(found) == 2 else aten.mean.dim
    if not isinstance(node, Node) or node.target is not wanted or len(node.args) != 3 or node.kwargs:
        return None
    squares, dims, keep = node.args
    rank = squares.meta["val"].dim()
    return [squares, *found] if keep and [d % rank for d in dims] == [rank - 1] else None


def _squares(node: Node, x: Node) -> bool:
    if node.target is aten.pow.Tensor_Scalar:
        return node.args[0] is x and node.args[1] == 2
    return (node.target is aten.square.default and node.args[0] is x) or (
        node.target is aten.mul.Tensor and node.args[0] is x and node.args[1] is x
    )


def _both(node: Node) -> list[tuple[Node, Node]]:
    """The operands of a multiplication in either order."""
    a, b = node.args
    return [(a, b), (b, a)] if isinstance(a, Node) and isinstance(b, Node) else []


def _near(value: Any, number: float) -> bool:
    return isinstance(value, (int, float)) and abs(value - number) <= 1e-6 * number


def _last(node: Node) -> Any:
    return node.meta["val"].shape[-1]
