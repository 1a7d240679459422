# SPDX-License-Identifier: Apache-2.0
"""`torch.ops.catenary.*` inside of transforms of functorch. torch gives such a call to these kernels before the
innermost level takes it, since an operator without a formula would get gradients and tangents of 0 there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._C._functorch import TransformType
from torch._functorch.pyfunctorch import retrieve_current_functorch_interpreter as innermost
from torch.autograd import forward_ad

from catenary.errors import ArgumentError
from catenary.torch import operators
from catenary.torch.transforms import call

Tensor = torch.Tensor
_KEY = "FuncTorchDynamicLayerFrontMode"  # a call has it as long as a transform is active
_functorch = torch._C._functorch


def _run(count: int) -> Callable[..., Any]:
    """The kernel of run1 to run4, and of train1 to train4, whose gradient torch's transforms do not take."""

    def kernel(inputs: list[Tensor], key: int, scalars: Sequence[float] = (), gradients: int = 0) -> Any:
        form = operators.form_of(key)
        operators.check_outputs(form, count)
        outputs = call(form, None, inputs, scalars)
        return outputs[0] if count == 1 else outputs

    return kernel


def _run_out(inputs: list[Tensor], outs: list[Tensor], key: int, scalars: Sequence[float] = ()) -> None:
    """Each level takes its own dimension of samples, or refuses its own gradients and tangents."""
    name, level = operators.form_of(key).name, innermost()
    tensors = [*inputs, *outs]
    if level.key() == TransformType.Functionalize:
        raise ArgumentError(
            f"chain '{name}' writes tensors of the caller, which functionalize does not follow: call run1 to run4"
        )
    if level.key() == TransformType.Vmap:
        _each_sample(level, inputs, outs, key, scalars)
        return
    if level.key() == TransformType.Jvp and any(forward_ad.unpack_dual(t).tangent is not None for t in tensors):
        raise operators.no_tangents(name)
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        raise operators.no_gradient(name)
    inputs, outs = ([_functorch._unwrap_for_grad(t, level.level()) for t in part] for part in (inputs, outs))
    with level.lower():
        operators.write(inputs, outs, key, scalars)


def _each_sample(level: Any, inputs: list[Tensor], outs: list[Tensor], key: int, scalars: Sequence[float]) -> None:
    given = [_functorch._unwrap_batched(tensor, level.level()) for tensor in inputs]
    written = [_functorch._unwrap_batched(tensor, level.level()) for tensor in outs]
    alone = [i for i, (_, dim) in enumerate(written) if dim is None]
    if alone:
        raise ArgumentError(
            f"output {alone[0]} of chain '{operators.form_of(key).name}' has no samples, and vmap would write it for "
            "each: pass one with the batch dimension, or call run1 to run4"
        )
    with level.lower():
        for i in range(level.batch_size()):
            samples = ([t if dim is None else t.select(dim, i) for t, dim in part] for part in (given, written))
            operators.write(*samples, key, scalars)


def _batched_by_autograd(place: int) -> Callable[..., Any]:
    """The kernel for tensors of the vmap that torch.autograd has of its own. `place`: of the key."""

    def kernel(*arguments: Any) -> Any:
        raise ArgumentError(
            f"chain '{operators.form_of(arguments[place]).name}' is called for samples of torch.autograd "
            "(is_grads_batched, jacobian(vectorize=True)), which only torch.vmap gives it: use torch.func.jacrev, or "
            "torch.vmap"
        )

    return kernel


def register() -> None:
    """Gives the operators these kernels, for the life of the process."""
    for count in operators._run:
        for name in ("run", "train"):
            operators._library.impl(f"{name}{count}", _run(count), _KEY)
            operators._library.impl(f"{name}{count}", _batched_by_autograd(1), "Batched")
    operators._library.impl("run_out", _run_out, _KEY)
    operators._library.impl("run_out", _batched_by_autograd(2), "Batched")


register()
