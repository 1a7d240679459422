# SPDX-License-Identifier: Apache-2.0
"""Rules of the operators for DTensors: along which dimensions each process may compute its own part, by the factors of
the chain (`catenary.Chain.factors`). Importing registers them.

Per dimension of the mesh a factor is divided, or nothing is: tensors that have the factor are sharded, outputs that
sum over it are partial. The parts of a chain for exact sizes are another chain: `run_sharded` has it, which
`operators.run` and `operators.run_out` call; an operator by itself computes such a chain whole.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.experimental import register_sharding

from catenary.chain import Chain
from catenary.errors import ArgumentError
from catenary.operand import Role
from catenary.torch import operators
from catenary.torch.operators import Form


@dataclass(frozen=True)
class Rule:
    """Placements over one dimension of a mesh."""

    outputs: list[Any]
    inputs: list[Any]
    """Per parameter of the form."""
    factor: int | None
    """What is divided; None: every process computes all."""


@functools.lru_cache(maxsize=4096)
def rules(key: int, extra: tuple[int, ...]) -> list[Rule]:
    """All rules of a form. `extra`: per parameter, how many dimensions its tensor has beyond those of it: the leading
    dimensions are those of the rows."""
    form = operators.form_of(key)
    whole = Rule([Replicate()] * len(form.outputs), [Replicate()] * len(form.inputs), None)
    chain = Chain.parse(form.text)
    factors = chain.factors
    parameters = chain.parameters
    inputs = [dims for p, dims in zip(parameters, factors.operands, strict=False) if p.role != Role.scalar]
    outputs = factors.operands[len(parameters) :]
    bytes = {factor for p, dims in zip(form.inputs, inputs, strict=True) if p.bytes for factor in dims}
    leading = max((n for p, n in zip(form.inputs, extra, strict=True) if p.leading), default=0)
    found = [whole]
    for factor, divides in enumerate(factors.divides):
        if not divides or (form.exact and factor in bytes):
            continue
        rows = any(p.leading and dims[0] == factor for p, dims in zip(form.inputs, inputs, strict=True))
        for dim in range(leading + 1 if rows else 1):

            def place(dims: list[int], is_leading: bool, factor: int = factor, dim: int = dim) -> Any:
                if factor not in dims:
                    return None
                at = dims.index(factor)
                return Shard(at + leading if at > 0 else dim) if is_leading else Shard(at)

            placed = [place(dims, p.leading) or Replicate() for p, dims in zip(form.inputs, inputs, strict=True)]
            made = [
                place(dims, o.leading) or (Partial() if factor in sums else Replicate())
                for o, dims, sums in zip(form.outputs, outputs, factors.sums, strict=True)
            ]
            found.append(Rule(made, placed, factor))
    return found


def _extra(form: Form, tensors: Sequence[Any]) -> tuple[int, ...]:
    return tuple(len(t.shape) - len(p.sizes) for t, p in zip(tensors, form.inputs, strict=True))


def _rule(inputs: Any, key: int, scalars: Any = (), gradients: int = 0) -> list[tuple[list[Any], list[Any]]]:
    form = operators.form_of(key)
    found = rules(key, _extra(form, inputs))
    return [(rule.outputs, rule.inputs) for rule in (found[:1] if form.exact else found)]


register_sharding([*operators._run.values(), *operators.train.values()])(_rule)


def run_sharded(form: Form, inputs: Sequence[Any], outs: Sequence[Any] | None,
                scalars: Sequence[float]) -> tuple[DTensor, ...]:  # fmt: skip
    """Runs a form on DTensors, without gradients: inputs move to the placements of a rule, the one that moves the
    fewest bytes, and each process runs the chain of its parts. Tensors that are no DTensors are whole everywhere.

    outs: of the caller, whose placements choose the rule; those in place of inputs too. None: they are made.
    ArgumentError: no rule has the placements of outs.
    """
    mesh = next(t for t in [*inputs, *(outs or ())] if isinstance(t, DTensor)).device_mesh

    def distributed(tensor: Any) -> DTensor:
        if isinstance(tensor, DTensor):
            return tensor
        return DTensor.from_local(tensor, mesh, [Replicate()] * mesh.ndim, run_check=False)

    with torch.no_grad():
        made = None if outs is None else [distributed(t) for t in outs]
        arguments = form.arguments([distributed(t) for t in inputs], made or ())
        chosen = _choose(form, mesh, arguments, made)
        local = _local_form(form, mesh, chosen)
        placed = [[rule.inputs[i] for rule in chosen] for i in range(len(arguments))]
        parts = [t.redistribute(mesh, p).to_local() for t, p in zip(arguments, placed, strict=True)]
        given = [
            operators.laid_out(part, parameter.strides) if local.exact else part
            for part, parameter in zip(parts, local.inputs, strict=True)
            if parameter.overwritten_by < 0
        ]
        if made is not None:
            _write(local, given, [t.to_local() for t in made], scalars)
            return tuple(made)
        results = operators.run(local, given, scalars)
        found = []
        for i, result in enumerate(results):
            sizes, strides = form.layout(i, arguments)
            found.append(DTensor.from_local(result, mesh, [rule.outputs[i] for rule in chosen], run_check=False,
                                            shape=torch.Size(sizes), stride=tuple(strides)))  # fmt: skip
        return tuple(found)


def _write(form: Form, inputs: Sequence[torch.Tensor], outs: Sequence[torch.Tensor], scalars: Sequence[float]) -> None:
    """run_out; parts that do not have the chain's strides are copied."""
    arguments = form.arguments(inputs, outs)
    laid = list(outs)
    for i in range(len(outs)):
        _, strides = form.layout(i, arguments)
        if not operators.has_strides(outs[i], strides):
            memory = outs[i].new_empty_strided(outs[i].shape, strides)
            laid[i] = memory.copy_(outs[i]) if form.outputs[i].in_place >= 0 else memory
    operators.run_out(form, inputs, laid, scalars)
    for out, memory in zip(outs, laid, strict=True):
        if memory is not out:
            out.copy_(memory)


