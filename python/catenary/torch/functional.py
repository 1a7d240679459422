# SPDX-License-Identifier: Apache-2.0
"""Layers as functions of tensors, with gradients: `linear`, `glu`, `glu_mlp`, `grouped_linear`, `grouped_glu_mlp`.

Tensors are on one device: a GPU, or the CPU, where the float64 reference computes them. dtypes: bfloat16, float16,
float32; equal for all, or those of autocast. Products are accumulated in f32, and only results are rounded.
"""

from __future__ import annotations

from typing import Any

import torch

from catenary.chain import Chain
from catenary.errors import ArgumentError
from catenary.torch import forms, operators
from catenary.torch.function import ChainFunction, Training, apply, train_call
from catenary.torch.operators import PLAIN, is_distributed

Tensor = torch.Tensor


def linear(x: Tensor, w: Tensor, b: Tensor | None = None, activation: str | None = None, *,
           fuse_wgrad_accumulation: bool = False, recompute: str = "none") -> Tensor:  # fmt: skip
    """activation(x w^T + b) in one kernel.

    Args:
        x: [..., k]. w: [n, k]. b: [n].
        activation: one of `catenary.torch.ACTIVATIONS`, or None.
        fuse_wgrad_accumulation: the backward adds the gradient of w to `w.main_grad`.
        recompute: what the backward repeats: "none" saves x w^T + b, "all" repeats it.
    """
    tensors = (x, w) if b is None else (x, w, b)
    return _call("linear", tensors, (b is not None, activation), recompute, ("w",) if fuse_wgrad_accumulation else ())


def glu(x: Tensor, w: Tensor, w_up: Tensor | None = None, b: Tensor | None = None, b_up: Tensor | None = None,
        activation: str | None = "silu", *, fuse_wgrad_accumulation: bool = False,
        recompute: str = "none") -> Tensor:  # fmt: skip
    """activation(x w^T + b) * (x w_up^T + b_up) in one kernel.

    Args:
        x: [..., k]. w, w_up: [n, k]; w_up None: w is both, [2n, k], the activated half first.
        b, b_up: [n], or both in b: [2n]; None: no biases.
    """
    if w_up is None:
        if fuse_wgrad_accumulation:
            raise ArgumentError("fuse_wgrad_accumulation needs two weights: pass w and w_up")
        w, w_up = w.chunk(2, dim=0)
        if b is not None:
            b, b_up = b.chunk(2, dim=0)
    if (b is None) != (b_up is None):
        raise ArgumentError("only one of b and b_up is given: pass both or none")
    tensors = (x, w, w_up) if b is None else (x, w, w_up, b, b_up)
    fused = ("wg", "wu") if fuse_wgrad_accumulation else ()
    return _call("glu", tensors, (b is not None, activation), recompute, fused)


def glu_mlp(x: Tensor, w_gate: Tensor, w_up: Tensor, w_down: Tensor, activation: str | None = "silu", *,
            fuse_wgrad_accumulation: bool = False, recompute: str = "none") -> Tensor:  # fmt: skip
    """(activation(x w_gate^T) * (x w_up^T)) w_down^T in one call: x [..., k], w_gate and w_up [n, k], w_down [k, n]."""
    fused = ("wg", "wu", "wd") if fuse_wgrad_accumulation else ()
    return _call("glu_mlp", (x, w_gate, w_up, w_down), (activation,), recompute, fused)


def grouped_linear(x: Tensor, w: Tensor, b: Tensor | None = None, activation: str | None = None,
                   offs: Tensor | None = None, *, recompute: str = "none") -> Tensor:  # fmt: skip
    """A linear layer per group.

    Args:
        x: without offs [..., g, k]; with offs [m, k], rows ordered by group.
        w: [g, n, k]. b: [g, n].
        offs: i32[g], for each group the row after its last one, as in `torch.nn.functional.grouped_mm`. Rows after the
            last end are 0 before b and activation.
    """
    if offs is None:
        return _call("groups", (x, w) if b is None else (x, w, b), (b is not None, activation), recompute)
    tensors = (x, w, offs) if b is None else (x, w, offs, b)
    return _call("ragged", tensors, (b is not None, activation), recompute)


