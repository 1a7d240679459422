# SPDX-License-Identifier: Apache-2.0
"""Chains in JAX: `call(chain, *arrays)` under jit, grad and vmap, by XLA's FFI. docs/jax.md.

On a GPU kernels run on XLA's stream and inside its command buffers; on the CPU the reference or the simulator runs.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from catenary._native import lib
from catenary.arguments import instance, integer, shown, wrong_kind
from catenary.chain import Chain
from catenary.engine import default_engine
from catenary.errors import ArgumentError
from catenary.gradient import Gradient, GradientKind, GradientOperand, recompute_kind
from catenary.jax import manual
from catenary.jax.partition import explicit_mesh, partitioned
from catenary.operand import DType, Operand, Role, symbol
from catenary.signature import Signature

__all__ = ["call", "set_host"]

_DTYPES = {
    DType.bf16: jnp.bfloat16,
    DType.f16: jnp.float16,
    DType.f32: jnp.float32,
    DType.i32: jnp.int32,
    DType.e4m3: jnp.float8_e4m3fn,
    DType.e5m2: jnp.float8_e5m2,
    DType.i8: jnp.int8,
}
_TARGET = "catenary"
_HOSTS = {"reference": 0, "simulator": 1}
_host = "reference"


def set_host(place: str) -> None:
    """What runs chains on JAX's CPU devices: "reference" (float64) or "simulator" (the kernels). Holds for calls that
    are traced from now on."""
    global _host
    if not isinstance(place, str) or place not in _HOSTS:
        raise ArgumentError(f"place is {shown(place)}: use 'reference' or 'simulator'")
    _host = place


def call(chain: Chain, /, *arguments: Any, recompute: str = "none", save_budget: int = 0, **named: Any) -> Any:
    """The outputs of a chain on JAX arrays, as one custom call; differentiable where the chain is.

    Args:
        arguments, named: the chain's parameters in order or by name. Arrays have the declared dtypes and shapes; a
            scalar is a Python float, known when the call is traced. A parameter that is packed or has 4 bits is its
            bytes, uint8 or int8, as `catenary.repack` returns them.
        recompute, save_budget: what a gradient saves, as `catenary.gradient` takes it.

    Returns the output, or a tuple of several. Raises ArgumentError while it is traced. An output in place of an input
    is a new array: XLA copies the input unless it is donated or not used again.
    """
    form = _Form.of(instance(chain, Chain, "the chain"))
    kind, budget = recompute_kind(recompute).name, integer(save_budget, "save_budget")
    arrays, scalars = form.signature.bind(arguments, named)
    arrays = [_array(operand, a) for operand, a in zip(form.tensors, arrays, strict=True)]
    size = form.size(arrays)
    # A layer without scalars and symbol has one function for all its calls.
    function = _differentiable(chain.text, _exact(scalars), size, kind, budget, _host)
    # Before the function whose gradient is its own: JAX adds the sums of what did not vary.
    outputs = function(*manual.vary(arrays, manual.axes(arrays)))
    return outputs[0] if len(outputs) == 1 else outputs


def _array(operand: Operand, given: Any) -> Any:
    try:
        return jnp.asarray(given)
    except (TypeError, ValueError, OverflowError):
        raise wrong_kind(f"argument '{operand.name}'", given, "an array") from None


def _exact(scalars: Sequence[float]) -> tuple[str, ...]:
    """Scalars as keys of a cache: -0.0 equals 0.0, and a NaN does not equal itself."""
    return tuple(float(s).hex() for s in scalars)


@functools.lru_cache(maxsize=1024)
def _differentiable(text: str, exact: tuple[str, ...], size: int, recompute: str, save_budget: int, host: str):
    """A function of the tensor parameters, with its gradient by the chains of a gradient."""
    form = _Form.parsed(text)
    scalars = tuple(map(float.fromhex, exact))

    @jax.custom_vjp
    def function(*arrays):
        return tuple(form.launch(arrays, scalars, size, host))

    @functools.cache
    def gradient() -> Gradient:
        return form.chain.gradient(recompute=recompute, save_budget=save_budget)

    def forward(*arrays):
        values = _values(form, arrays, scalars)
        _run(gradient().chains[:1], values, size, host)
        outputs = tuple(values[GradientKind.output, i] for i in range(len(form.outputs)))
        # What the backward chains take, and no more.
        kept = {(o.kind, o.index) for part in gradient().backward for o in part.operands if not o.is_output}
        return outputs, (
            arrays,
            {f"{int(k)} {i}": values[k, i] for k, i in sorted(kept & values.keys()) if k != GradientKind.scalar},
        )

    def backward(saved, cotangents):
        arrays, kept = saved
        values = {(GradientKind(int(key.split()[0])), int(key.split()[1])): value for key, value in kept.items()}
        values.update({(GradientKind.scalar, i): s for i, s in _scalar_values(form, scalars).items()})
        values.update({(GradientKind.of_output, i): c for i, c in enumerate(cotangents)})
        _run(gradient().backward, values, size, host)
        return tuple(_cotangent(form.numbers[i], array, values) for i, array in enumerate(arrays))

    function.defvjp(forward, backward)
    return function


def _values(form: _Form, arrays: Sequence[Any], scalars: Sequence[float]) -> dict:
    kinds = {Role.input: GradientKind.input, Role.weight: GradientKind.weight}
    values: dict[tuple[GradientKind, int], Any] = {}
    for number, operand, array in zip(form.numbers, form.tensors, arrays, strict=True):
        values[kinds[operand.role], number] = array
    values.update({(GradientKind.scalar, i): s for i, s in _scalar_values(form, scalars).items()})
    return values


def _scalar_values(form: _Form, scalars: Sequence[float]) -> dict[int, float]:
    numbers = [i for i, p in enumerate(form.signature.parameters) if p.role == Role.scalar]
    return dict(zip(numbers, scalars, strict=True))


def _run(parts: Sequence[Any], values: dict, size: int, host: str) -> None:
    """Launches chains of a gradient in order; `values` gets what they make."""
    for part in parts:
        form = _Form.of(part.chain)
        given = [o for o in part.operands if not o.is_output]
        arrays = [values[o.kind, o.index] for o in given if o.kind != GradientKind.scalar]
        scalars = [values[o.kind, o.index] for o in given if o.kind == GradientKind.scalar]
        made = form.launch(arrays, scalars, size if form.signature.symbol else 0, host)
        for operand, array in zip([o for o in part.operands if o.is_output], made, strict=True):
            values[operand.kind, operand.index] = _as_parameter(operand, array)


def _as_parameter(operand: GradientOperand, array: Any) -> Any:
    """A gradient of a parameter with the parameter's dimensions, but those of size 1 that it lacks."""
    if operand.parameter_dims is None or tuple(operand.parameter_dims) == tuple(range(len(operand.parameter_dims))):
        return array
    return jnp.transpose(array, np.argsort(operand.parameter_dims))


