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
from catenary.torch.function import ChainFunction, GraphKeys, apply, train_call
from catenary.torch.kinds import checked, refuse_kinds
from catenary.torch.operators import PLAIN, is_distributed
from catenary.torch.training import Training

Tensor = torch.Tensor


def linear(x: Tensor, w: Tensor, b: Tensor | None = None, activation: str | None = None, *,
           fuse_wgrad_accumulation: bool = False, recompute: str = "unstored") -> Tensor:  # fmt: skip
    """activation(x w^T + b) in one kernel.

    Args:
        x: [..., k]. w: [n, k]. b: [n].
        activation: one of `catenary.torch.ACTIVATIONS`, or None.
        fuse_wgrad_accumulation: the backward adds the gradient of w to `w.main_grad`, also where it is asked for other
            gradients only (`torch.autograd.grad(y, x)`): autograd does not say which.
        recompute: what the backward repeats: "all" repeats x w^T + b, the others save it.
    """
    try:
        if x.dim() == 1:
            return linear(x.unsqueeze(0), w, b, activation, fuse_wgrad_accumulation=fuse_wgrad_accumulation,
                          recompute=recompute).squeeze(0)  # fmt: skip
        tensors = (x, w) if b is None else (x, w, b)
        fused = ("w",) if fuse_wgrad_accumulation else ()
        return _call(("linear", b is not None, activation, recompute), tensors, fused)
    except Exception:
        refuse_kinds(linear, locals())
        raise


def glu(x: Tensor, w: Tensor, w_up: Tensor | None = None, b: Tensor | None = None, b_up: Tensor | None = None,
        activation: str | None = "silu", *, fuse_wgrad_accumulation: bool = False,
        recompute: str = "unstored") -> Tensor:  # fmt: skip
    """activation(x w^T + b) * (x w_up^T + b_up) in one kernel.

    Args:
        x: [..., k]. w, w_up: [n, k]; w_up None: w is both, [2n, k], the activated half first.
        b, b_up: [n], or both in b: [2n]; None: no biases.
    """
    try:
        if x.dim() == 1:
            return glu(x.unsqueeze(0), w, w_up, b, b_up, activation, fuse_wgrad_accumulation=fuse_wgrad_accumulation,
                       recompute=recompute).squeeze(0)  # fmt: skip
        if w_up is None:
            if fuse_wgrad_accumulation:
                raise ArgumentError("fuse_wgrad_accumulation needs two weights: pass w and w_up")
            if w.dim() != 2:
                raise ArgumentError(f"w has shape {list(w.shape)}: pass [2n, k], or w and w_up")
            if w.shape[0] % 2 != 0:
                raise ArgumentError(f"w has {w.shape[0]} rows, which are no two halves: pass [2n, k], or w and w_up")
            w, w_up = w.chunk(2, dim=0)
            if b is not None:
                b, b_up = b.chunk(2, dim=0)
        if (b is None) != (b_up is None):
            raise ArgumentError("only one of b and b_up is given: pass both or none")
        tensors = (x, w, w_up) if b is None else (x, w, w_up, b, b_up)
        fused = ("wg", "wu") if fuse_wgrad_accumulation else ()
        return _call(("glu", b is not None, activation, recompute), tensors, fused)
    except Exception:
        refuse_kinds(glu, locals())
        raise


def glu_mlp(x: Tensor, w_gate: Tensor, w_up: Tensor, w_down: Tensor, activation: str | None = "silu", *,
            fuse_wgrad_accumulation: bool = False, recompute: str = "unstored") -> Tensor:  # fmt: skip
    """(activation(x w_gate^T) * (x w_up^T)) w_down^T in one call: x [..., k], w_gate and w_up [n, k], w_down [k, n]."""
    try:
        if x.dim() == 1:
            return glu_mlp(x.unsqueeze(0), w_gate, w_up, w_down, activation, recompute=recompute,
                           fuse_wgrad_accumulation=fuse_wgrad_accumulation).squeeze(0)  # fmt: skip
        fused = ("wg", "wu", "wd") if fuse_wgrad_accumulation else ()
        return _call(("glu_mlp", activation, recompute), (x, w_gate, w_up, w_down), fused)
    except Exception:
        refuse_kinds(glu_mlp, locals())
        raise