def grouped_glu_mlp(x: Tensor, w_gate: Tensor, w_up: Tensor | None, w_down: Tensor, offs: Tensor,
                    activation: str | None = "silu", scale: Tensor | None = None, *, b_gate: Tensor | None = None,
                    b_up: Tensor | None = None, b_down: Tensor | None = None,
                    recompute: str = "none") -> Tensor:  # fmt: skip
    """glu_mlp by the group of each row, times scale.

    Args:
        x: [m, k], rows ordered by group. w_gate, w_up: [g, n, k]; w_up None: w_gate is both, [g, 2n, k].
        w_down: [g, k, n]. offs: i32[g] as for `grouped_linear`. scale: [m] or None.
        b_gate, b_up: [g, n], or both in b_gate: [g, 2n]; b_down: [g, k]. All or none.
    """
    if w_up is None:
        w_gate, w_up = w_gate.chunk(2, dim=1)
        if b_gate is not None:
            b_gate, b_up = b_gate.chunk(2, dim=1)
    biases = (b_gate, b_up, b_down)
    given = sum(bias is not None for bias in biases)
    if given not in (0, 3):
        raise ArgumentError("only some of b_gate, b_up and b_down are given: pass all or none")
    tensors = (x, w_gate, w_up, w_down, offs) + (biases if given else ()) + (() if scale is None else (scale,))
    return _call("ragged_glu_mlp", tensors, (given > 0, activation), recompute, (), scale is not None)


def chain(chain: Chain | str, *, exact: bool = True, recompute: str = "none", save_budget: int = 0) -> ChainFunction:
    """A chain, or its text, as a differentiable function of tensors: see `ChainFunction`."""
    made = Chain.parse(chain) if isinstance(chain, str) else chain
    return ChainFunction(made, exact, recompute, save_budget)


def chain_activation(name: str, x: Tensor) -> Tensor:
    """An activation of forms.ACTIVATIONS by torch."""
    f = torch.nn.functional
    table = {"relu2": lambda t: f.relu(t).square(), "gelu_tanh": lambda t: f.gelu(t, approximate="tanh"),
             "quick_gelu": lambda t: t * torch.sigmoid(1.702 * t), "exp": torch.exp, "tanh": torch.tanh,
             "sigmoid": torch.sigmoid}  # fmt: skip
    return table[name](x) if name in table else getattr(f, name)(x)


def _exact_f32() -> bool:
    return torch.get_float32_matmul_precision() == "highest"


_functions: dict[Any, ChainFunction] = {}
# Only for bf16 and f16. The chains of f32 depend on the precision of f32 products.
_keys: dict[Any, int] = {}
_trainings: dict[Any, Training] = {}
_is_compiling = torch.compiler.is_compiling
_is_grad_enabled = torch.is_grad_enabled
_autocast = getattr(torch._C, "_is_any_autocast_enabled", None) or (
    lambda: torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu")
)
_run1 = operators._run[1]._op  # without the Python of OpOverload.__call__


def _call(kind: str, tensors: tuple[Tensor, ...], options: tuple, recompute: str, fused: tuple[str, ...] = (),
          scaled: bool | None = None) -> Tensor:  # fmt: skip
    if type(tensors[1]) not in PLAIN and is_distributed(tensors) and kind in _BY_LAYER:
        return _sharded(kind, tensors, options, recompute)
    if _is_compiling():
        if fused and _is_grad_enabled():
            return _between_graphs(kind, tensors, options, recompute, fused, scaled)
        return _traced(kind, tensors, options, recompute, scaled)
    if not fused and not _autocast():
        name = (kind, tensors[0].dtype, options, recompute, scaled)
        if not (_is_grad_enabled() and _needs_gradient(tensors)):
            key = _keys.get(name)
            if key is not None:
                return _run1(tensors, key)
        elif type(tensors[0]) in PLAIN and type(tensors[1]) in PLAIN:
            training = _trainings.get((*name, *[tensor.requires_grad for tensor in tensors]))
            if training is not None:
                return apply(training, tensors, (), None)
    return _any_call(kind, _cast(tensors), options, recompute, fused, scaled)


