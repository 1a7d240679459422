# SPDX-License-Identifier: Apache-2.0
"""Calls inside of transforms of functorch: torch.vmap and torch.func. What calls an operator comes here where the
direct call is not made and a transform is active. An index of vmap's dimension is a sample.

A call is an autograd.Function, whose outputs are those of the forward with the saved values. torch applies it at each
level of nested transforms: `backward` at a level of grad, `vmap` at a level of vmap, and `forward` on plain tensors.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._C._functorch import TransformType
from torch._functorch.pyfunctorch import retrieve_current_functorch_interpreter as innermost

from catenary.chain import Chain
from catenary.errors import ArgumentError, Error
from catenary.torch import batching, operators
from catenary.torch.function import ChainFunction, results_gradients, zeros_like_results
from catenary.torch.operators import Form
from catenary.torch.training import OfSample, Training, backward, no_second_derivative

Tensor = torch.Tensor
Call = Callable[[Training, list[Tensor]], Sequence[Tensor]]
"""Runs the forward of a training."""
Program = Callable[..., tuple[Tensor, ...]]

_functorch = torch._C._functorch


def call(form: Form, function: ChainFunction | None, tensors: Sequence[Tensor],
         scalars: Sequence[float]) -> tuple[Tensor, ...]:  # fmt: skip
    """The outputs of a form, which is that of `function`; None: the call has no gradient."""
    training = _bare(form.key)
    if not torch.is_grad_enabled():
        tensors = operators.without_gradients(tensors)
    elif function is not None:
        wanted = [_requires_grad(tensor) for tensor in tensors]
        training = function.training_of(wanted) if any(wanted) else training
    return _apply(training, tuple(scalars), tensors)[: training.results]


def _apply(training: Training, scalars: Sequence[float], tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The forward at the innermost level. functionalize takes no autograd.Function, and has nothing to do here."""
    levels = [each.key() for each in _functorch.get_interpreter_stack() or ()]  # the innermost is the last
    if TransformType.Functionalize not in levels or levels[-1] == TransformType.Vmap:
        return _Call.apply(training, scalars, *tensors)
    if levels[-1] != TransformType.Functionalize:
        raise ArgumentError(
            f"chain '{training.forward.name}' is differentiated inside of functionalize, which takes no gradients of "
            "chains: functionalize the function that is differentiated"
        )
    level = innermost()
    views = level.functionalize_add_back_views()
    plain = [_functorch._unwrap_functional_tensor(t, views) if _functorch.is_functionaltensor(t) else t
             for t in tensors]  # fmt: skip
    with level.lower():
        outputs = _apply(training, scalars, plain)
    return tuple(_functorch._wrap_functional_tensor(output, level.level()) for output in outputs)


def refuse_fused(tensors: Sequence[Tensor]) -> None:
    """ArgumentError if tensors need gradients: fused ones are a change that a transform does not see."""
    if torch.is_grad_enabled() and any(_requires_grad(tensor) for tensor in tensors):
        raise ArgumentError(
            "fuse_wgrad_accumulation adds to weight.main_grad, which torch.vmap and torch.func do not see: leave it "
            "out, and add the gradient that the transform returns"
        )


def _requires_grad(tensor: Tensor) -> bool:
    """At any level: a tensor with a batch dimension does not tell."""
    while not tensor.requires_grad:
        if not _functorch.is_functorch_wrapped_tensor(tensor):
            return False
        tensor = _functorch.get_unwrapped(tensor)
    return True


@functools.lru_cache(maxsize=4096)
def _bare(key: int) -> Training:
    """A form as a forward without gradients."""
    form = operators.form_of(key)
    return Training(forward=form, results=len(form.outputs), steps=(), count=0, names=(), gradients=(),
                    saved_inputs=(), saved_outputs=(), function=None, outputs=())  # fmt: skip


class _Call(torch.autograd.Function):
    @staticmethod
    def forward(training, scalars, *tensors):
        return tuple(operators.run(training.forward, tensors, scalars))

    @staticmethod
    def setup_context(ctx, inputs, output):
        training, scalars, *tensors = inputs
        ctx.training, ctx.scalars = training, scalars
        ctx.shapes = [tensor.shape for tensor in tensors]
        ctx.zeros = zeros_like_results(training, output)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(
            *(tensors[i] for i in training.saved_inputs), *(output[i] for i in training.saved_outputs)
        )

    @staticmethod
    def backward(ctx, *gradients):
        needed = ctx.needs_input_grad[2:]
        training = ctx.training
        if training.function is None:
            raise operators.no_gradient(training.forward.name)
        given = results_gradients(gradients, ctx.zeros)
        wanted = tuple(want and place is not None for want, place in zip(needed, training.gradients, strict=True))
        if not any(wanted):
            return (None,) * len(ctx.needs_input_grad)
        program = _program(training, wanted, ctx.scalars, ctx.shapes)
        try:
            made = Once.apply(training.forward.name, program, *ctx.saved_tensors, *given)
        except (Error, RuntimeError) as error:
            if training.of_sample is None or not operators.is_unsupported(error):
                raise
            program = _program_by_sample(training, wanted, ctx.scalars, ctx.shapes)
            made = Once.apply(training.forward.name, program, *ctx.saved_tensors, *given)
        found = iter(made)
        return None, None, *(next(found) if want else None for want in wanted)

    @staticmethod
    def jvp(ctx, *tangents):
        raise operators.no_tangents(ctx.training.forward.name)

    @staticmethod
    def vmap(info, in_dims, training, scalars, *tensors):
        def again(training: Training, tensors: list[Tensor]) -> Sequence[Tensor]:
            return _apply(training, scalars, tensors)

        return over_samples(training, info.batch_size, in_dims[2:], tensors, again)