def _cotangent(number: int, array: Any, values: dict) -> Any:
    if not jnp.issubdtype(array.dtype, jnp.floating):
        return np.zeros(array.shape, jax.dtypes.float0)
    found = next(
        (v for (k, i), v in values.items() if i == number and k in (GradientKind.of_input, GradientKind.of_weight)),
        None,
    )
    if found is None:
        return jnp.zeros_like(array)
    found = found.reshape(array.shape).astype(array.dtype)
    return found if explicit_mesh([array]) is None else jax.sharding.reshard(found, jax.typeof(array).sharding)


class _Form:
    """A chain as a custom call: its attributes, and the order of dimensions in memory of its operands."""

    def __init__(self, chain: Chain):
        self.chain = chain
        self.signature = Signature(chain)
        self.tensors = self.signature.tensors
        self.outputs = self.signature.outputs
        for operand in self.tensors:
            if operand.dtype not in _DTYPES and not operand.is_bytes:
                raise ArgumentError(
                    f"'{operand.name}' is {operand.dtype}: calls of JAX take {', '.join(map(str, _DTYPES))}, i4 and u4"
                )
        self.numbers = [i for i, p in enumerate(self.signature.parameters) if p.role != Role.scalar]
        self.attributes = {"chain": chain.text, "key": np.int64(chain.key)}
        # By position: a value that is returned twice gives both outputs its name.
        self.orders = [_memory_order(o) for o in self.tensors]
        self.output_orders = [_memory_order(o) for o in self.outputs]
        self.aliases = {self.numbers.index(o.in_place): i for i, o in enumerate(self.outputs) if o.in_place is not None}

    @staticmethod
    def of(chain: Chain) -> _Form:
        return _Form.parsed(chain.text)

    @staticmethod
    @functools.lru_cache(maxsize=1024)
    def parsed(text: str) -> _Form:
        return _Form(Chain.parse(text))

    def size(self, arrays: Sequence[Any]) -> int:
        """Checks dtypes and shapes; returns the symbolic size, 0 without a symbol."""
        from catenary.arrays import View

        views = []
        for operand, array in zip(self.tensors, arrays, strict=True):
            name = str(array.dtype)
            dtype = next((d for d, kind in _DTYPES.items() if array.dtype == kind), None)
            strides = operand.bytes_strides() if operand.is_bytes else operand.strides
            views.append(View(0, dtype, name, tuple(array.shape), strides, None, "jax"))
        return self.signature.size(views, [None] * len(self.outputs))

    def launch(self, arrays: Sequence[Any], scalars: Sequence[float], size: int, host: str) -> Sequence[Any]:
        """The chain on arrays, which may be divided over devices."""
        along = manual.axes(arrays)
        made = _divisible(self.chain.text, _exact(scalars), size, host)(*manual.vary(arrays, along))
        return manual.vary(made, along)

    def call(self, arrays: Sequence[Any], scalars: Sequence[float], size: int, host: str) -> list[Any]:
        """One custom call on one device."""
        specs = [
            jax.ShapeDtypeStruct(_permuted(o.shape_for(size), order), _DTYPES[o.dtype])
            for o, order in zip(self.outputs, self.output_orders, strict=True)
        ]
        workspace = self._workspace_bytes()
        if workspace:
            specs.append(jax.ShapeDtypeStruct((workspace,), jnp.uint8))
        attributes: Mapping[str, Any] = {**self.attributes, "symbol": np.int64(size), "host": np.int64(_HOSTS[host])}
        if scalars:
            attributes = {**attributes, "scalars": np.asarray(scalars, np.float32)}
        _register()
        function = jax.ffi.ffi_call(_TARGET, specs, vmap_method="sequential", input_output_aliases=self.aliases)
        ordered = [jnp.transpose(a, order) for a, order in zip(arrays, self.orders, strict=True)]
        made = function(*ordered, **attributes)[: len(self.outputs)]
        return [jnp.transpose(m, np.argsort(order)) for m, order in zip(made, self.output_orders, strict=True)]

    @functools.cached_property
    def _gpu_workspace_bytes(self) -> int:
        return default_engine().prepare(self.chain).workspace_bytes

    def _workspace_bytes(self) -> int:
        """Of the kernels of a GPU, as a result of the call: so XLA allocates it, also for a command buffer."""
        return self._gpu_workspace_bytes if jax.default_backend() in ("gpu", "cuda") else 0


