# SPDX-License-Identifier: Apache-2.0
"""The operators `torch.ops.catenary.*`: schemas, implementations, fake kernels; `Form`, a chain that they know by key.

They are implemented by the library through torch's C shim (torch 2.10 and newer), else in Python: `IMPLEMENTATION`
says which. CATENARY_TORCH_OPERATORS=python chooses Python. `run`, `run_one` and `run_out` call them, without torch's
dispatcher where that does nothing else: see direct.py.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.autograd import forward_ad

from catenary import _native
from catenary._native import lib
from catenary.arguments import flag, instance, instance_or_none, shown
from catenary.chain import Chain
from catenary.errors import ArgumentError, Error, UnsupportedError, check, result, text
from catenary.torch import direct
from catenary.torch.kinds import refuse_kinds

FP8 = {torch.float8_e4m3fn: "e4m3", torch.float8_e5m2: "e5m2"}
NAMES = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32", torch.int32: "i32", **FP8}
DTYPES = {name: dtype for dtype, name in NAMES.items()} | {"i8": torch.int8}  # i8: zeros and integers of dequant
BYTES = (torch.uint8, torch.int8)  # of a parameter that is packed or has 4 bits
MOST_OUTPUTS = 4  # of run1 to run4; a chain with more runs by run_out

_RESULTS = {1: "Tensor"} | {n: f"({', '.join(['Tensor'] * n)})" for n in range(2, MOST_OUTPUTS + 1)}
SCHEMAS = (
    [f"run{n}(Tensor[] inputs, int key, float[] scalars=[]) -> {_RESULTS[n]}" for n in _RESULTS]
    + [
        # Without defaults: a registered gradient sees each argument.
        f"train{n}(Tensor[] inputs, int key, float[] scalars, int gradients) -> {_RESULTS[n]}"
        for n in _RESULTS
    ]
    + ["run_out(Tensor[] inputs, Tensor(a!)[] outs, int key, float[] scalars=[]) -> ()"]
)


@dataclass(frozen=True)
class Output:
    """An output of a form: where its sizes come from."""

    dtype: torch.dtype
    sizes: tuple[int | None, ...]
    """Of an exact form; None: the symbol."""
    strides: tuple[int, ...]
    sources: tuple[Any, ...]
    """Per dimension: [input, dimension], or a number."""
    order: tuple[int, ...]
    """Dimensions from the outermost in memory to the innermost."""
    leading: bool
    in_place: int


@dataclass(frozen=True)
class Input:
    """A tensor parameter of a form."""

    name: str
    dtype: torch.dtype
    sizes: tuple[int | None, ...]
    strides: tuple[int, ...]
    leading: bool
    overwritten_by: int
    bytes: bool = False
    """It is packed or has 4 bits: sizes, strides and dtype are those of its bytes, for an exact form and any other."""


@dataclass(frozen=True)
class Form:
    """A chain as the operators take it. Made by `add`."""

    key: int
    name: str
    exact: bool
    pdl: bool
    """Its calls launch with PDL whatever `set_pdl` says."""
    text: str
    scalars: int
    symbol: tuple[int, int] | None
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]

    @property
    def in_place(self) -> bool:
        """Whether it overwrites inputs, which only run_out does."""
        return any(output.in_place >= 0 for output in self.outputs)

    def arguments(self, inputs: Sequence[torch.Tensor], outs: Sequence[torch.Tensor] = ()) -> list[torch.Tensor]:
        """One tensor per parameter. A parameter that an output overwrites is in `outs`."""
        given = iter(inputs)
        return [outs[p.overwritten_by] if p.overwritten_by >= 0 else next(given) for p in self.inputs]

    def layout(self, index: int, tensors: Sequence[torch.Tensor]) -> tuple[list[Any], list[Any]]:
        """Sizes and strides of output `index` for `tensors`, one per parameter; sizes may be symbolic."""
        output = self.outputs[index]
        if output.in_place >= 0:
            return list(tensors[output.in_place].shape), list(tensors[output.in_place].stride())
        if self.exact:
            sizes = [
                n if n is not None else self._size(s, tensors)
                for n, s in zip(output.sizes, output.sources, strict=False)
            ]
            return sizes, list(output.strides)
        sizes = [s if isinstance(s, int) else self._size(s, tensors) for s in output.sources]
        strides = _dense(sizes, output.order)
        if not output.leading:
            return sizes, strides
        lead = self.leading(tensors)
        return lead + sizes[1:], _dense(lead, range(len(lead)), strides[0]) + strides[1:]

    def leading(self, tensors: Sequence[torch.Tensor]) -> list[Any]:
        """The leading sizes of the arguments that have them."""
        for parameter, tensor in zip(self.inputs, tensors, strict=False):
            if parameter.leading:
                return list(tensor.shape[: tensor.dim() - len(parameter.sizes) + 1])
        return []

    def _size(self, source: Sequence[int], tensors: Sequence[torch.Tensor]) -> Any:
        number, dim = source
        tensor, parameter = tensors[number], self.inputs[number]
        if not parameter.leading:
            return tensor.shape[dim]
        extra = tensor.dim() - len(parameter.sizes)
        if dim > 0:
            return tensor.shape[dim + extra]
        rows = 1
        for n in tensor.shape[: extra + 1]:
            rows = rows * n
        return rows


def _dense(sizes: Sequence[Any], order: Sequence[int], step: Any = 1) -> list[Any]:
    strides: list[Any] = [1] * len(sizes)
    for dim in reversed(order):
        strides[dim] = step
        size = sizes[dim]
        step = step * (max(size, 1) if isinstance(size, int) else size)
    return strides


@functools.cache
def form_of(key: int) -> Form:
    """The form of a key. ArgumentError: no chain of this process has it."""
    row = json.loads(text(lib.ctn_torch_describe, key))
    inputs = tuple(
        Input(
            p["name"],
            torch.uint8 if p["bytes"] else DTYPES[p["dtype"]],
            tuple(p["sizes"]),
            tuple(p["strides"]),
            p["leading"],
            p["overwritten_by"],
            p["bytes"],
        )
        for p in row["inputs"]
    )
    outputs = tuple(
        Output(DTYPES[o["dtype"]], tuple(o["sizes"]), tuple(o["strides"]), tuple(o["sources"]), tuple(o["order"]),
               o["leading"], o["in_place"])
        for o in row["outputs"]
    )  # fmt: skip
    symbol = tuple(row["symbol"]) if "symbol" in row else None
    return Form(row["key"], row["name"], row["exact"], row["allow_pdl"], row["text"], row["scalars"], symbol, inputs,
                outputs)  # fmt: skip


def add(chain: Chain, exact: bool = True, pdl: bool = False) -> Form:
    """Makes a chain known to the operators. `exact`: tensors must have its sizes and strides; else these are examples,
    and a first dimension with the chain's symbol takes all leading dimensions of its tensor. `pdl`: calls of its key
    may start before the stream's previous kernel has ended; no kernel that may still run then writes a weight."""
    for operand in instance(chain, Chain, "the chain").operands:
        if operand.dtype.name not in DTYPES and not operand.is_bytes:
            raise ArgumentError(
                f"'{operand.name}' is {operand.dtype}: operators of torch take {', '.join(DTYPES)}, i4 and u4"
            )
    layouts = (0 if flag(exact, "exact") else 1) + (2 if flag(pdl, "pdl") else 0)  # of ctn_torch_layouts
    return form_of(result(ctypes.c_int64, lib.ctn_torch_add_chain, chain._handle.pointer, layouts))