def _program(training: Training, wanted: tuple[bool, ...], scalars: Sequence[float], shapes: Sequence[Any]) -> Program:
    """A backward pass as a function of tensors: what the forward saved, then the output gradients."""
    short, count = _for_gradients(training, wanted)

    def run(*tensors: Tensor) -> tuple[Tensor, ...]:
        results = backward(short, tensors[:count], tensors[count:], scalars, None, shapes)
        return tuple(result for result, want in zip(results, wanted, strict=True) if want)

    return run


def _program_by_sample(training: Training, wanted: tuple[bool, ...], scalars: Sequence[float],
                       shapes: Sequence[Any]) -> Program:  # fmt: skip
    """The same of a chain with samples that no kernel supports: a backward pass per sample."""
    single = training.of_sample
    form = single.training.forward
    places = [
        *((single.inputs[i], form.inputs[i].sizes) for i in training.saved_inputs),
        *((single.outputs[i], form.outputs[i].sizes) for i in (*training.saved_outputs, *range(training.results))),
    ]
    of_inputs = [_place(place, p.sizes, shape) for place, p, shape in
                 zip(single.inputs, form.inputs, shapes, strict=True)]  # fmt: skip
    of_sample = [_without(shape, dim) for shape, dim in zip(shapes, of_inputs, strict=True)]
    program = _program(single.training, wanted, scalars, of_sample)
    size = next(shape[dim] for shape, dim in zip(shapes, of_inputs, strict=True) if dim is not None)

    def run(*tensors: Tensor) -> tuple[Tensor, ...]:
        dims = [_place(place, sizes, t.shape) for (place, sizes), t in zip(places, tensors, strict=True)]
        parts = [program(*_sample(dims, tensors, i, True)) for i in range(size)]
        gradients = zip(*parts, strict=True)
        dims = [dim for dim, want in zip(of_inputs, wanted, strict=True) if want]
        return tuple(torch.stack(each).sum(0) if dim is None else torch.stack(each, dim)
                     for each, dim in zip(gradients, dims, strict=True))  # fmt: skip

    return run


def _place(place: int | None, sizes: Sequence[Any], shape: Sequence[int]) -> int | None:
    """The dimension of the samples in a tensor: after rows (1) it is after all leading dimensions."""
    return len(shape) - len(sizes) if place == 1 else place


@functools.lru_cache(maxsize=4096)
def _for_gradients(training: Training, wanted: tuple[bool, ...]) -> tuple[Training, int]:
    """The backward with the steps that these gradients need, and how many saved tensors it takes."""
    places = tuple(place if want else None for place, want in zip(training.gradients, wanted, strict=True))
    read = {place for place in places if place is not None}
    steps = []
    for step in reversed(training.steps):
        if read.intersection(step.outputs):
            steps.append(step)
            read.update(step.inputs)
    saved = len(training.saved_inputs) + len(training.saved_outputs)
    return dataclasses.replace(training, steps=tuple(reversed(steps)), gradients=places), saved


class Once(torch.autograd.Function):
    """A backward pass, as a function of tensors, which itself has no gradient."""

    @staticmethod
    def forward(name, program, *tensors):
        return program(*tensors)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.name = inputs[0]

    @staticmethod
    def backward(ctx, *gradients):
        raise no_second_derivative(ctx.name)

    @staticmethod
    def jvp(ctx, *tangents):
        raise operators.no_tangents(ctx.name)

    @staticmethod
    def vmap(info, in_dims, name, program, *tensors):
        """Every output has its samples in dimension 0."""

        def of_samples(*tensors: Tensor) -> tuple[Tensor, ...]:
            return torch.vmap(program, in_dims=in_dims[2:])(*tensors)

        outputs = Once.apply(name, of_samples, *tensors)
        return outputs, (0,) * len(outputs)


