# SPDX-License-Identifier: Apache-2.0
"""A chain as a differentiable function of tensors: `ChainFunction`, its gradient by the gradient chains."""

from __future__ import annotations

import functools
import hashlib
import math
import re
import threading
from collections.abc import Sequence
from typing import Any

import torch

from catenary.arguments import finite_in_f32, flag, instance, integer, number
from catenary.chain import Chain
from catenary.errors import ArgumentError
from catenary.gradient import GradientKind as Kind
from catenary.gradient import GradientOperand, gradient, recompute_kind
from catenary.operand import Role
from catenary.torch import operators
from catenary.torch.kinds import refuse_other_tensors
from catenary.torch.operators import PLAIN, Form, is_distributed
from catenary.torch.training import Name, Step, Training, backward_once

_PARAMETERS = (Kind.input, Kind.weight)
_LARGEST = torch.finfo(torch.float32).max
GraphKeys = tuple[int, int, int, int]  # see graph_keys()


class ChainFunction:
    """A chain as a function of tensors, on any device, with gradients. Thread-safe.

    Args:
        chain: its tensor parameters in order are the arguments, then its scalars as floats.
        exact: tensors must have the chain's sizes and strides; else these are examples, and a symbol as the first
            dimension takes all leading dimensions.
        recompute: what the forward saves for the backward: "none", "unstored", "all" or "budget" (`catenary.gradient`).
        save_budget: bytes, for "budget".
    """

    def __init__(self, chain: Chain, exact: bool = True, recompute: str = "unstored", save_budget: int = 0):
        self._text = instance(chain, Chain, "the chain").text
        self.exact = flag(exact, "exact")
        self.recompute = recompute_kind(recompute).name
        self.save_budget = integer(save_budget, "save_budget")
        self._budget = str(self.save_budget)  # a number may be symbolic in a graph
        self.form = operators.add(chain, exact)
        # The form may be that of an equal chain with other names.
        self._names = tuple(p.name for p in chain.parameters if p.role != Role.scalar)
        self._trainings: dict[Any, Training] = {}
        self._lock = threading.Lock()

    @property
    def chain(self) -> Chain:
        """The chain, newly parsed."""
        return Chain.parse(self._text)

    def __reduce__(self):
        return ChainFunction, (self.chain, self.exact, self.recompute, self.save_budget)

    def __deepcopy__(self, memo: dict) -> ChainFunction:
        return self  # it has no state of a user

    def __call__(self, *arguments: Any) -> Any:
        count = len(self._names)
        try:
            tensors, scalars = arguments[:count], arguments[count:]
            if any(type(tensor) not in PLAIN for tensor in tensors):
                is_distributed(tensors)
            if len(arguments) != count + self.form.scalars:
                raise ArgumentError(
                    f"chain '{self.form.name}' takes {count} tensors ({', '.join(self._names)}) and "
                    f"{self.form.scalars} scalars, got {len(arguments)} arguments"
                )
            if operators._is_dynamo_compiling():
                if not all(_is_of_graphs(value) for value in scalars):
                    return _between_graphs(self, *arguments)
                own = (self._text, self.exact, self.recompute, self._budget)
                if operators.in_functorch():
                    return _transformed(*own, *arguments)
                if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
                    return _traced(own, tensors, scalars)
            elif scalars:
                scalars = _numbers(scalars)
            if torch.is_grad_enabled():
                wanted = tuple(name for name, tensor in zip(self._names, tensors, strict=False) if tensor.requires_grad)
                if wanted:
                    return apply(self.training(wanted), tensors, scalars, None)
            return _one(operators.run(self.form, tensors, scalars, self))
        except Exception:
            refuse_other_tensors(self._names, arguments)
            raise

    def accumulating(self, tensors: Sequence[torch.Tensor], weights: Sequence[str],
                     parameters: Sequence[torch.Tensor] | None = None) -> Any:  # fmt: skip
        """The outputs; the backward adds the gradients of `weights` to their `main_grad` (f32), as Megatron-LM and
        TransformerEngine do: see docs/pytorch.md. `parameters`: what autocast made the tensors of."""
        wanted = tuple(name for name, tensor in zip(self._names, tensors, strict=False) if tensor.requires_grad)
        given = tensors if parameters is None else parameters
        fused = {name: given[self._names.index(name)] for name in weights if name in wanted}
        if operators.in_functorch():
            from catenary.torch.transforms import refuse_fused

            refuse_fused(tensors)
        if not fused or not torch.is_grad_enabled():
            return self(*tensors)
        if len({id(weight) for weight in fused.values()}) < len(fused):
            raise ArgumentError(
                f"{', '.join(fused)} are one tensor, and each gradient overwrites its main_grad: pass two tensors, or "
                "leave out fuse_wgrad_accumulation"
            )
        overwrite = [bool(getattr(weight, "overwrite_main_grad", False)) for weight in fused.values()]
        if any(overwrite) and not all(overwrite):
            raise ArgumentError(
                f"overwrite_main_grad is set for some of {', '.join(fused)}: set it for all or for none"
            )
        return apply(self.training(wanted, tuple(fused), all(overwrite)), tensors, (), fused)

    def training_of(self, wanted: Sequence[bool]) -> Training:
        """Forward and backward for gradients of the tensors that are `wanted`."""
        return self.training(tuple(name for name, want in zip(self._names, wanted, strict=True) if want))

    def graph_keys(self, wanted: tuple[bool, ...]) -> GraphKeys:
        """For a graph: see graph_keys()."""
        return graph_keys(self, wanted)

    def training(self, wanted: tuple[str, ...], fused: tuple[str, ...] = (), overwrite: bool = False) -> Training:
        """Forward and backward for gradients of the named parameters; those of `fused` are f32, and added to
        tensors of the caller unless `overwrite`."""
        found = self._trainings.get((wanted, fused, overwrite))
        if found is None:
            made = _make_training(self, wanted, fused, overwrite)
            with self._lock:
                found = self._trainings.setdefault((wanted, fused, overwrite), made)
        return found


