# SPDX-License-Identifier: Apache-2.0
"""Gradients of weights that are added to `main_grad`, as Megatron-LM and TransformerEngine have it."""

from __future__ import annotations

from typing import Any

import torch

from catenary.errors import ArgumentError


def main_grad(weight: Any) -> torch.Tensor:
    """The f32 tensor that a weight's gradient is added to: `weight.main_grad`, or what `weight.get_main_grad()`
    returns."""
    get = getattr(weight, "get_main_grad", None)
    found = get() if get is not None else getattr(weight, "main_grad", None)
    if found is None or found.dtype != torch.float32 or found.shape != weight.shape:
        raise ArgumentError(
            "the weight has no main_grad of f32 and its own shape: set it, or leave out fused gradients"
        )
    return found


def fused_result(weight: Any) -> torch.Tensor | None:
    """What autograd gets for a weight whose gradient is in main_grad: the convention of Megatron-LM's hooks."""
    if not hasattr(weight, "grad_added_to_main_grad"):
        return None
    weight.grad_added_to_main_grad = True
    make = torch.zeros_like if getattr(weight, "zero_out_wgrad", False) else torch.empty_like
    return make(weight, requires_grad=False)
