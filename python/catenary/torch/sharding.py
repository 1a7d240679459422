# SPDX-License-Identifier: Apache-2.0
"""Layers on DTensors: what each process computes on its own parts, for the placements of ColwiseParallel,
RowwiseParallel and a sharded batch. Gradients have the placements that follow.

A rule is per dimension of the mesh: the placements of the layer's weights decide how x must be placed, and how the
result is. What has no rule is an ArgumentError that names the placements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

from catenary.device import contiguous
from catenary.errors import ArgumentError

COLUMNS, ROWS, WHOLE = "columns", "rows", "whole"

# Weights and biases of a kind, each with the dimension that holds its columns (outputs of the layer) and its rows
# (what is summed). The last weight of an MLP has them the other way round: it sums over the columns of the others.
_PARAMETERS: dict[str, list[tuple[int | None, int | None]]] = {
    "linear": [(0, 1), (0, None)],
    "glu": [(0, 1), (0, 1), (0, None), (0, None)],
    "glu_mlp": [(0, None), (0, None), (1, None)],
}


def sharded_call(kind: str, tensors: Sequence[torch.Tensor], local: Callable[..., torch.Tensor],
                 activation: str | None, activate: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:  # fmt: skip
    """A layer whose weights are DTensors. `local` computes it on plain tensors, with or without bias and activation:
    local(tensors, activation)."""
    if kind not in _PARAMETERS:
        raise ArgumentError(f"{kind} has no rule for DTensors: call to_local() on its arguments")
    mesh = tensors[1].device_mesh
    x = tensors[0]
    plain = not isinstance(x, DTensor)  # then so is the result, whole on every process
    if plain:
        x = DTensor.from_local(x, mesh, [Replicate()] * mesh.ndim, run_check=False)
    splits = [_split(kind, tensors[1:], i) for i in range(mesh.ndim)]
    x = x.redistribute(mesh, [_x_placement(x, split, i) for i, split in enumerate(splits)])
    summed = any(split == ROWS or (kind == "glu_mlp" and split == COLUMNS) for split in splits)
    parts = [x.to_local(grad_placements=[_x_gradient(x.placements[i], split) for i, split in enumerate(splits)])]
    weights = tensors[1:]
    if summed and kind == "linear":
        weights = weights[:1]  # the bias is added once, after the sum
    elif summed and kind != "glu_mlp":
        raise ArgumentError(f"{kind} cannot sum over processes before its activation: shard its weights by columns")
    for weight in weights:
        gradients = [_weight_gradient(p, x.placements[i], x.dim()) for i, p in enumerate(weight.placements)]
        parts.append(weight.to_local(grad_placements=gradients))
    y = local(tuple(parts), None if summed and kind == "linear" else activation)
    out = [_result(x.placements[i], split, kind, x.dim()) for i, split in enumerate(splits)]
    # Without a shape, from_local takes all parts to be as large as this one.
    shape = (*x.shape[:-1], tensors[3 if kind == "glu_mlp" else 1].shape[0])
    result = DTensor.from_local(y, mesh, out, run_check=False, shape=torch.Size(shape), stride=contiguous(shape))
    if summed and kind == "linear" and (len(tensors) > 2 or activation is not None):
        result = result.redistribute(mesh, [Replicate() if isinstance(p, Partial) else p for p in out])
        # Under autocast the bias has another dtype.
        result = result + tensors[2].to(result.dtype) if len(tensors) > 2 else result
        result = activate(result) if activation is not None else result
    return result.redistribute(mesh, [Replicate()] * mesh.ndim).to_local() if plain else result


def _split(kind: str, weights: Sequence[DTensor], dim: int) -> str:
    """How the weights are divided over a dimension of the mesh."""
    found = []
    for weight, (columns, rows) in zip(weights, _PARAMETERS[kind], strict=False):
        place = weight.placements[dim]
        if isinstance(place, Replicate):
            # A bias of a layer that sums over processes is whole.
            found.append(None if weight.dim() == 1 else WHOLE)
        elif isinstance(place, Shard) and place.dim == columns:
            found.append(COLUMNS)
        elif isinstance(place, Shard) and place.dim == rows:
            found.append(ROWS)
        else:
            found.append("?")
    kinds = {split for split in found if split is not None}
    whole_bias = None in found and kinds == {COLUMNS}
    if len(kinds) != 1 or "?" in kinds or whole_bias:
        placements = ", ".join(str(weight.placements[dim]) for weight in weights)
        raise ArgumentError(f"{kind} has no rule for weights placed as {placements}: shard all by columns, or by rows")
    return kinds.pop()


def _x_placement(x: DTensor, split: str, dim: int) -> Any:
    place, last = x.placements[dim], x.dim() - 1
    if split == ROWS:
        return Shard(last)
    if split == COLUMNS or isinstance(place, Partial) or (isinstance(place, Shard) and place.dim % x.dim() == last):
        return Replicate()
    return place


def _x_gradient(place: Any, split: str) -> Any:
    return Partial() if split == COLUMNS else place


def _weight_gradient(place: Any, x: Any, rank: int) -> Any:
    """Each process has the gradient of its part of the batch, or the whole."""
    return Partial() if isinstance(x, Shard) and x.dim % rank != rank - 1 else place


def _result(x: Any, split: str, kind: str, rank: int) -> Any:
    if split == ROWS or (split == COLUMNS and kind == "glu_mlp"):
        return Partial()
    return Shard(rank - 1) if split == COLUMNS else x