def over_samples(training: Training, size: int, dims: Sequence[int | None], tensors: Sequence[Tensor],
                 call: Call) -> tuple[tuple[Tensor, ...], tuple[int | None, ...]]:  # fmt: skip
    """The forward on tensors with samples: its outputs, and the dimension of the samples in each. One call of a chain
    that has them as rows or as a dimension, where there is one that kernels support; else a call per sample. Where that
    one was refused the samples are contiguous, since what kernels support depends on strides."""
    form = training.forward
    if form.exact:
        _check_sizes(form, [_sample_shape(t, dim) for t, dim in zip(tensors, dims, strict=True)])
    refused = False
    try:
        found = _at_once(training, size, dims, tensors, call) if size > 0 else None
        if found is not None:
            return found
    except (Error, RuntimeError) as error:
        if not operators.is_unsupported(error):
            raise
        refused = True
    return _one_by_one(training, size, dims, tensors, call, refused)


def _at_once(training: Training, size: int, dims: Sequence[int | None], tensors: Sequence[Tensor],
             call: Call) -> tuple[tuple[Tensor, ...], tuple[int | None, ...]] | None:  # fmt: skip
    """over_samples() by one call. None: no chain has these samples."""
    batched = tuple(dim is not None for dim in dims)
    free = _with_samples(training, (False,) * len(dims))
    leads = _leads(free[0].forward, dims, tensors) if free is not None else None
    if leads is None:
        return None
    if batching.rows_are_apart(free[0].forward.key, batched):
        return _as_rows(free[0], size, dims, tensors, call)
    ends = batching.ragged_ends(free[0].forward.key, batched)
    if ends is not None:
        return _as_ragged_rows(free[0], size, dims, tensors, ends, leads, call)
    made = _with_samples(training, batched)
    return _as_dimension(*made, dims, tensors, leads, call) if made is not None else None


@functools.lru_cache(maxsize=4096)
def _with_samples(training: Training, batched: tuple[bool, ...]) -> tuple[Training, tuple[int | None, ...]] | None:
    """The training of the chain with samples in these tensors, for any strides, and where its outputs have them: see
    batching.Batched. None: there is no such chain, or it saves other values."""
    form = training.forward
    if form.in_place or (not any(batched) and not form.exact):
        return None if form.in_place else (training, ())
    made = batching.with_samples(form.text, batched)
    if made is None:
        return None
    function = training.function
    if function is None:
        return _bare(operators.add(Chain.parse(made.text), exact=False, pdl=form.pdl).key), made.outputs
    own = batching.with_samples(function._text, batched)
    if own is None:
        return None
    whole = ChainFunction(Chain.parse(own.text), False, function.recompute, function.save_budget)
    result = whole.training_of([place is not None for place in training.gradients])
    if result.outputs != training.outputs:
        return None
    if (result.saved_inputs, result.saved_outputs) == (training.saved_inputs, training.saved_outputs):
        inputs = tuple(int(p.leading) if b else None for p, b in zip(form.inputs, batched, strict=True))
        result = dataclasses.replace(result, of_sample=OfSample(training, inputs, made.outputs))
    return result, made.outputs


def _sample_shape(tensor: Tensor, dim: int | None) -> list[int]:
    return _without(tensor.shape, dim)


def _without(shape: Sequence[int], dim: int | None) -> list[int]:
    return [n for i, n in enumerate(shape) if i != dim]


def _sample(dims: Sequence[int | None], tensors: Sequence[Tensor], i: int, contiguous: bool) -> list[Tensor]:
    samples = [t if dim is None else t.select(dim, i) for dim, t in zip(dims, tensors, strict=True)]
    return [t.contiguous() for t in samples] if contiguous else samples


def _check_sizes(form: Form, shapes: Sequence[list[int]]) -> None:
    """A chain with samples takes any sizes; an exact one does not."""
    lo, hi = form.symbol or (0, 0)
    for parameter, shape in zip(form.inputs, shapes, strict=False):
        sizes = parameter.sizes
        if len(shape) == len(sizes) and all(
            lo <= n <= hi if size is None else n == size for n, size in zip(shape, sizes, strict=True)
        ):
            continue
        wanted = ", ".join(f"{lo}..{hi}" if size is None else str(size) for size in sizes)
        raise ArgumentError(
            f"'{parameter.name}' has sizes {shape} in each sample of vmap, and the chain takes [{wanted}]: pass a "
            "tensor of these sizes, or declare the chain with exact=False"
        )


def _leads(form: Form, dims: Sequence[int | None], tensors: Sequence[Tensor]) -> int | None:
    """How many dimensions of a sample are rows. None: a tensor has dimensions that the form does not take."""
    if len(tensors) != len(form.inputs):
        return None
    found = set()
    for parameter, dim, tensor in zip(form.inputs, dims, tensors, strict=True):
        more = tensor.dim() - (dim is not None) - len(parameter.sizes)
        if more < 0 or (more > 0 and not parameter.leading):
            return None
        if parameter.leading:
            found.add(more + 1)
    return None if len(found) > 1 else max(found, default=0)


