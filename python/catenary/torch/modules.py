# SPDX-License-Identifier: Apache-2.0
"""Modules over `catenary.torch.functional`. Their parameters have the names and shapes of their counterparts in torch
and transformers, so that state_dict moves between them."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn.utils.parametrize import is_parametrized

from catenary.arguments import shown
from catenary.errors import ArgumentError
from catenary.torch import functional
from catenary.torch.calls import calls_linear, has_hooks, is_divided, placed_input, placed_result, refuse_more
from catenary.torch.forms import activation_name
from catenary.torch.kinds import checked

Tensor = torch.Tensor
_OWN: Any = object()  # an activation that is not given: None is one


class Linear(nn.Linear):
    """`torch.nn.Linear` with an activation in the same kernel.

    Args:
        activation: one of `catenary.torch.ACTIVATIONS`, or None.
        fuse_wgrad_accumulation: the backward adds to `weight.main_grad`, whichever gradients it is asked for.
        recompute: what the forward saves for the backward: "none", "unstored" or "all" (`catenary.gradient`).
    """

    @checked
    def __init__(self, in_features: int, out_features: int, bias: bool = True, activation: str | None = None,
                 fuse_wgrad_accumulation: bool = False, recompute: str = "unstored", device: Any = None,
                 dtype: Any = None):  # fmt: skip
        super().__init__(in_features, out_features, bias, device, dtype)
        self.activation = activation_name(activation)
        self.fuse_wgrad_accumulation = fuse_wgrad_accumulation
        self.recompute = recompute

    @classmethod
    @checked
    def of(cls, layer: nn.Linear, activation: str | None = _OWN) -> Linear:
        """A module that shares the parameters of `layer`, and has the options of a `catenary.torch.Linear`.

        activation: if it is not given, that of a `catenary.torch.Linear`, else none. ArgumentError if a call of
        `layer` does more than x w^T + b: hooks, a forward of its own, parametrizations.
        """
        ours = isinstance(layer, Linear)
        refuse_more(layer, "layer", Linear if ours else nn.Linear)
        if is_parametrized(layer):
            raise ArgumentError("layer has parametrizations, which compute its weight at each call: remove them first")
        if activation is _OWN:
            activation = layer.activation if ours else None
        made = cls(layer.in_features, layer.out_features, layer.bias is not None, activation, device="meta")
        made.weight, made.bias = layer.weight, layer.bias
        return _with_options(made, layer) if ours else made

    def forward(self, x: Tensor) -> Tensor:
        """x: [..., in_features]."""
        return functional.linear(x, self.weight, self.bias, self.activation, recompute=self.recompute,
                                 fuse_wgrad_accumulation=self.fuse_wgrad_accumulation)  # fmt: skip

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, activation={self.activation}"


class GLU(nn.Module):
    """A gated MLP: `down_proj(activation(gate_proj(x)) * up_proj(x))`, as LlamaMLP of transformers names it.

    Without biases it is one call; `activation` "silu" is SwiGLU, "gelu" GEGLU.
    """

    @checked
    def __init__(self, hidden_size: int, intermediate_size: int, activation: str | None = "silu", bias: bool = False,
                 fuse_wgrad_accumulation: bool = False, recompute: str = "unstored", device: Any = None,
                 dtype: Any = None):  # fmt: skip
        super().__init__()
        options = dict(bias=bias, device=device, dtype=dtype)
        self.gate_proj = nn.Linear(hidden_size, intermediate_size, **options)
        self.up_proj = nn.Linear(hidden_size, intermediate_size, **options)
        self.down_proj = nn.Linear(intermediate_size, hidden_size, **options)
        self.activation = activation_name(activation)
        self.fuse_wgrad_accumulation = fuse_wgrad_accumulation
        self.recompute = recompute

    @classmethod
    @checked
    def of(cls, mlp: nn.Module, activation: str | None = _OWN) -> GLU:
        """A module that shares gate_proj, up_proj and down_proj of `mlp`.

        activation: if it is not given, that of `mlp.act_fn`, a module or function of torch or transformers; without
        `act_fn` "silu". ArgumentError if no chain has it, or if `mlp` has hooks or a forward beside its class's. The
        options of a `GLU` are taken over.
        """
        ours = isinstance(mlp, GLU)
        refuse_more(mlp, "mlp", GLU if ours else None)
        for name in ("gate_proj", "up_proj", "down_proj"):
            if not isinstance(getattr(mlp, name, None), nn.Linear):
                raise ArgumentError(f"mlp has no linear layer '{name}': pass one with gate_proj, up_proj, down_proj")
        if activation is _OWN:
            activation = _activation_of(mlp)
        gate = mlp.gate_proj
        made = cls(gate.in_features, gate.out_features, activation=activation, bias=gate.bias is not None,
                   device="meta")  # fmt: skip
        made.gate_proj, made.up_proj, made.down_proj = mlp.gate_proj, mlp.up_proj, mlp.down_proj
        return _with_options(made, mlp) if ours else made

    def forward(self, x: Tensor) -> Tensor:
        """x: [..., hidden_size]. Where a projection has hooks or a forward of its own, all three are called. Hooks of
        ColwiseParallel and RowwiseParallel keep the one fused call."""
        layers = {"gate_proj": self.gate_proj, "up_proj": self.up_proj, "down_proj": self.down_proj}
        more = [name for name, layer in layers.items() if not calls_linear(layer) or has_hooks(layer)]
        if not more:
            return self._fused(x)
        if all(calls_linear(layer) and is_divided(layer) for layer in layers.values()):
            x = placed_input(self.gate_proj, x)
            return placed_result(self.down_proj, x, self._fused(x))
        return self._by_calls(x, more[0])

    def _by_calls(self, x: Tensor, name: str) -> Tensor:
        """`name`: of a projection whose weight does not say all that its call does."""
        if self.fuse_wgrad_accumulation:
            raise ArgumentError(
                f"{name} has hooks or a forward of its own, and its call adds nothing to weight.main_grad: remove "
                "them, or leave out fuse_wgrad_accumulation"
            )
        h = self.gate_proj(x)
        h = h if self.activation is None else functional.chain_activation(self.activation, h)
        return self.down_proj(h * self.up_proj(x))

    def _fused(self, x: Tensor) -> Tensor:
        gate, up, down = self.gate_proj, self.up_proj, self.down_proj
        options = dict(recompute=self.recompute, fuse_wgrad_accumulation=self.fuse_wgrad_accumulation)
        if gate.bias is None and up.bias is None and down.bias is None:
            return functional.glu_mlp(x, gate.weight, up.weight, down.weight, self.activation, **options)
        h = functional.glu(x, gate.weight, up.weight, gate.bias, up.bias, self.activation, **options)
        return functional.linear(h, down.weight, down.bias, **options)


class SwiGLU(GLU):
    """`GLU` with silu."""

    @checked
    def __init__(self, hidden_size: int, intermediate_size: int, **options: Any):
        if options.setdefault("activation", "silu") != "silu":
            raise ArgumentError(f"activation is {options['activation']!r}: SwiGLU has 'silu', use GLU for others")
        super().__init__(hidden_size, intermediate_size, **options)


class GroupedLinear(nn.Module):
    """A linear layer per group: weight [groups, out_features, in_features], bias [groups, out_features]."""

    @checked
    def __init__(self, groups: int, in_features: int, out_features: int, bias: bool = True,
                 activation: str | None = None, recompute: str = "unstored", device: Any = None,
                 dtype: Any = None):  # fmt: skip
        super().__init__()
        self.activation = activation_name(activation)
        self.recompute = recompute
        self.weight = nn.Parameter(torch.empty(groups, out_features, in_features, device=device, dtype=dtype))
        bias_memory = torch.empty(groups, out_features, device=device, dtype=dtype) if bias else None
        self.bias = nn.Parameter(bias_memory) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As torch.nn.Linear's, for each group."""
        _uniform(self.weight, self.weight.shape[2])
        if self.bias is not None:
            _uniform(self.bias, self.weight.shape[2])

    def forward(self, x: Tensor, offs: Tensor | None = None) -> Tensor:
        """x: [..., groups, in_features], or with offs (i32[groups], group ends) [rows, in_features]."""
        return functional.grouped_linear(x, self.weight, self.bias, self.activation, offs, recompute=self.recompute)

    def extra_repr(self) -> str:
        groups, rows, columns = self.weight.shape
        return f"groups={groups}, in_features={columns}, out_features={rows}, activation={self.activation}"