def _numbers(scalars: Sequence[Any]) -> tuple[float, ...]:
    """The scalars of a call as floats."""
    found = []
    for i, value in enumerate(scalars):
        who = f"scalar {i}"
        if isinstance(value, torch.Tensor) and value.requires_grad and torch.is_grad_enabled():
            raise ArgumentError(
                f"{who} requires a gradient, and no scalar has one: declare an input of shape (1,), or detach it"
            )
        symbolic = isinstance(value, (torch.SymFloat, torch.SymInt))  # in a graph that is traced
        found.append(value if symbolic else finite_in_f32(number(value, who), value, who))
    return tuple(found)


def _is_of_graphs(value: Any) -> bool:
    """Whether a scalar is a number that an operator in a graph takes."""
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    return plain and (abs(value) <= _LARGEST or abs(value) == math.inf or value != value)


def _call(function: ChainFunction, *arguments: Any) -> Any:
    return function(*arguments)


_between_graphs = torch.compiler.disable(
    _call,
    reason="a scalar of a chain is a float in a graph, finite in f32: pass one, or compile without fullgraph=True, and "
    "the chain runs between two graphs",
)


@torch.compiler.allow_in_graph
def _transformed(text: str, exact: bool, recompute: str, budget: str, *arguments: Any) -> Any:
    """A call that dynamo does not look into. Inside of a transform, only the levels of functorch know which tensors
    need gradients, and not the tracer."""
    return _known(text, exact, recompute, budget)(*arguments)


@functools.lru_cache(maxsize=4096)
def _known(text: str, exact: bool, recompute: str, budget: str) -> ChainFunction:
    return ChainFunction(Chain.parse(text), exact, recompute, int(budget))


def _traced(own: tuple[Any, ...], tensors: Sequence[Any], scalars: Sequence[float]) -> Any:
    """A call that needs gradients while dynamo traces it. `own`: what _known() takes."""
    if _is_one_operator(*own, wanted_of(tensors)):
        return train_call(_traced_keys, own, tensors, scalars)
    return _transformed(*own, *tensors, *scalars)


@torch.compiler.assume_constant_result
def _is_one_operator(text: str, exact: bool, recompute: str, budget: str, wanted: tuple[bool, ...]) -> bool:
    training = _known(text, exact, recompute, budget).training_of(wanted)
    return len(training.forward.outputs) <= operators.MOST_OUTPUTS


@torch.compiler.assume_constant_result
def _traced_keys(text: str, exact: bool, recompute: str, budget: str, wanted: tuple[bool, ...]) -> Any:
    return _known(text, exact, recompute, budget).graph_keys(wanted)