def grouped_linear(x: Tensor, w: Tensor, b: Tensor | None = None, activation: str | None = None,
                   offs: Tensor | None = None, *, recompute: str = "unstored") -> Tensor:  # fmt: skip
    """A linear layer per group.

    Args:
        x: without offs [..., g, k]; with offs [m, k], rows ordered by group.
        w: [g, n, k]. b: [g, n].
        offs: i32[g], for each group the row after its last one, as in `torch.nn.functional.grouped_mm`. Rows after the
            last end are 0 before b and activation.
    """
    try:
        if offs is None:
            return _call(("groups", b is not None, activation, recompute), (x, w) if b is None else (x, w, b))
        tensors = (x, w, whole(offs)) if b is None else (x, w, whole(offs), b)
        return _call(("ragged", b is not None, activation, recompute), tensors)
    except Exception:
        refuse_kinds(grouped_linear, locals())
        raise


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
    try:
        if w_up is None:
            if w_gate.dim() != 3:
                raise ArgumentError(f"w_gate has shape {list(w_gate.shape)}: pass [g, 2n, k], or w_gate and w_up")
            w_gate, w_up = w_gate.chunk(2, dim=1)
            if b_gate is not None:
                if b_gate.dim() != 2:
                    raise ArgumentError(f"b_gate has shape {list(b_gate.shape)}: pass [g, 2n] as for w_gate")
                b_gate, b_up = b_gate.chunk(2, dim=1)
        biases = (b_gate, b_up, b_down)
        given = sum(bias is not None for bias in biases)
        if given not in (0, 3):
            raise ArgumentError("only some of b_gate, b_up and b_down are given: pass all or none")
        tensors = (x, w_gate, w_up, w_down, whole(offs))
        tensors += (biases if given else ()) + (() if scale is None else (scale,))
        return _call(("ragged_glu_mlp", given > 0, scale is not None, activation, recompute), tensors)
    except Exception:
        refuse_kinds(grouped_glu_mlp, locals())
        raise


def whole(offs: Tensor) -> Tensor:
    """The ends of groups, copied where they have gaps: in a chain they are contiguous."""
    return offs if offs.is_contiguous() else offs.contiguous()


@checked
def chain(chain: Chain | str, *, exact: bool = True, recompute: str = "unstored",
          save_budget: int = 0) -> ChainFunction:  # fmt: skip
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


Name = tuple[Any, ...]
"""What names a layer: the form in forms.py, its options with the activation as the last, and recompute."""

_functions: dict[Any, ChainFunction] = {}
# By name: keys for bf16 and f16, or 0. The chains of f32 depend on the precision of f32 products.
_keys: dict[Name, tuple[int, int]] = {}
_trainings: dict[Any, Training] = {}
_is_compiling = torch.compiler.is_compiling
_is_dynamo_compiling = torch.compiler.is_dynamo_compiling
_is_grad_enabled = torch.is_grad_enabled
_autocast = getattr(torch._C, "_is_any_autocast_enabled", None) or (
    lambda: torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu")
)
_direct = operators._direct
_in_functorch = operators.in_functorch


def _call(name: Name, tensors: tuple[Tensor, ...], fused: tuple[str, ...] = ()) -> Tensor:
    if not _is_dynamo_compiling():
        keys = _keys.get(name)
        if keys is not None:
            output = _direct(keys, tensors)  # not while gradients or autocast are enabled
            if output is not None:
                return output
    if type(tensors[1]) not in PLAIN and is_distributed(tensors) and name[0] in _BY_LAYER:
        return _sharded(name, tensors, fused)
    if _is_compiling():
        return _between_graphs(name, tensors, fused) if fused and _is_grad_enabled() else _traced(name, tensors)
    if not fused and not _autocast():
        dtype = tensors[0].dtype
        if not (_is_grad_enabled() and _needs_gradient(tensors)):
            key = _key_of(name, dtype)
            if key:
                output = _direct(key, tensors)
                if output is not None:
                    return output
                if not _in_functorch():
                    return operators.dispatch_one(key, tensors)
        elif type(tensors[0]) in PLAIN and type(tensors[1]) in PLAIN:
            training = _trainings.get((name, dtype, *[tensor.requires_grad for tensor in tensors]))
            if training is not None:
                return apply(training, tensors, (), None)
    return _any_call(name, as_autocast(tensors), fused, tensors)


def _key_of(name: Name, dtype: torch.dtype) -> int:
    keys = _keys.get(name)
    return keys[_PAIR.index(dtype)] if keys is not None and dtype in _PAIR else 0