class Experts(nn.Module):
    """Experts of a mixture, as those of transformers: gate_up_proj [experts, 2 * intermediate_size, hidden_size],
    down_proj [experts, hidden_size, intermediate_size]. `bias`: with gate_up_proj_bias [experts, 2 *
    intermediate_size] and down_proj_bias [experts, hidden_size]."""

    @checked
    def __init__(self, num_experts: int, hidden_size: int, intermediate_size: int, activation: str | None = "silu",
                 recompute: str = "none", device: Any = None, dtype: Any = None, bias: bool = False):  # fmt: skip
        super().__init__()
        options = dict(device=device, dtype=dtype)
        self.num_experts = num_experts
        self.activation = activation_name(activation)
        self.recompute = recompute
        self.gate_up_proj = nn.Parameter(torch.empty(num_experts, 2 * intermediate_size, hidden_size, **options))
        self.down_proj = nn.Parameter(torch.empty(num_experts, hidden_size, intermediate_size, **options))
        self.gate_up_proj_bias = self.down_proj_bias = None
        if bias:
            self.gate_up_proj_bias = nn.Parameter(torch.empty(num_experts, 2 * intermediate_size, **options))
            self.down_proj_bias = nn.Parameter(torch.empty(num_experts, hidden_size, **options))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As torch.nn.Linear's, for each expert."""
        for weight, bias in ((self.gate_up_proj, self.gate_up_proj_bias), (self.down_proj, self.down_proj_bias)):
            _uniform(weight, weight.shape[2])
            if bias is not None:
                _uniform(bias, weight.shape[2])

    def forward(self, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
        """hidden_states [tokens, hidden_size], top_k_index and top_k_weights [tokens, k]."""
        from catenary.torch.experts import experts

        return experts(hidden_states, top_k_index, top_k_weights, self.gate_up_proj, self.down_proj, self.activation,
                       gate_up_bias=self.gate_up_proj_bias, down_bias=self.down_proj_bias,
                       recompute=self.recompute)  # fmt: skip


def _uniform(parameter: Tensor, columns: int) -> None:
    bound = 1 / math.sqrt(columns) if columns > 0 else 0
    nn.init.uniform_(parameter, -bound, bound)


def _with_options(made: Any, source: Any) -> Any:
    made.recompute, made.fuse_wgrad_accumulation = source.recompute, source.fuse_wgrad_accumulation
    return made


def _activation_of(mlp: nn.Module) -> str | None:
    from catenary.torch.experts import activation_of

    if isinstance(mlp, GLU):
        return mlp.activation
    if not hasattr(mlp, "act_fn"):
        return "silu"
    name = activation_of(mlp.act_fn)
    if name is None:
        raise ArgumentError(f"mlp.act_fn is {shown(mlp.act_fn)}, which no chain has: pass activation, or keep mlp")
    return name