def _make_training(function: ChainFunction, wanted: Sequence[str], fused: Sequence[str], overwrite: bool) -> Training:
    text = function._text
    if fused:  # only gradients of weights are f32 and accumulated
        for name in function._names:
            role = "weight" if name in fused else "input"
            text = re.sub(rf"\b(input|weight) {name}:", f"{role} {name}:", text, count=1)
    made = gradient(
        Chain.parse(text), wanted=wanted, recompute=function.recompute, save_budget=function.save_budget,
        f32_weights=bool(fused), accumulate=bool(fused) and not overwrite,
    )  # fmt: skip
    parameters = Chain.parse(text).parameters
    names = tuple(p.name for p in parameters if p.role != Role.scalar)
    positions = tuple(i for i, p in enumerate(parameters) if p.role != Role.scalar)
    scalars = [i for i, p in enumerate(parameters) if p.role == Role.scalar]
    forward = _outputs(made.forward.operands)
    results = sum(1 for kind, _ in forward if kind == "output")
    read = {_name(o) for part in made.backward for o in part.operands if not o.is_output}
    saved_inputs = tuple(i for i, position in enumerate(positions) if ("parameter", position) in read)
    saved_outputs = tuple(i for i, name in enumerate(forward) if name in read)
    places: dict[Name, int] = {}
    for name in (
        *(("parameter", positions[i]) for i in saved_inputs), *(forward[i] for i in saved_outputs),
        *(("of_output", i) for i in range(results)),
    ):  # fmt: skip
        places[name] = len(places)
    steps = tuple(
        _step(operators.add(part.chain, function.exact), part.operands, scalars, places) for part in made.backward
    )
    written = {place for step in steps for place in step.outputs}
    gradients = []
    for position in positions:
        found = [places.get((kind, position)) for kind in ("of_input", "of_weight")]
        gradients.append(next((place for place in found if place in written), None))
    return Training(
        forward=operators.add(made.forward.chain, function.exact),
        results=results,
        steps=steps,
        count=len(places),
        names=names,
        gradients=tuple(gradients),
        saved_inputs=saved_inputs,
        saved_outputs=saved_outputs,
        function=function,
        outputs=forward,
    )


def _outputs(operands: Sequence[GradientOperand]) -> tuple[Name, ...]:
    return tuple(_name(operand) for operand in operands if operand.is_output)


def _name(operand: GradientOperand) -> Name:
    return ("parameter" if operand.kind in _PARAMETERS else operand.kind.name, operand.index)


def _step(form: Form, operands: Sequence[GradientOperand], scalars: Sequence[int], places: dict[Name, int]) -> Step:
    """Adds places for what the step writes."""
    inputs = [o for o in operands if not o.is_output and o.kind not in (Kind.scalar, Kind.accumulator)]
    outputs = [o for o in operands if o.is_output]
    dims = tuple(
        o.parameter_dims
        if o.parameter_dims is not None and list(o.parameter_dims) != list(range(len(o.shape)))
        else None
        for o in outputs
    )
    return Step(
        form=form,
        inputs=tuple(places[_name(o)] for o in inputs),
        scalars=tuple(scalars.index(o.index) for o in operands if not o.is_output and o.kind == Kind.scalar),
        outputs=tuple(places.setdefault(_name(o), len(places)) for o in outputs),
        dims=dims,
        output_gradients=frozenset(i for i, o in enumerate(inputs) if o.kind == Kind.of_output),
    )


def _one(outputs: Sequence[torch.Tensor]) -> Any:
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def apply(training: Training, tensors: Sequence[Any], scalars: Sequence[float], fused: Any) -> Any:
    """The outputs, with a gradient. `fused`: see ChainFunction.accumulating."""
    if operators.in_functorch():
        from catenary.torch.transforms import call

        return _one(call(training.function.form, training.function, tensors, scalars))
    return _one(_plain_apply(training, tuple(scalars), fused, *tensors)[: training.results])


class _Apply(torch.autograd.Function):
    @staticmethod
    def forward(ctx, training, scalars, fused, *tensors):
        outputs = operators.run(training.forward, tensors, scalars)
        ctx.training, ctx.scalars, ctx.fused = training, scalars, fused
        ctx.shapes = [tensor.shape for tensor in tensors]
        # Saved values are outputs too: as these they are known to depend on the arguments.
        ctx.set_materialize_grads(False)
        ctx.zeros = zeros_like_results(training, outputs)
        ctx.save_for_backward(
            *[tensors[i] for i in training.saved_inputs], *[outputs[i] for i in training.saved_outputs]
        )
        return outputs

    @staticmethod
    def backward(ctx, *gradients):
        given = results_gradients(gradients, ctx.zeros)
        grads = backward_once(ctx.training, ctx.saved_tensors, given, ctx.scalars, ctx.fused, ctx.shapes)
        return None, None, None, *grads

    @staticmethod
    def jvp(ctx, *tangents):
        raise operators.no_tangents(ctx.training.forward.name)