_BY_LAYER = ("linear", "glu", "glu_mlp")  # they know more than the operators: which part of a bias is added where


def _sharded(kind: str, tensors: tuple[Tensor, ...], options: tuple, recompute: str) -> Tensor:
    from catenary.torch.sharding import sharded_call

    def local(parts: tuple[Tensor, ...], activation: str | None) -> Tensor:
        own = (activation,) if len(options) == 1 else (len(parts) > (3 if kind == "glu" else 2), activation)
        return _call(kind, parts, own, recompute)

    name = forms.activation_name(options[-1])
    return sharded_call(kind, tensors, local, name, lambda y: chain_activation(name, y))


def _needs_gradient(tensors: tuple[Tensor, ...]) -> bool:
    for tensor in tensors:
        if tensor.requires_grad:
            return True
    return False


def _cast(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The tensors as autocast has them."""
    device = tensors[0].device.type
    if not torch.is_autocast_enabled(device):
        return tensors
    wanted = torch.get_autocast_dtype(device)
    return tuple(t.to(wanted) if t.is_floating_point() else t for t in tensors)


def _traced(kind: str, tensors: tuple[Tensor, ...], options: tuple, recompute: str, scaled: bool | None) -> Tensor:
    tensors = _cast(tensors)
    return train_call(_call_keys, (kind, str(tensors[0].dtype), options, recompute, scaled), tensors)


def _any_call(kind: str, tensors: tuple[Tensor, ...], options: tuple, recompute: str, fused: tuple[str, ...],
              scaled: bool | None) -> Tensor:  # fmt: skip
    dtype = tensors[0].dtype
    exact = dtype == torch.float32 and _exact_f32()
    name = (kind, dtype, options, recompute, scaled, exact)
    function = _functions.get(name)
    if function is None:
        function = _functions[name] = _make(kind, dtype, options, recompute, scaled, exact)
        if dtype != torch.float32:
            _keys[kind, dtype, options, recompute, scaled] = function.form.key
    if fused:
        return function.accumulating(tensors, fused)
    if dtype != torch.float32 and torch.is_grad_enabled() and _needs_gradient(tensors):
        wanted = [tensor.requires_grad for tensor in tensors]
        _trainings[(kind, dtype, options, recompute, scaled, *wanted)] = function.training_of(wanted)
    return function(*tensors)


def _accumulating_call(*arguments: Any) -> Tensor:
    return _any_call(arguments[0], _cast(arguments[1]), *arguments[2:])


_between_graphs = torch.compiler.disable(
    _accumulating_call,
    reason="fuse_wgrad_accumulation changes weight.main_grad in the backward, which no graph does: leave it out, or "
    "compile without fullgraph=True, and the layer runs between two graphs",
)


def _make(kind: str, dtype: torch.dtype, options: tuple, recompute: str, scaled: bool | None,
          exact: bool) -> ChainFunction:  # fmt: skip
    name = operators.NAMES.get(dtype)
    if name not in ("bf16", "f16", "f32"):
        scaled_one = ", or scaled_linear for fp8" if dtype in operators.FP8 else ""
        raise ArgumentError(f"x is {dtype}: use bfloat16, float16 or float32{scaled_one}")
    options = (*options[:-1], forms.activation_name(options[-1]))
    more = () if scaled is None else (scaled,)
    return getattr(forms, kind)(name, *options, exact, *more, recompute)


@torch.compiler.assume_constant_result
def _call_keys(kind: str, dtype: str, options: tuple, recompute: str, scaled: bool | None,
               wanted: tuple[bool, ...]) -> tuple[int, int, int]:  # fmt: skip
    """For a graph: the key of a forward, its outputs, and how many of these are results."""
    torch_dtype = getattr(torch, dtype.removeprefix("torch."))
    exact = torch_dtype == torch.float32 and _exact_f32()
    function = _make(kind, torch_dtype, options, recompute, scaled, exact)
    return function.graph_keys(wanted)