def report() -> list[dict[str, Any]]:
    """What the operators have been compiled for: key, place, device, symbol and text of each chain."""
    return json.loads(text(lib.ctn_torch_report))


def add_pack(pack: Any) -> int:
    """Makes the chains of a `catenary.Pack`, or of its file, known, and takes their kernels from it. Returns how many
    there are."""
    from catenary.engine import Engine
    from catenary.pack import Pack

    pack = pack if isinstance(pack, Pack) else Pack(pack)
    use_engine(Engine(packs=[pack]))
    return result(ctypes.c_size_t, lib.ctn_torch_add_pack, pack._handle.pointer)


_engine: list[Any] = []


def use_engine(engine: Any) -> None:
    """The `catenary.Engine` that the operators compile with from now on; None: one with default options."""
    from catenary.engine import Engine

    handle = None
    if instance_or_none(engine, Engine, "engine") is not None:
        handle, _ = engine._on_device(None) if not torch.cuda.is_available() else engine._on_device(0)
    _engine.append(engine)  # a call of another thread may still use the one before
    check(lib.ctn_torch_use_engine(handle.pointer if handle else None))


def set_pdl(allow: bool) -> None:
    """Whether the kernels of all operators may start, and read weights, before the stream's previous kernel has ended
    (programmatic dependent launch). That kernel must not write a weight: an optimiser's step may be one."""
    check(lib.ctn_torch_set_pdl(int(flag(allow, "allow"))))