@functools.lru_cache(maxsize=1024)
def _divisible(text: str, exact: tuple[str, ...], size: int, host: str) -> Any:
    form = _Form.parsed(text)
    scalars = tuple(map(float.fromhex, exact))
    return partitioned(
        form.chain, form.numbers, size, lambda chain, arrays, size: _Form.of(chain).call(arrays, scalars, size, host)
    )


def _memory_order(operand: Operand) -> tuple[int, ...]:
    """Its dimensions from the outermost in memory to the innermost. XLA's arrays have no gaps."""
    shape = operand.bytes_shape() if operand.is_bytes else operand.shape
    strides = operand.bytes_strides() if operand.is_bytes else operand.strides
    order = tuple(sorted(range(len(shape)), key=lambda d: -strides[d]))
    if 0 in shape:
        return order  # without elements there are no gaps
    step = 1
    for d in reversed(order):
        if shape[d] == 1:
            continue
        if strides[d] != step:
            raise ArgumentError(
                f"'{operand.name}' has strides {list(operand.strides)}, which leave gaps: JAX's arrays "
                "have none, so declare contiguous strides"
            )
        step = step * shape[d] if shape[d] is not symbol else 0  # the symbol is outermost
    return order


def _permuted(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    return tuple(shape[d] for d in order)


@functools.cache
def _register() -> None:
    for platform, name in (("cpu", "ctn_xla_host"), ("CUDA", "ctn_xla_cuda")):
        capsule = jax.ffi.pycapsule(ctypes.cast(getattr(lib, name), ctypes.c_void_p).value)
        stages = dict.fromkeys(("instantiate", "prepare", "initialize", "execute"), capsule)
        jax.ffi.register_ffi_target(_TARGET, stages, platform=platform)
