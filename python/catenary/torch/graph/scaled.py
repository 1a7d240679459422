# SPDX-License-Identifier: Apache-2.0
"""Products of fp8 with scales in a graph: which a chain can compute, and where their scales are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node

from catenary.torch.graph.axes import Dims, Mismatch, same
from catenary.torch.operators import FP8

if TYPE_CHECKING:
    from catenary.torch.graph.region import Product

aten = torch.ops.aten

# torch 2.11 has no fake kernel of _scaled_grouped_mm_v2, so that no graph has it.
_NAMES = ("_scaled_mm", "_scaled_mm_v2", "_scaled_grouped_mm")
SCALED = {getattr(aten, name).default: name for name in _NAMES if hasattr(aten, name)}

_RECIPES = ("TensorWise", "RowWise", "BlockWise1x16", "BlockWise1x32", "BlockWise1x128", "BlockWise128x128")
_FLOATS = (torch.bfloat16, torch.float16, torch.float32)


@dataclass(frozen=True)
class Scales:
    """Beside the operands of a product: f32 scales, each of one element, or by rows or columns."""

    left: Node
    right: Node
    left_by_rows: bool
    right_by_columns: bool
    """With groups [groups, columns], else with one dimension of that size."""
    bias: Node | None
    ends: Node | None
    fast_accum: bool


def scales_of(node: Node) -> Scales | str:
    """Of a node whose target is in SCALED; a sentence: no chain has the product."""
    given = _arguments(node)
    left, right = given["self"].meta["val"], given["mat2"].meta["val"]
    grouped = "offs" in given
    why = _refused(node, given, left, right, grouped)
    if why:
        return why
    a, b = given["scale_a"], given["scale_b"]
    if isinstance(a, (list, tuple)):
        a, b = a[0], b[0]
    rows, columns = left.shape[0], right.shape[-1]
    by_rows = _along(a.meta["val"].shape, rows)
    right_shape = b.meta["val"].shape
    if grouped:
        by_columns = len(right_shape) == 2 and same(right_shape[0], right.shape[0]) and same(right_shape[1], columns)
    else:
        by_columns = _along(right_shape, columns)
    for who, value, along in (("scale_a", a.meta["val"], by_rows), ("scale_b", b.meta["val"], by_columns)):
        if value.dtype != torch.float32:
            return f"{who} is {value.dtype}: chains have scales of float32, not by blocks of k"
        if not along and not _is_one(value):
            return f"{who} has shape {list(value.shape)}: chains have scales per tensor and per row, not by blocks of k"
    return Scales(a, b, by_rows and not _is_one(a.meta["val"]), by_columns and not _is_one(b.meta["val"]),
                  given["bias"], given.get("offs"), bool(given["use_fast_accum"]))  # fmt: skip


def scale_reads(product: Product) -> list[tuple[Node, Dims, tuple[int, int] | None]]:
    """The scales of a product, each at its dimensions, and the columns of it that are read."""
    scales = product.scales
    found: list[tuple[Node, Dims, tuple[int, int] | None]] = []
    for node, along, axis in (
        (scales.left, scales.left_by_rows, product.rows),
        (scales.right, scales.right_by_columns, product.width),
    ):
        shape = node.meta["val"].shape
        if node is scales.right and along and product.group is not None:
            found.append((node, [(product.group,), (axis,)], product.columns))
            continue
        dims: Dims = [(axis,) if along and not same(n, 1) else () for n in shape]
        columns = product.columns if node is scales.right and along else None
        if columns is not None and not dims[-1]:  # only a last dimension is sliced
            raise Mismatch
        found.append((node, dims, columns))
    return found


def _refused(node: Node, given: dict[str, Any], left: torch.Tensor, right: torch.Tensor, grouped: bool) -> str:
    if left.dtype not in FP8 or right.dtype != left.dtype:
        return f"operands of {left.dtype} and {right.dtype}: chains multiply two of float8_e4m3fn, or of float8_e5m2"
    if node.meta["val"].dtype not in _FLOATS:
        return f"out_dtype is {node.meta['val'].dtype}: the pass takes bfloat16, float16 and float32"
    if given.get("scale_result") is not None:
        return "it has scale_result: the pass takes products without one"
    if grouped and (given["offs"] is None or left.dim() != 2 or right.dim() != 3):
        return "groups of other dimensions than rows: the pass takes [m, k] by [groups, k, n]"
    if grouped and given["bias"] is not None:
        return "it has a bias by groups: the pass takes products without one"
    for side in ("a", "b"):
        recipe = list(given.get(f"recipe_{side}") or [])
        if any(number not in (0, 1) for number in recipe) or len(recipe) > 1:
            names = ", ".join(_RECIPES[n] if n < len(_RECIPES) else str(n) for n in recipe)
            return f"recipe_{side} is {names}: chains have scales TensorWise and RowWise"
        if any(given.get(f"swizzle_{side}") or []):
            return f"scale_{side} is swizzled: chains have scales in plain order"
    return "it has contraction_dim: the pass takes products without one" if given.get("contraction_dim") else ""


def _arguments(node: Node) -> dict[str, Any]:
    """By the names of the schema, with its defaults."""
    schema = node.target._schema.arguments
    found = {argument.name: argument.default_value for argument in schema}
    found.update({argument.name: value for argument, value in zip(schema, node.args, strict=False)})
    return found | dict(node.kwargs)


def _is_one(value: torch.Tensor) -> bool:
    return all(same(n, 1) for n in value.shape)


def _along(shape: Any, size: Any) -> bool:
    """Whether one dimension has the size, and others have 1."""
    own = [n for n in shape if not same(n, 1)]
    return (len(own) == 1 and same(own[0], size)) or (not own and same(size, 1))