def set_host(host: str) -> None:
    """What computes CPU tensors: "reference", in float64, or "simulator", which runs the kernels."""
    places = {"reference": 0, "simulator": 1}
    if not isinstance(host, str) or host not in places:
        raise ArgumentError(f"host is {shown(host)}: use 'reference' or 'simulator'")
    if host == "simulator":
        from catenary.device import use_simulator

        use_simulator()
    check(lib.ctn_torch_set_host(places[host]))


# Not is_compiling(): in an export without dynamo, tensors are of a class that direct calls do not take.
_is_dynamo_compiling = torch.compiler.is_dynamo_compiling
in_functorch = getattr(torch._C, "_are_functorch_transforms_active", lambda: False)
PLAIN = (torch.Tensor, torch.nn.Parameter)


def is_distributed(tensors: Sequence[Any]) -> bool:
    """Whether a tensor is a DTensor; the operators have rules for these from then on."""
    module = sys.modules.get("torch.distributed.tensor")
    if module is None or not any(isinstance(tensor, module.DTensor) for tensor in tensors):
        return False
    import catenary.torch.sharding_rules  # noqa: F401

    return True


def run(form: Form, inputs: Sequence[torch.Tensor], scalars: Sequence[float] = (),
        function: Any = None) -> tuple[torch.Tensor, ...]:  # fmt: skip
    """The outputs of a form for `inputs`, by the operator of their number; for exact sizes on DTensors, each process
    by the chain of its parts. `function`: the ChainFunction of the form, for gradients by transforms of functorch."""
    count = len(form.outputs)
    if form.exact and any(type(tensor) not in PLAIN for tensor in inputs) and is_distributed(inputs):
        from catenary.torch.sharding_rules import run_sharded

        return run_sharded(form, inputs, None, scalars)
    if not _is_dynamo_compiling():
        outputs = _direct(form.key, tuple(inputs), tuple(scalars)) if count <= MOST_OUTPUTS else None
        if outputs is not None:
            return outputs if count > 1 else (outputs,)
        if in_functorch():
            from catenary.torch.transforms import call

            return call(form, function, inputs, scalars)
        refuse_tangents(form.name, inputs)
    return dispatch(form, inputs, scalars)


def dispatch(form: Form, inputs: Sequence[torch.Tensor], scalars: Sequence[float]) -> tuple[torch.Tensor, ...]:
    """`run` by torch's dispatcher."""
    count = len(form.outputs)
    if count == 1:
        return (_run[1](list(inputs), form.key, scalars),)
    if count <= MOST_OUTPUTS:
        return _run[count](list(inputs), form.key, scalars)
    outs = [empty(form, i, inputs) for i in range(count)]
    run_out(form, inputs, outs, scalars)
    return tuple(outs)