_PAIR = (torch.bfloat16, torch.float16)
_BY_LAYER = ("linear", "glu", "glu_mlp")  # they know more than the operators: which part of a bias is added where


def _sharded(name: Name, tensors: tuple[Tensor, ...], fused: tuple[str, ...]) -> Tensor:
    from catenary.torch.sharding import sharded_call

    if fused and _is_grad_enabled() and _needs_gradient(tensors[1:]):
        raise ArgumentError(
            "fuse_wgrad_accumulation takes no DTensors: leave it out, or call to_local() on the weights and set "
            "main_grad"
        )
    kind, *_, chosen, recompute = name

    def local(parts: tuple[Tensor, ...], activation: str | None) -> Tensor:
        bias = () if kind == "glu_mlp" else (len(parts) > (3 if kind == "glu" else 2),)
        return _call((kind, *bias, activation, recompute), parts)

    activation = forms.activation_name(chosen)
    return sharded_call(kind, tensors, local, activation, lambda y: chain_activation(activation, y))


def _needs_gradient(tensors: tuple[Tensor, ...]) -> bool:
    for tensor in tensors:
        if tensor.requires_grad:
            return True
    return False


def as_autocast(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The tensors as autocast has them: it leaves integers and float64."""
    device = tensors[0].device.type
    if device not in ("cpu", "cuda") or not torch.is_autocast_enabled(device):
        return tensors
    wanted = torch.get_autocast_dtype(device)
    return tuple(t.to(wanted) if t.is_floating_point() and t.dtype != torch.float64 else t for t in tensors)


def _traced(name: Name, tensors: tuple[Tensor, ...]) -> Tensor:
    tensors = as_autocast(tensors)
    if _in_functorch():
        return _transformed(name, *tensors)
    return train_call(_call_keys, (name, str(tensors[0].dtype)), tensors)


@torch.compiler.allow_in_graph
def _transformed(name: Name, *tensors: Tensor) -> Tensor:
    """Inside of a transform, only the levels of functorch know which tensors need gradients, and not the tracer."""
    return _any_call(name, tensors, ())


def _any_call(name: Name, tensors: tuple[Tensor, ...], fused: tuple[str, ...],
              parameters: tuple[Tensor, ...] | None = None) -> Tensor:  # fmt: skip
    """`parameters`: what autocast made the tensors of."""
    dtype = tensors[0].dtype
    exact = dtype == torch.float32 and _exact_f32()
    function = _functions.get((name, dtype, exact))
    if function is None:
        function = _functions[name, dtype, exact] = _make(name, dtype, exact)
        if dtype in _PAIR:
            _keys[name] = tuple(function.form.key if each == dtype else _key_of(name, each) for each in _PAIR)
    if fused:
        return function.accumulating(tensors, fused, parameters)
    if dtype != torch.float32 and torch.is_grad_enabled() and _needs_gradient(tensors):
        wanted = [tensor.requires_grad for tensor in tensors]
        _trainings[(name, dtype, *wanted)] = function.training_of(wanted)
    return function(*tensors)


def _accumulating_call(name: Name, tensors: tuple[Tensor, ...], fused: tuple[str, ...]) -> Tensor:
    return _any_call(name, as_autocast(tensors), fused, tensors)


_between_graphs = torch.compiler.disable(
    _accumulating_call,
    reason="fuse_wgrad_accumulation changes weight.main_grad in the backward, which no graph does: leave it out, or "
    "compile without fullgraph=True, and the layer runs between two graphs",
)


def _make(name: Name, dtype: torch.dtype, exact: bool) -> ChainFunction:
    named = operators.NAMES.get(dtype)
    if named not in ("bf16", "f16", "f32"):
        scaled_one = ", or scaled_linear for fp8" if dtype in operators.FP8 else ""
        raise ArgumentError(f"x is {dtype}: use bfloat16, float16 or float32{scaled_one}")
    kind, *options, activation, recompute = name
    return getattr(forms, kind)(named, *options, forms.activation_name(activation), exact, recompute)


@torch.compiler.assume_constant_result
def _call_keys(name: Name, dtype: str, wanted: tuple[bool, ...]) -> GraphKeys:
    torch_dtype = getattr(torch, dtype.removeprefix("torch."))
    exact = torch_dtype == torch.float32 and _exact_f32()
    return _make(name, torch_dtype, exact).graph_keys(wanted)