def _as_rows(training: Training, size: int, dims: Sequence[int | None], tensors: Sequence[Tensor],
             call: Call) -> tuple[tuple[Tensor, ...], tuple[int | None, ...]]:  # fmt: skip
    moved = [
        t.movedim(dim, 0) if dim is not None else t.unsqueeze(0).expand(size, *t.shape) if p.leading else t
        for p, dim, t in zip(training.forward.inputs, dims, tensors, strict=True)
    ]
    outputs = tuple(call(training, moved))
    return outputs, (0,) * len(outputs)


def _as_ragged_rows(training: Training, size: int, dims: Sequence[int | None], tensors: Sequence[Tensor], ends: int,
                    leads: int, call: Call) -> tuple[tuple[Tensor, ...], tuple[int | None, ...]]:  # fmt: skip
    """The rows of all samples are ordered by group again. Rows of no group are last, as in each sample."""
    form = training.forward
    every = [t.movedim(dim, 0) if dim is not None else t.unsqueeze(0).expand(size, *t.shape)
             for dim, t in zip(dims, tensors, strict=True)]  # fmt: skip
    lead = next(t.shape[: leads + 1] for p, t in zip(form.inputs, every, strict=True) if p.leading)
    rows = lead.numel() // max(size, 1)
    splits = every[ends].contiguous()
    numbers = torch.arange(rows, dtype=splits.dtype, device=splits.device).expand(size, rows).contiguous()
    order = torch.argsort(torch.searchsorted(splits, numbers, right=True).reshape(-1), stable=True)
    moved = [
        _in_order(full.reshape(-1, *full.shape[leads + 1 :]), order) if p.leading else t
        for p, t, full in zip(form.inputs, tensors, every, strict=True)
    ]
    moved[ends] = _ends_of_all(splits, rows)
    back = torch.argsort(order)
    outputs = tuple(_in_order(y, back).reshape(*lead, *y.shape[1:]) for y in call(training, moved))
    return outputs, (0,) * len(outputs)


def _ends_of_all(splits: Tensor, rows: int) -> Tensor:
    """The ends of the groups of all samples. A sample's ends that no call takes have none either: on the CPU the
    operator refuses them."""
    ends = splits.clamp(0, rows).sum(0, dtype=splits.dtype)
    if splits.device.type != "cpu":
        return ends
    wrong = (splits < 0).any() | (splits > rows).any() | (splits.diff() < 0).any()
    return torch.where(wrong, splits.shape[0] * rows + 1, ends).to(splits.dtype)


def _in_order(rows: Tensor, order: Tensor) -> Tensor:
    # The gradient of index_select is cheaper; indices take every dtype.
    return rows[order] if rows.dtype in operators.FP8 else rows.index_select(0, order)


def _as_dimension(training: Training, places: tuple[int | None, ...], dims: Sequence[int | None],
                  tensors: Sequence[Tensor], leads: int, call: Call) -> Any:  # fmt: skip
    """`places`: of the samples in the outputs, after one dimension of rows."""
    form = training.forward
    moved = [
        t.movedim(dim, leads if p.leading else 0) if dim is not None else t
        for p, dim, t in zip(form.inputs, dims, tensors, strict=True)
    ]
    outputs = tuple(call(training, moved))
    return outputs, tuple(leads if place == 1 else place for place in places)


def _one_by_one(training: Training, size: int, dims: Sequence[int | None], tensors: Sequence[Tensor],
                call: Call, contiguous: bool) -> tuple[tuple[Tensor, ...], tuple[int | None, ...]]:  # fmt: skip
    """`contiguous`: samples are copied where they are not."""
    form = training.forward
    if size == 0:
        samples = [t.new_empty(_sample_shape(t, dim)) for dim, t in zip(dims, tensors, strict=True)]
        outputs = tuple(operators.empty(form, i, samples).unsqueeze(0)[:0] for i in range(len(form.outputs)))
        return outputs, (0,) * len(outputs)
    results = []
    for i in range(size):
        samples = _sample(dims, tensors, i, contiguous and not form.exact)
        if form.exact:
            samples = [t if p.bytes else operators.laid_out(t, p.strides) if t.dim() == len(p.strides) else t
                       for p, t in zip(form.inputs, samples, strict=True)]  # fmt: skip
        else:  # the ends of groups are contiguous in every chain
            samples = [t.contiguous() if t.dtype == torch.int32 else t for t in samples]
        results.append(call(training, samples))
    outputs = tuple(torch.stack(parts) for parts in zip(*results, strict=True))
    return outputs, (0,) * len(outputs)