def _choose(form: Form, mesh: Any, arguments: Sequence[DTensor], outs: Sequence[DTensor] | None) -> list[Rule]:
    """A rule per dimension of the mesh."""
    chosen: list[Rule] = []
    for dim in range(mesh.ndim):
        usable = []
        for rule in rules(form.key, _extra(form, arguments)):
            if not _fits(form, mesh, [*chosen, rule], arguments):
                continue
            if outs is not None and any(rule.outputs[i] != out.placements[dim] for i, out in enumerate(outs)):
                continue
            fixed = (i for i, p in enumerate(form.inputs) if p.overwritten_by >= 0)
            if any(rule.inputs[i] != arguments[i].placements[dim] for i in fixed):
                continue
            usable.append((sum(_moved(t, t.placements[dim], p) for t, p in zip(arguments, rule.inputs, strict=True)),
                           rule.factor is None, len(usable), rule))  # fmt: skip
        if not usable:
            places = ", ".join(str(out.placements[dim]) for out in outs or ())
            raise ArgumentError(
                f"chain '{form.name}' has no rule for outputs placed as {places}: place them as one of "
                f"{sorted({str(tuple(rule.outputs)) for rule in rules(form.key, _extra(form, arguments))})}"
            )
        chosen.append(min(usable, key=lambda entry: entry[:3])[3])
    return chosen


def _moved(tensor: DTensor, place: Any, wanted: Any) -> int:
    """Bytes that a process receives, about."""
    size = tensor.numel() * tensor.element_size()
    if place == wanted or (isinstance(place, Replicate) and isinstance(wanted, Shard)):
        return 0
    return 2 * size if isinstance(place, Partial) and isinstance(wanted, Replicate) else size


def _fits(form: Form, mesh: Any, chosen: Sequence[Rule], arguments: Sequence[DTensor]) -> bool:
    """Whether all parts of an exact chain are equal, and within the range of its symbol."""
    if not form.exact:
        return True
    for i, parameter in enumerate(form.inputs):
        counts = [1] * len(arguments[i].shape)
        for dim, rule in enumerate(chosen):
            if isinstance(rule.inputs[i], Shard):
                counts[rule.inputs[i].dim] *= mesh.size(dim)
        for n, size, count in zip(parameter.sizes, arguments[i].shape, counts, strict=True):
            if size % count or size < count:
                return False
            if n is None and not -(-form.symbol[0] // count) <= size // count <= form.symbol[1] // count:
                return False
    return True


def _local_form(form: Form, mesh: Any, chosen: Sequence[Rule]) -> Form:
    """The form of one process."""
    divided = [(rule.factor, mesh.size(dim)) for dim, rule in enumerate(chosen) if rule.factor is not None]
    return _part(form.key, tuple(divided)) if form.exact and divided else form


@functools.lru_cache(maxsize=4096)
def _part(key: int, divided: tuple[tuple[int, int], ...]) -> Form:
    chain = Chain.parse(operators.form_of(key).text)
    parts = [1] * len(chain.factors.divides)
    for factor, count in divided:
        parts[factor] *= count
    return operators.add(chain.shard(parts))