def zeros_like_results(training: Training, outputs: Sequence[Any]) -> list[tuple[Any, ...]]:
    """What results_gradients() needs of the results."""
    return [(tensor.shape, tensor.dtype, tensor.device) for tensor in outputs[: training.results]]


def results_gradients(gradients: Sequence[Any], zeros: Sequence[tuple[Any, ...]]) -> list[torch.Tensor]:
    """The gradients of the results. A missing one is zeros. Saved values have no gradient."""
    return [
        torch.zeros(shape, dtype=dtype, device=device) if gradient is None else gradient
        for gradient, (shape, dtype, device) in zip(gradients, zeros, strict=False)
    ]


# Without a transform of functorch, the Python of Function.apply has nothing to do.
_plain_apply = super(torch.autograd.Function, _Apply).apply


# By the keys of the forward and of its gradients, and by the set of wanted gradients.
_trainings: dict[tuple[int, int], dict[tuple[bool, ...], Training]] = {}


def graph_keys(function: ChainFunction, wanted: tuple[bool, ...]) -> GraphKeys:
    """For a graph, and gradients of the tensors that are `wanted`: the key of a forward, that of its backward, the
    number of outputs, and how many of these are results. Forwards of one key may have several backwards; a graph from
    Inductor's cache runs the one of its trace."""
    if not any(wanted):
        return function.form.key, 0, len(function.form.outputs), len(function.form.outputs)
    training = function.training_of(wanted)
    outputs = len(training.forward.outputs)
    if outputs > operators.MOST_OUTPUTS:
        raise ArgumentError(
            f"chain '{function.form.name}' has {outputs} outputs with saved values, and a graph takes "
            f"{operators.MOST_OUTPUTS}: use recompute='all'"
        )
    key, gradients = training.forward.key, _gradients_key(training)
    _trainings.setdefault((key, gradients), {})[tuple(wanted)] = training
    return key, gradients, outputs, training.results


def _gradients_key(training: Training) -> int:
    """63 bits, equal in every process."""
    keys = ",".join(str(step.form.key) for step in training.steps)
    return int.from_bytes(hashlib.sha256(keys.encode()).digest()[:8], "little") >> 1


def wanted_of(tensors: Sequence[Any]) -> tuple[bool, ...]:
    """Which tensors need a gradient, in a graph that is traced."""
    return tuple(torch.is_grad_enabled() and tensor.requires_grad for tensor in tensors)


def train_call(keys: Any, arguments: tuple, tensors: Sequence[Any], scalars: Sequence[float] = ()) -> Any:
    """A call while a graph is traced: one operator, whose gradient is registered. `keys`: graph_keys() for
    `arguments` as a constant of the graph."""
    wanted = wanted_of(tensors)
    key, gradients, count, results = keys(*arguments, wanted)
    if any(wanted):
        outputs = _train_operators[count](list(tensors), key, list(scalars), gradients)
    else:
        outputs = _run_operators[count](list(tensors), key, list(scalars))
    outputs = (outputs,) if count == 1 else outputs
    return outputs[0] if results == 1 else tuple(outputs[:results])


_train_operators = operators.train
_run_operators = operators._run


def _known_training(key: int, gradients: int, wanted: tuple[bool, ...]) -> Training:
    """For these gradients, or for more: autograd drops what it does not want."""
    known = _trainings[key, gradients]
    for some, training in known.items():
        if all(has or not want for has, want in zip(some, wanted, strict=True)):
            return training
    made = next(iter(known.values())).function.training_of(wanted)
    if made.forward.key != key:
        raise ArgumentError(
            f"chain '{made.forward.name}' has no gradient for these tensors in this graph: trace it again"
        )
    return made


def _setup_context(ctx, inputs, output):
    tensors, key, scalars, gradients = inputs
    training = _known_training(key, gradients, tuple(tensor.requires_grad for tensor in tensors))
    outputs = output if isinstance(output, tuple) else (output,)
    ctx.training, ctx.scalars = training, scalars
    ctx.shapes = [tensor.shape for tensor in tensors]
    ctx.save_for_backward(*(tensors[i] for i in training.saved_inputs), *(outputs[i] for i in training.saved_outputs))


def _backward(ctx, *gradients):
    training = ctx.training
    grads = backward_once(training, ctx.saved_tensors, gradients[: training.results], ctx.scalars, None, ctx.shapes)
    return grads, None, None if ctx.scalars else [], None


for _count in operators.train:
    torch.library.register_autograd(
        f"catenary::train{_count}", _backward, setup_context=_setup_context, lib=operators._library
    )
