# SPDX-License-Identifier: Apache-2.0
"""A chain on a sharded mesh: what each device computes of it, by the factors of the chain.

A dimension that divides (`catenary.Chain.factors`) keeps the axes of the mesh that its tensors have; a sum over it
becomes a psum of the output. The others are gathered. A size that has no equal parts stays whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding, PartitionSpec

from catenary.chain import Chain
from catenary.operand import symbol

# Computes a chain, of these sizes, on arrays: chain, arrays, size of the symbol.
Compute = Callable[[Chain, Sequence[Any], int], Sequence[Any]]


def partitioned(chain: Chain, numbers: Sequence[int], size: int, compute: Compute) -> Callable[..., tuple[Any, ...]]:
    """A function of the chain's arrays that XLA may divide over devices.

    Args:
        numbers: of the arrays among the chain's parameters. size: that of the symbol, 0 without one.
    """
    sharding = _Sharding(chain, numbers, size)

    def whole(*arrays):
        return tuple(compute(chain, arrays, size))

    def part_of(mesh, axes):
        parts = sharding.parts(mesh, axes)
        local = chain if all(n == 1 for n in parts) else chain.shard(parts)

        def part(*arrays):
            made = compute(local, arrays, sharding.local_size(parts))
            return tuple(_psum(m, sharding.summed(i, axes)) for i, m in enumerate(made))

        return part

    def partition(mesh, arrays, results):
        axes = sharding.axes(mesh, [a.sharding for a in [*arrays, *results]])
        inputs, outputs = sharding.placements(mesh, axes)
        return mesh, part_of(mesh, axes), outputs, inputs

    def infer(mesh, arrays, results):
        axes = sharding.axes(mesh, [a.sharding for a in arrays] + [None] * len(results))
        return sharding.placements(mesh, axes)[1]

    function = custom_partitioning(whole)
    function.def_partition(partition, infer, sharding_rule=sharding.rule, **sharding.special)
    sequential = jax.custom_batching.sequential_vmap(function)

    def anywhere(*arrays):
        mesh = explicit_mesh(arrays)
        if mesh is None:
            return sequential(*arrays)
        # The types of the arrays say what each device has, and must say so of the results.
        axes = sharding.axes(mesh, [jax.typeof(a).sharding for a in arrays] + [None] * len(sharding.outputs))
        inputs, outputs = sharding.placements(mesh, axes)
        placed = [jax.sharding.reshard(a, s) for a, s in zip(arrays, inputs, strict=True)]
        specs = (tuple(s.spec for s in inputs), tuple(s.spec for s in outputs))
        part = jax.shard_map(part_of(mesh, axes), mesh=mesh, in_specs=specs[0], out_specs=specs[1],
                             axis_names=_explicit_axes(mesh), check_vma=False)  # fmt: skip
        return part(*placed)

    return anywhere


def explicit_mesh(arrays: Sequence[Any]) -> Any:
    """The mesh of arrays whose types have shardings (explicit axes, those of `jax.make_mesh`); None without one."""
    for array in arrays:
        mesh = getattr(getattr(jax.typeof(array), "sharding", None), "mesh", None)
        if mesh is not None and _explicit_axes(mesh):
            return mesh
    return None


def _explicit_axes(mesh: Any) -> set[str]:
    kinds = getattr(jax.sharding, "AxisType", None)  # JAX 0.6 or newer
    if kinds is None:
        return set()
    return {name for name, kind in zip(mesh.axis_names, mesh.axis_types or (), strict=False) if kind == kinds.Explicit}


def _psum(array: Any, axes: Sequence[str]) -> Any:
    return jax.lax.psum(array, tuple(axes)) if axes else array


class _Sharding:
    """The factors of a chain at its arrays, and which axes of a mesh divide them."""

    def __init__(self, chain: Chain, numbers: Sequence[int], size: int):
        factors = chain.factors
        parameters = len(chain.parameters)
        self.inputs = [factors.operands[i] for i in numbers]
        self.outputs = factors.operands[parameters:]
        self.sums = factors.sums
        self.size = size
        kept = {f for dims in self.outputs for f in dims}
        summed = {f for sums in self.sums for f in sums}
        # Shardy has no factor that one result sums over and another has.
        self.divides = [d and not (f in kept and f in summed) for f, d in enumerate(factors.divides)]
        self.count = len(self.divides)
        self.sizes = [1] * self.count
        self.symbolic: int | None = None
        for operand, dims in zip(chain.operands, factors.operands, strict=True):
            for n, factor in zip(operand.shape, dims, strict=True):
                self.sizes[factor] = size if n == symbol else n
                self.symbolic = factor if n == symbol else self.symbolic
        self.range = chain.symbol_range
        for place, number in enumerate(numbers):
            operand = chain.operands[number]
            if not operand.is_bytes:
                continue
            # Bytes are whole everywhere: dimensions of their own.
            for factor in self.inputs[place]:
                self.divides[factor] = False
            shape = operand.bytes_shape()
            self.inputs[place] = list(range(len(self.sizes), len(self.sizes) + len(shape)))
            self.sizes += shape
            self.divides += [False] * len(shape)
        for group in (self.inputs, self.outputs):
            for place, dims in enumerate(group):
                group[place] = self._distinct(dims)

        def names(dims: Sequence[int]) -> str:
            return " ".join(f"f{f}" for f in dims)

        self.rule = f"{', '.join(map(names, self.inputs))} -> {', '.join(map(names, self.outputs))}"
        # In the order in which the rule names them, as Shardy asks.
        present = list(dict.fromkeys(f for dims in [*self.inputs, *self.outputs] for f in dims))
        self.special = {
            "reduction_factors": tuple(f"f{f}" for f in present if f in summed and self.divides[f]),
            "need_replication_factors": tuple(f"f{f}" for f in present if not self.divides[f]),
        }

    def _distinct(self, dims: Sequence[int]) -> list[int]:
        """The factors of a tensor, each once, as Shardy asks. One that a tensor has twice (a square weight beside its
        input) is whole, and its second dimension is one of its own."""
        found: list[int] = []
        for factor in dims:
            if factor in found:
                self.divides[factor] = False
                factor = len(self.sizes)
                self.sizes.append(self.sizes[dims[len(found)]])
                self.divides.append(False)
            found.append(factor)
        return found

    def axes(self, mesh: Any, shardings: Sequence[Any]) -> list[tuple[str, ...]]:
        """Per factor, the axes that divide it: those of the first tensor that has any. Each axis divides one."""
        found: list[tuple[str, ...]] = [()] * len(self.divides)
        used: set[str] = set()
        for dims, placed in zip([*self.inputs, *self.outputs], shardings, strict=True):
            spec = getattr(placed, "spec", None) or ()
            for factor, entry in zip(dims, spec, strict=False):
                names = (entry,) if isinstance(entry, str) else tuple(entry or ())
                if not names or found[factor] or used & set(names) or not self._fits(factor, mesh, names):
                    continue
                found[factor] = names
                used |= set(names)
        return found

    def _fits(self, factor: int, mesh: Any, names: Sequence[str]) -> bool:
        count = math.prod(mesh.shape[name] for name in names)
        if not self.divides[factor] or self.sizes[factor] % count:
            return False
        if factor != self.symbolic:
            return True
        return self.range.lo <= self.size and -(-self.range.lo // count) <= self.size // count <= self.range.hi // count

    def parts(self, mesh: Any, axes: Sequence[Sequence[str]]) -> list[int]:
        """Per factor of the chain."""
        return [math.prod(mesh.shape[name] for name in names) for names in axes[: self.count]]

    def local_size(self, parts: Sequence[int]) -> int:
        return self.size if self.symbolic is None else self.size // parts[self.symbolic]

    def summed(self, output: int, axes: Sequence[Sequence[str]]) -> list[str]:
        return [name for factor in self.sums[output] for name in axes[factor]]

    def placements(self, mesh: Any, axes: Sequence[Sequence[str]]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Shardings of the arrays and of the results."""

        def place(dims: Sequence[int]) -> NamedSharding:
            return NamedSharding(mesh, PartitionSpec(*(axes[f] or None for f in dims)))

        return tuple(map(place, self.inputs)), tuple(map(place, self.outputs))
