# SPDX-License-Identifier: Apache-2.0
"""Arrays inside of `shard_map`, where each has the axes of the mesh along which devices may hold other values.

A custom call has results that vary along all axes along which one of its arrays does. JAX does not know that of a call
whose partition is its own, so it is said here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax


def axes(arrays: Sequence[Any]) -> frozenset[str]:
    """Along which one of the arrays varies; none outside of `shard_map`, and with `check_vma=False`."""
    return frozenset().union(*map(_varying, arrays))


def vary(arrays: Sequence[Any], along: frozenset[str]) -> list[Any]:
    """The arrays as values that vary `along` these axes. The gradient of one that did not is the sum over them."""
    return [_cast(array, tuple(sorted(along - _varying(array)))) for array in arrays]


def _varying(array: Any) -> frozenset[str]:
    kind = jax.typeof(array)
    manual = getattr(kind, "manual_axis_type", None)
    return frozenset(getattr(kind, "vma", ()) if manual is None else manual.varying)


def _cast(array: Any, along: tuple[str, ...]) -> Any:
    if not along:
        return array
    if hasattr(jax.lax, "pcast"):
        return jax.lax.pcast(array, along, to="varying")
    return jax.lax.pvary(array, along)
