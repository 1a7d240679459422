# SPDX-License-Identifier: Apache-2.0
"""Mixture of experts: `experts` over routed tokens, and the same as an implementation of transformers' experts."""

from __future__ import annotations

import logging
import sys
from typing import Any

import torch

from catenary.errors import ArgumentError
from catenary.torch import functional
from catenary.torch.forms import ACTIVATIONS
from catenary.torch.kinds import refuse_kinds

logger = logging.getLogger("catenary.torch")

_ACTIVATION_CLASSES = {
    "SiLU": "silu", "SiLUActivation": "silu", "GELU": "gelu", "GELUActivation": "gelu", "GELUTanh": "gelu_tanh",
    "PytorchGELUTanh": "gelu_tanh", "NewGELUActivation": "gelu_tanh", "QuickGELUActivation": "quick_gelu",
    "ReLU": "relu", "ReLUSquaredActivation": "relu2",
}  # fmt: skip


def experts(hidden_states: torch.Tensor, top_k_index: torch.Tensor, top_k_weights: torch.Tensor,
            gate_up_proj: torch.Tensor, down_proj: torch.Tensor, activation: str | None = "silu", *,
            gate_up_bias: torch.Tensor | None = None, down_bias: torch.Tensor | None = None,
            recompute: str = "none") -> torch.Tensor:  # fmt: skip
    """The sum over each token's experts of weight * down(activation(gate(x)) * up(x)). Nothing is copied to the host.

    Args:
        hidden_states: [tokens, hidden]. top_k_index, top_k_weights: [tokens, k]; an index of `experts` or more, or
            below 0, is no expert.
        gate_up_proj: [experts, 2 * inner, hidden], the gate first. down_proj: [experts, hidden, inner].
        gate_up_bias: [experts, 2 * inner], down_bias: [experts, hidden]; both or none.
    """
    try:
        if hidden_states.dim() != 2 or top_k_index.dim() != 2 or top_k_index.shape[0] != hidden_states.shape[0]:
            raise ArgumentError(
                f"hidden_states has shape {list(hidden_states.shape)} and top_k_index {list(top_k_index.shape)}: pass "
                "[tokens, hidden] and [tokens, k]"
            )
        whole = not (top_k_index.is_floating_point() or top_k_index.is_complex() or top_k_index.dtype == torch.bool)
        if top_k_weights.shape != top_k_index.shape or not whole:
            raise ArgumentError(
                f"top_k_index is {top_k_index.dtype} of shape {list(top_k_index.shape)} and top_k_weights of shape "
                f"{list(top_k_weights.shape)}: pass integers, and a weight for each"
            )
        if gate_up_proj.dim() != 3 or down_proj.dim() != 3:
            raise ArgumentError(
                f"gate_up_proj has shape {list(gate_up_proj.shape)} and down_proj {list(down_proj.shape)}: pass "
                "[experts, 2 * inner, hidden] and [experts, hidden, inner]"
            )
        tokens, hidden = hidden_states.shape
        k, count = top_k_index.shape[-1], gate_up_proj.shape[0]
        chosen = top_k_index.reshape(-1)
        ids, order = torch.sort(torch.where(chosen < 0, count, chosen), stable=True)  # what is no expert is last
        numbers = torch.arange(count, device=ids.device, dtype=ids.dtype)
        offs = torch.searchsorted(ids, numbers, right=True).to(torch.int32)
        x = hidden_states[order // k]
        scale = top_k_weights.reshape(-1)[order].to(x.dtype)
        y = functional.grouped_glu_mlp(x, gate_up_proj, None, down_proj, offs, activation, scale, b_gate=gate_up_bias,
                                       b_down=down_bias, recompute=recompute)  # fmt: skip
        back = torch.empty_like(order)
        back[order] = torch.arange(order.shape[0], device=order.device)
        return y[back].view(tokens, k, hidden).sum(dim=1).to(hidden_states.dtype)
    except Exception:
        refuse_kinds(experts, locals())
        raise


def experts_forward(self: Any, hidden_states: torch.Tensor, top_k_index: torch.Tensor,
                    top_k_weights: torch.Tensor) -> torch.Tensor:  # fmt: skip
    """The forward of an experts module of transformers: `experts_implementation="catenary"`."""
    name = activation_of(self.act_fn)
    why = _unsupported(self, name)
    if why:
        logger.info("experts of %s: %s, so grouped_mm computes them", type(self).__name__, why)
        from transformers.integrations.moe import grouped_mm_experts_forward

        return grouped_mm_experts_forward(self, hidden_states, top_k_index, top_k_weights)
    biased = getattr(self, "has_bias", False)
    biases = dict(gate_up_bias=self.gate_up_proj_bias, down_bias=self.down_proj_bias) if biased else {}
    return experts(hidden_states, top_k_index, top_k_weights, self.gate_up_proj, self.down_proj, name, **biases)


def activation_of(module: Any) -> str | None:
    """The chain's name of an activation module of torch or transformers; None: none has it."""
    kind = type(module)
    if kind is torch.nn.GELU and module.approximate == "tanh":
        return "gelu_tanh"
    name = _ACTIVATION_CLASSES.get(kind.__name__, getattr(module, "__name__", None))
    return name if name in ACTIVATIONS else None


def _unsupported(module: Any, activation: str | None) -> str:
    if getattr(module, "is_transposed", False):
        return "their weights are transposed"
    if not getattr(module, "has_gate", True):
        return "they have no gate"
    if not getattr(module, "is_concatenated", True):
        return "their gates and ups are interleaved"
    if getattr(module, "has_post_expert_norm", False):
        return "they have a norm after each expert"
    own = getattr(module, "_apply_gate", None)
    if own is not None:
        from transformers.integrations import moe

        if getattr(own, "__func__", own) is not getattr(moe, "_default_apply_gate", None):
            return "they have a gate of their own"
    return "" if activation else "no chain has their activation"


def register_with_transformers() -> None:
    """Makes "catenary" an experts implementation of transformers: `from_pretrained(..., experts_implementation=
    "catenary")`. Importing catenary.torch does it where transformers is imported already."""
    from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

    ALL_EXPERTS_FUNCTIONS.register("catenary", experts_forward)


if "transformers.integrations.moe" in sys.modules:
    register_with_transformers()
