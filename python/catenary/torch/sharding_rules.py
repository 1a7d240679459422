# SPDX-License-Identifier: Apache-2.0
"""Rules of the operators for DTensors: along which dimensions each process may compute its own part, by the factors of
the chain (`catenary.Chain.factors`). Importing registers them.

Per dimension of the mesh a factor is divided, or nothing is: tensors that have the factor are sharded, outputs that
sum over it are partial. A chain for exact sizes has no part of these sizes, so it is computed whole.
"""

from __future__ import annotations

import functools
from typing import Any

from torch.distributed.tensor import Partial, Replicate, Shard
from torch.distributed.tensor.experimental import register_sharding

from catenary.chain import Chain
from catenary.operand import Role
from catenary.torch import operators

# A rule: placements of the outputs, and of the inputs.
Rule = tuple[list[Any], list[Any]]


@functools.lru_cache(maxsize=4096)
def rules(key: int, extra: tuple[int, ...]) -> list[Rule]:
    """All rules of a form. `extra`: per input, how many dimensions it has beyond those of its parameter: the leading
    dimensions are those of the rows."""
    form = operators.form_of(key)
    whole: Rule = ([Replicate()] * len(form.outputs), [Replicate()] * len(form.inputs))
    if form.exact:
        return [whole]
    chain = Chain.parse(form.text)
    factors = chain.factors
    parameters = chain.parameters
    inputs = [dims for p, dims in zip(parameters, factors.operands, strict=False) if p.role != Role.scalar]
    outputs = factors.operands[len(parameters) :]
    leading = max((n for p, n in zip(form.inputs, extra, strict=True) if p.leading), default=0)
    found = [whole]
    for factor, divides in enumerate(factors.divides):
        if not divides:
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
            found.append((made, placed))
    return found


def _rule(inputs: Any, key: int, scalars: Any = ()) -> list[Rule]:
    form = operators.form_of(key)
    extra = tuple(len(t.shape) - len(p.sizes) for t, p in zip(inputs, form.inputs, strict=True))
    return rules(key, extra)


register_sharding([*operators._run.values(), *operators.train.values()])(_rule)