def run_one(key: int, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """The output of a form with one output and no scalars."""
    if _is_dynamo_compiling():
        return _run[1](tensors, key)
    output = _direct(key, tuple(tensors))
    return output if output is not None else dispatch_one(key, tensors)


def dispatch_one(key: int, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """`run_one` where the direct call is not made."""
    if not in_functorch():  # else levels.py does
        refuse_tangents(form_of(key).name, tensors)
    return _run1(tensors, key)


def has_tangents() -> bool:
    """Whether tensors can have tangents now: a level of torch.autograd.forward_ad or of jvp is active."""
    return getattr(forward_ad, "_current_level", -1) >= 0


def without_gradients(arguments: Sequence[Any]) -> Sequence[Any]:
    """The arguments of an autograd.Function in transforms under torch.no_grad(), which for torch's operations is of
    all levels: a Function turns gradients on for the outer ones."""
    if has_tangents():  # they would be lost here, and without an error
        return arguments
    return [each.detach() if isinstance(each, torch.Tensor) else each for each in arguments]


def refuse_tangents(name: str, tensors: Sequence[torch.Tensor]) -> None:
    """no_tangents() if a tensor has a tangent of torch.autograd.forward_ad, which the dispatcher would drop."""
    if has_tangents() and any(forward_ad.unpack_dual(tensor).tangent is not None for tensor in tensors):
        raise no_tangents(name)


def no_tangents(name: str) -> ArgumentError:
    """The error of forward mode."""
    return ArgumentError(
        f"a tensor of chain '{name}' has a forward-mode tangent (jvp, jacfwd, hessian, linearize), and chains have "
        "gradients in reverse mode only: use torch.func.vjp, grad or jacrev"
    )


def no_gradient(name: str) -> ArgumentError:
    """The error of a gradient of an operator."""
    return ArgumentError(
        f"chain '{name}' is called as an operator, which has no gradient: call the layer, or catenary.torch.chain, or "
        "detach its arguments"
    )


def run_out(form: Form, inputs: Sequence[torch.Tensor], outs: Sequence[torch.Tensor],
            scalars: Sequence[float] = ()) -> None:  # fmt: skip
    """Writes outputs of the caller. `inputs` has no parameter that an output overwrites. DTensors: each process writes
    its parts, whose placements are those of `outs`."""
    try:
        tensors = [*inputs, *outs]
        if any(type(tensor) not in PLAIN for tensor in tensors) and is_distributed(tensors):
            from catenary.torch.sharding_rules import run_sharded

            run_sharded(form, inputs, outs, scalars)
            _count_versions(outs)  # of the wrappers
        elif _is_dynamo_compiling():
            torch.ops.catenary.run_out.default(list(inputs), list(outs), form.key, list(scalars))
        else:
            write(inputs, outs, form.key, scalars)
    except Exception:
        refuse_kinds(run_out, locals())
        instance(form, Form, "form")
        raise


def is_unsupported(error: Exception) -> bool:
    """Whether a call failed since no kernel supports its chain: the library's operators raise a RuntimeError that ends
    with the code."""
    return isinstance(error, UnsupportedError) or str(error).endswith("[catenary unsupported]")


def write(inputs: Sequence[torch.Tensor], outs: Sequence[torch.Tensor], key: int, scalars: Sequence[float]) -> None:
    """`run_out` of tensors that are no DTensors."""
    if _direct(key, tuple(inputs), tuple(scalars), tuple(outs)) is not None:
        _count_versions(outs)
    else:
        if not in_functorch():  # else levels.py does
            name, tensors = form_of(key).name, [*inputs, *outs]
            refuse_tangents(name, tensors)
            if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
                raise no_gradient(name)
        torch.ops.catenary.run_out.default(list(inputs), list(outs), key, list(scalars))


def empty(form: Form, index: int, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Memory for an output, as the operators allocate it."""
    sizes, strides = form.layout(index, tensors)
    return tensors[0].new_empty_strided(sizes, strides, dtype=form.outputs[index].dtype)


def has_strides(tensor: torch.Tensor, strides: Sequence[int]) -> bool:
    """Whether a tensor has these strides, but for dimensions with at most one index."""
    return all(n <= 1 or a == b for n, a, b in zip(tensor.shape, tensor.stride(), strides, strict=True))


def laid_out(tensor: torch.Tensor, strides: Sequence[int]) -> torch.Tensor:
    """The tensor, copied where its strides are others."""
    return tensor if has_strides(tensor, strides) else tensor.new_empty_strided(tensor.shape, strides).copy_(tensor)


def _fake(count: int) -> Any:
    def fake(inputs: list[torch.Tensor], key: int, scalars: Sequence[float] = (), gradients: int = 0) -> Any:
        form = form_of(key)
        check_outputs(form, count)
        _check_types(form, form.arguments(inputs))
        outputs = tuple(empty(form, i, inputs) for i in range(count))
        return outputs[0] if count == 1 else outputs

    return fake


def check_outputs(form: Form, count: int) -> None:
    """ArgumentError unless run1 to run4 of this number return the outputs."""
    if form.in_place:
        raise ArgumentError(f"chain '{form.name}' overwrites inputs: call run_out, with these as outputs")
    if len(form.outputs) != count:
        raise ArgumentError(
            f"chain '{form.name}' has {len(form.outputs)} outputs, and run{count} returns {count}: call "
            f"run{len(form.outputs)}, or run_out"
        )


def _fake_out(inputs: list[torch.Tensor], outs: list[torch.Tensor], key: int, scalars: Sequence[float] = ()) -> None:
    form = form_of(key)
    _check_types(form, form.arguments(inputs, outs))


def _check_types(form: Form, tensors: Sequence[torch.Tensor]) -> None:
    if len(tensors) != len(form.inputs):
        raise ArgumentError(f"chain '{form.name}' takes {len(form.inputs)} tensors, got {len(tensors)}")
    if len({tensor.device.type == "meta" for tensor in tensors}) > 1:  # nothing would compute the result
        raise ArgumentError(f"chain '{form.name}' has tensors on the meta device and on others: load the weights")
    for parameter, tensor in zip(form.inputs, tensors, strict=False):
        if parameter.bytes:
            _check_bytes(parameter, tensor)
            continue
        if tensor.dtype != parameter.dtype:
            raise ArgumentError(f"'{parameter.name}' is {tensor.dtype}, and the chain takes {parameter.dtype}")
        rank = len(parameter.sizes)
        if tensor.dim() < rank or (tensor.dim() > rank and not parameter.leading):
            raise ArgumentError(f"'{parameter.name}' has {tensor.dim()} dimensions, and the chain takes {rank}")


def _check_bytes(parameter: Input, tensor: torch.Tensor) -> None:
    if tensor.dtype not in BYTES or tuple(tensor.shape) != parameter.sizes:
        raise ArgumentError(
            f"'{parameter.name}' is {tensor.dtype} of sizes {list(tensor.shape)}, and the chain takes bytes: pass "
            f"uint8 of sizes {list(parameter.sizes)}"
        )


def _libtorch(name: str) -> bytes | None:
    path = Path(torch.__file__).parent / "lib" / name
    return os.fsencode(path) if path.exists() else None


def _register_shim() -> bool:
    if os.environ.get("CATENARY_TORCH_OPERATORS") == "python":
        return False
    options = _native.TorchOptions(libtorch_cpu=_libtorch("libtorch_cpu.so"))
    if torch.version.cuda is not None:
        options.libtorch_cuda = _libtorch("libtorch_cuda.so")
    try:
        check(lib.ctn_torch_register(ctypes.byref(options)))
    except Error as error:
        if error.code not in ("unsupported", "invalid_argument"):
            raise
        return False
    return True


# autograd refuses a backward that reads a saved tensor of another version.
_count_versions = torch._C._increment_version


def _register() -> str:
    tags = [
        getattr(torch.Tag, name) for name in ("pt2_compliant_tag", "needs_exact_strides") if hasattr(torch.Tag, name)
    ]
    for schema in SCHEMAS:
        _library.define(schema, tags=tuple(tags))
        name = schema.split("(")[0]
        fake = _fake_out if name == "run_out" else _fake(int(name[-1]))
        torch.library.register_fake(f"catenary::{name}", fake, lib=_library)
    if _register_shim():
        return "shim"
    from catenary.torch import fallback

    for schema in SCHEMAS:
        name = schema.split("(")[0]
        for key in ("CPU", "CUDA"):
            _library.impl(name, fallback.run_out if name == "run_out" else fallback.run, key)
    _library.impl("run_out", fallback.counting_run_out, "ADInplaceOrView", with_keyset=True)
    return "python"


_library = torch.library.Library("catenary", "DEF")
IMPLEMENTATION = _register()
_run = {n: getattr(torch.ops.catenary, f"run{n}").default for n in _RESULTS}
_run1 = _run[1]._op  # without the Python of OpOverload.__call__
_direct = direct.make() if IMPLEMENTATION == "shim" else direct.none
train = {n: getattr(torch.ops.catenary, f"train{n}").default for n in _RESULTS}
