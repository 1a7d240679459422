# SPDX-License-Identifier: Apache-2.0
"""What a chain has for one set of wanted gradients, and its backward pass."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from catenary.errors import ArgumentError
from catenary.torch import operators
from catenary.torch.main_grad import fused_result, main_grad
from catenary.torch.operators import Form

if TYPE_CHECKING:
    from catenary.torch.function import ChainFunction

Name = tuple[str, int]  # of a tensor of forward and backward: its kind and index


@dataclass(frozen=True)
class Step:
    """A chain of a backward pass. Its tensors are numbers of `Training.count` places."""

    form: Form
    inputs: tuple[int, ...]
    scalars: tuple[int, ...]
    outputs: tuple[int, ...]
    dims: tuple[tuple[int, ...] | None, ...]
    """Per output: the parameter's dimensions in the order of the gradient's; None: the same order."""
    output_gradients: frozenset[int]
    """Of `inputs`, those whose strides are autograd's."""


@dataclass(frozen=True, eq=False)
class Training:
    """Forward and backward of a chain for one set of wanted gradients. The backward's tensors have places: first what
    the forward saved, then the output gradients, then what steps write."""

    forward: Form
    results: int
    """Outputs of the chain itself; later ones are saved values."""
    steps: tuple[Step, ...]
    count: int
    """Places."""
    names: tuple[str, ...]
    """Of the tensor parameters."""
    gradients: tuple[int | None, ...]
    """Per tensor parameter, the place of its gradient."""
    saved_inputs: tuple[int, ...]
    """The tensors that the backward reads."""
    saved_outputs: tuple[int, ...]
    function: ChainFunction | None
    """None: a forward without gradients."""
    outputs: tuple[Name, ...]
    """Of the forward: what is saved after the chain's own."""
    of_sample: OfSample | None = None
    """For a chain with a dimension of samples."""


@dataclass(frozen=True, eq=False)
class OfSample:
    """The chain of one sample, where another one has samples in a dimension: 0, or 1 after one dimension of rows."""

    training: Training
    inputs: tuple[int | None, ...]
    """The dimension of each tensor parameter; None: it has no samples."""
    outputs: tuple[int | None, ...]
    """The same of the forward's outputs."""


def backward_once(training: Training, saved: Sequence[Any], gradients: Sequence[Any], *others: Any) -> list[Any]:
    """backward(); under create_graph its gradients depend on what it reads, and their own gradient is refused."""
    if not torch.is_grad_enabled():
        return backward(training, saved, gradients, *others)
    from catenary.torch.transforms import Once

    found: list[Any] = []

    def run(*tensors: Any) -> tuple[Any, ...]:
        found[:] = backward(training, tensors[: len(saved)], tensors[len(saved) :], *others)
        return tuple(gradient for gradient in found if gradient is not None)

    made = iter(Once.apply(training.forward.name, run, *saved, *gradients))
    return [None if gradient is None else next(made) for gradient in found]


def no_second_derivative(name: str) -> ArgumentError:
    """The error of the gradient of a gradient."""
    return ArgumentError(
        f"chain '{name}' has no second derivative: differentiate it once, or compute the layer by torch"
    )


def backward(training: Training, saved: Sequence[Any], gradients: Sequence[Any], scalars: Sequence[float],
             fused: dict[str, Any] | None, shapes: Sequence[Any]) -> list[Any]:  # fmt: skip
    """The gradients, one per tensor parameter, from what the forward saved and the output gradients."""
    values: list[Any] = [*saved, *gradients]
    values += [None] * (training.count - len(values))
    accumulators = _accumulators(training, fused) if fused is not None else None
    for step in training.steps:
        _run_step(step, values, scalars, accumulators)
    results = []
    for index, place in enumerate(training.gradients):
        if place is None:
            results.append(None)
        elif fused is not None and training.names[index] in fused:
            results.append(fused_result(fused[training.names[index]]))
        else:
            gradient = values[place]
            shape = shapes[index]
            if gradient.numel() != math.prod(shape):  # not shape.numel(): it makes a symbolic size a constant
                gradient = gradient.sum_to_size(shape)  # the chain has one element for several
            results.append(gradient if gradient.shape == shape else gradient.reshape(shape))
    return results


def _accumulators(training: Training, fused: dict[str, Any]) -> dict[int, torch.Tensor]:
    """By the place of the gradient."""
    found = {}
    for index, place in enumerate(training.gradients):
        weight = fused.get(training.names[index])
        if place is not None and weight is not None:
            found[place] = main_grad(weight)
    return found


def _run_step(step: Step, values: list[Any], scalars: Sequence[float], accumulators: dict[int, Any] | None) -> None:
    inputs = [values[place] for place in step.inputs]
    if step.form.exact and step.output_gradients:  # autograd gives output gradients any strides
        read = [parameter for parameter in step.form.inputs if parameter.overwritten_by < 0]
        for i in step.output_gradients:
            inputs[i] = operators.laid_out(inputs[i], read[i].strides)
    numbers = [scalars[i] for i in step.scalars] if step.scalars else ()
    if not accumulators or not any(place in accumulators for place in step.outputs):
        outputs: Any = operators.run(step.form, inputs, numbers)
    else:
        outputs = []
        for i, (place, dims) in enumerate(zip(step.outputs, step.dims, strict=False)):
            given = accumulators.get(place)
            if given is not None and dims is not None:
                given = given.permute(dims)
            outputs.append(given if given is not None else operators.empty(step.form, i, inputs))
        operators.run_out(step.form, inputs, outputs, numbers)
    for place, dims, output in zip(step.outputs, step.dims, outputs, strict=False):
        values[place] = output if dims is None else output.permute(*(dims.index(d) for d in sorted(dims)))
