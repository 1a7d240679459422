# SPDX-License-Identifier: Apache-2.0
"""A chain on a device: calling it with arrays. Checks arguments, allocates outputs and the workspace, launches."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from catenary import _native
from catenary._native import lib
from catenary.arrays import ANY_DEVICE, View, accepts, empty, is_bytes, view
from catenary.chain import Chain
from catenary.compiled import Compiled, Kernel, Plan
from catenary.device import Array, Memory, Stream, contiguous, is_simulator, span
from catenary.errors import ArgumentError, Handle, check, result
from catenary.operand import Operand, Role

MOST_SIZES = 1024  # distinct layouts of arguments that a chain remembers
PER_THREAD_STREAM = 2  # CU_STREAM_PER_THREAD: one address, a stream of each thread


class Signature:
    """The operands of a chain, and how arguments of a call are bound to them."""

    def __init__(self, chain: Chain):
        self.name = chain.name
        self.parameters = chain.parameters
        self.outputs = chain.outputs
        self.symbol = chain.symbol_range
        self.numbers = [i for i, p in enumerate(self.parameters) if p.role != Role.scalar]
        self.tensors = [self.parameters[i] for i in self.numbers]
        self._names = {p.name: i for i, p in enumerate(self.parameters)}
        self._only_tensors = len(self.tensors) == len(self.parameters)
        self._sizes: dict[Any, int] = {}  # by what size() has accepted

    def bind(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> tuple[list[Any], list[float]]:
        """The tensors and the scalars of a call, by position in the order of the parameters, or by name."""
        count = len(self.parameters)
        if self._only_tensors and len(arguments) == count and not named:
            return list(arguments), []
        if len(arguments) > count or (not named and len(arguments) != count):
            raise ArgumentError(
                f"chain '{self.name}' takes {count} arguments, got {len(arguments)}: pass {', '.join(self._names)}"
            )
        values = list(arguments) + [None] * (count - len(arguments))
        for name, value in named.items():
            index = self._names.get(name)
            if index is None or index < len(arguments):
                why = "twice" if index is not None else "and no parameter has this name"
                raise ArgumentError(f"chain '{self.name}' is called with '{name}' {why}: pass {', '.join(self._names)}")
            values[index] = value
        missing = [p.name for p, value in zip(self.parameters, values, strict=True) if value is None]
        if missing:
            raise ArgumentError(f"chain '{self.name}' is called without '{missing[0]}': pass {', '.join(self._names)}")
        tensors, scalars = [], []
        for parameter, value in zip(self.parameters, values, strict=True):
            if parameter.role == Role.scalar:
                scalars.append(self._scalar(parameter, value))
            else:
                tensors.append(value)
        return tensors, scalars

    @staticmethod
    def _scalar(parameter: Operand, value: Any) -> float:
        try:
            return float(value)
        except (TypeError, ValueError):
            raise ArgumentError(f"argument '{parameter.name}' is {type(value).__name__}: pass a float") from None

    def size(self, views: Sequence[View], outputs: Sequence[View | None]) -> int:
        """Checks dtype, shape and strides of all tensors; returns the symbolic size, 0 without a symbol."""
        key = tuple((v.dtype_name, v.shape, v.strides) if v is not None else None for v in (*views, *outputs))
        size = self._sizes.get(key)
        if size is None:
            size = self._checked_size(views, outputs)
            if len(self._sizes) >= MOST_SIZES:
                self._sizes.clear()
            self._sizes[key] = size
        return size

    def _checked_size(self, views: Sequence[View], outputs: Sequence[View | None]) -> int:
        size = None
        for operand, found in zip([*self.tensors, *self.outputs], [*views, *outputs], strict=True):
            if found is not None:
                size = self._check(operand, found, size)
        if self.symbol is None:
            return 0
        if size is None:
            raise ArgumentError(f"no argument of chain '{self.name}' has the size {self.symbol.name}: pass out=")
        if not self.symbol.lo <= size <= self.symbol.hi:
            raise ArgumentError(
                f"the size {self.symbol.name} is {size}: chain '{self.name}' takes {self.symbol.lo} to {self.symbol.hi}"
            )
        return size

    def _check(self, operand: Operand, found: View, size: int | None) -> int | None:
        who = f"{'output' if operand.is_output else 'argument'} '{operand.name}'"
        if operand.is_bytes:
            self._check_bytes(who, operand, found)
            return size
        if not accepts(found, operand.dtype):
            raise ArgumentError(
                f"{who} has dtype {found.dtype_name}, and the chain takes {operand.dtype}: convert it, "
                "or declare its dtype in the chain"
            )
        if len(found.shape) != len(operand.shape):
            raise ArgumentError(
                f"{who} has shape {list(found.shape)}, and the chain takes {self._shape(operand)}: pass "
                f"{len(operand.shape)} dimensions"
            )
        for got, want in zip(found.shape, operand.shape, strict=True):
            if want == _native.SYMBOL:
                size = got if size is None else size
                want = size
            if got != want:
                at = f" with {self.symbol.name} = {size}" if self.symbol and size is not None else ""
                raise ArgumentError(
                    f"{who} has shape {list(found.shape)}, and the chain takes {self._shape(operand)}{at}"
                )
        for n, got, want in zip(found.shape, found.strides, operand.strides, strict=True):
            # The stride of a dimension of size 1 is never used, nor any of an empty tensor.
            if n > 1 and got != want and 0 not in found.shape:
                raise ArgumentError(
                    f"{who} has strides {list(found.strides)}, and the chain takes "
                    f"{list(operand.strides)} elements: make it contiguous, or declare its strides in "
                    "the chain"
                )
        return size

    @staticmethod
    def _check_bytes(who: str, operand: Operand, found: View) -> None:
        shape = operand.bytes_shape()
        kind = "packed" if operand.packed else "two elements a byte"
        source = ", as catenary.repack returns it" if operand.packed else ""
        if not is_bytes(found) or found.shape != shape:
            raise ArgumentError(
                f"{who} has dtype {found.dtype_name} and shape {list(found.shape)}, and the chain takes "
                f"{operand.dtype}, {kind}: pass uint8 of shape {list(shape)}{source}"
            )
        strides = operand.bytes_strides()
        if any(n > 1 and got != want for n, got, want in zip(shape, found.strides, strides, strict=True)):
            raise ArgumentError(
                f"{who} has strides {list(found.strides)}, and the chain takes {list(strides)} bytes: make it "
                "contiguous, or declare its strides in the chain"
            )

    def _shape(self, operand: Operand) -> str:
        name = self.symbol.name if self.symbol else ""
        return "[" + ", ".join(name if n == _native.SYMBOL else str(n) for n in operand.shape) + "]"

    def given_outputs(self, out: Any) -> list[Any]:
        """One entry per output: the caller's array, or None."""
        count = len(self.outputs)
        if out is None:
            return [None] * count
        given = list(out) if isinstance(out, (tuple, list)) else [out]
        if len(given) != count:
            raise ArgumentError(
                f"chain '{self.name}' has {count} outputs, and out has {len(given)}: pass one each, "
                "None for one to be allocated"
            )
        return given


class Executable:
    """A compiled chain on one device. Thread-safe. Made by `Engine.prepare` and `Engine.load`.

    After a launch on a stream of the caller the kernels stay loaded until the process ends, and so do the workspaces of
    this object, since the launch, or a graph that captured it, may outlive this object.
    """

    _kept: ClassVar[dict[Handle, Any]] = {}

    def __init__(self, device: int, *call: Any):
        self._handle = Handle(lib.ctn_executable_destroy, *call)
        self.device = device
        self.compiled = Compiled(lib.ctn_executable_compiled, self._handle.pointer)
        self.workspace_bytes: int = result(ctypes.c_int64, lib.ctn_executable_workspace_bytes, self._handle.pointer)
        """Device memory that a launch needs beside its tensors, for every size of the symbol."""
        self._signature = Signature(self.compiled.chain)
        self._workspaces: dict[tuple[int, int], _Workspace] = {}
        self._workspaces_lock = threading.Lock()
        self._simulated = is_simulator()  # fixed once something is loaded

    @property
    def chain(self) -> Chain:
        """The chain that was compiled."""
        return self.compiled.chain

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels of all buckets of the symbol."""
        return self.compiled.kernels

    def explain(self) -> Plan:
        """The plan that runs."""
        return self.compiled.explain()

    def __call__(
        self,
        *arguments: Any,
        out: Any = None,
        stream: Any = None,
        workspace: Any = None,
        allow_pdl: bool = False,
        disable_pdl: bool = False,
        **named: Any,
    ) -> Any:
        """Launches the chain on arrays and returns its outputs.

        Args:
            arguments, named: the chain's parameters in order or by name: arrays of the declared dtype, shape and
                strides, a float for a scalar. Arrays on the device are read where they are. Arrays of the host are
                copied to the device and the call waits; they may be mixed with `Array`s only.
            out: an array for the output, or one per output; None: they are allocated by torch for torch's tensors,
                as numpy arrays for host arrays, else as `Array`. An output in place is its input.
            stream: a pointer, torch's, cupy's or catenary's stream. None: torch's current stream for its tensors; for
                other arrays a stream of this library, and the call waits for it.
            workspace: an array on the device of at least `workspace_bytes` bytes, aligned to 256; None: allocated.
            allow_pdl: the first kernel may start while the stream's previous kernel still runs. Only if that kernel
                writes no weight of this chain.
            disable_pdl: no kernel starts before the previous one has ended.

        Returns the output, or a tuple of several. Raises ArgumentError before anything is launched.
        """
        tensors, scalars = self._signature.bind(arguments, named)
        pointer = stream_pointer(stream)
        call = _Call(self, tensors, self._signature.given_outputs(out), pointer)
        return call.run(scalars, workspace, allow_pdl, disable_pdl)

    def launch(
        self,
        stream: int,
        tensors: Sequence[int],
        scalars: Sequence[float] = (),
        symbol: int = 0,
        workspace: int = 0,
        allow_pdl: bool = False,
        disable_pdl: bool = False,
    ) -> None:
        """Launches on raw addresses, without checks of dtypes and shapes: the C ABI's ctn_executable_launch.

        Args:
            stream: a CUstream. tensors: device addresses of the tensor parameters, then of the outputs.
        """
        self._keep()
        self._launch(stream, tensors, scalars, symbol, workspace, allow_pdl, disable_pdl)

    def _workspace(self, stream: int) -> _Workspace:
        key = (stream, threading.get_ident() if stream == PER_THREAD_STREAM else 0)
        with self._workspaces_lock:
            if key not in self._workspaces:
                self._workspaces[key] = _Workspace(self.device, self.workspace_bytes)
            return self._workspaces[key]

    def _keep(self) -> None:
        self._kept[self._handle] = self._workspaces

    def _launch(
        self,
        stream: int,
        tensors: Sequence[int],
        scalars: Sequence[float],
        symbol: int,
        workspace: int,
        allow_pdl: bool,
        disable_pdl: bool,
    ) -> None:
        args = _native.LaunchArgs(
            tensors=(ctypes.c_void_p * len(tensors))(*tensors),
            num_tensors=len(tensors),
            scalars=(ctypes.c_float * len(scalars))(*scalars),
            num_scalars=len(scalars),
            symbol=symbol,
            workspace=workspace,
            stream=stream,
            allow_pdl=allow_pdl,
            disable_pdl=disable_pdl,
        )
        check(lib.ctn_executable_launch(self._handle.pointer, ctypes.byref(args)))

    def __repr__(self) -> str:
        return f"<catenary.Executable '{self._signature.name}' on device {self.device}>"


class _Workspace:
    """The workspace of all launches on a stream. A thread that launches holds `turn`: the kernels of two launches would
    else mix on the stream."""

    __slots__ = ("memory", "turn")

    def __init__(self, device: int, bytes: int):
        self.memory = Memory(device, bytes)
        self.turn = threading.Lock()


class _Call:
    """One call: from arrays to addresses, the launch, and back."""

    def __init__(self, executable: Executable, tensors: Sequence[Any], out: list[Any], stream: int | None):
        self.executable = executable
        self.signature = signature = executable._signature
        self.out = out
        self.given_stream = stream
        self.views = [view(t, f"argument '{p.name}'", stream) for p, t in zip(signature.tensors, tensors, strict=True)]
        self.results: list[View | None] = [
            None if o is None else view(o, f"output '{p.name}'", stream)
            for p, o in zip(signature.outputs, out, strict=True)
        ]
        self._check_places()
        self._check_writable()
        self.size = signature.size(self.views, self.results)
        first = next(
            (v for v in [*self.views, *self.results] if v is not None and not isinstance(v.owner, Array)), None
        )
        self.library = first.library if first else ""
        self.host = first is not None and not first.on_device
        self.turn: Any = contextlib.nullcontext()
        self.staged: list[tuple[View, Memory, bool]] = []  # host arrays, their copy, whether it is copied back

    def _check_places(self) -> None:
        simulator, device = self.executable._simulated, self.executable.device
        foreign = [v for v in [*self.views, *self.results] if v is not None and not isinstance(v.owner, Array)]
        for found in foreign:
            if found.on_device != foreign[0].on_device:
                raise ArgumentError(
                    "some arguments are on the host and some on a device: move all to one, or make "
                    "catenary.Array of those that stay on the device"
                )
            if found.on_device and simulator:
                raise ArgumentError(
                    f"an argument is on CUDA device {found.device}, and the device of this process is "
                    "the simulator: pass host arrays"
                )
        for place in [*self.views, *self.results]:
            if place is not None and place.on_device and place.device not in (device, ANY_DEVICE):
                raise ArgumentError(
                    f"an argument is on device {place.device}, and the chain was prepared for device "
                    f"{device}: prepare it for that device, or move the argument"
                )

    def _check_writable(self) -> None:
        for operand, found in zip(self.signature.outputs, self.results, strict=True):
            if found is not None and not found.writable:
                raise ArgumentError(
                    f"output '{operand.name}' is read-only: pass an array that may be written, or None for a new one"
                )
            if operand.in_place is None:
                continue
            number = self.signature.numbers.index(operand.in_place)
            if not self.views[number].writable:
                raise ArgumentError(
                    f"argument '{self.signature.tensors[number].name}' is read-only, and an output is in its place: "
                    "pass a copy"
                )

    def run(self, scalars: list[float], workspace: Any, allow_pdl: bool, disable_pdl: bool) -> Any:
        torch = sys.modules.get("torch") if self.library == "torch" and not self.host else None
        stream = self.given_stream
        if stream is None:
            stream = (
                torch._C._cuda_getCurrentRawStream(self.executable.device)
                if torch
                else own_stream(self.executable.device).pointer
            )
            waits = torch is None
        else:
            waits = False
        if torch is not None and self.given_stream is not None:
            # Outputs and workspace then belong to the stream that uses them.
            with torch.cuda.stream(torch.cuda.ExternalStream(stream, device=self.executable.device)):
                addresses, space = self._addresses(), self._workspace(workspace, stream, torch)
        else:
            addresses, space = self._addresses(), self._workspace(workspace, stream, torch)
        if not waits:
            self.executable._keep()
        with self.turn:
            self.executable._launch(stream, addresses, scalars, self.size, space, allow_pdl, disable_pdl)
        if waits or self.host:
            check(lib.ctn_stream_synchronize(self.executable.device, stream))
        for host, copy, back in self.staged:
            if back and copy.bytes:
                copy.download(host.address, copy.bytes)
        return self.out[0] if len(self.out) == 1 else tuple(self.out)

    def _addresses(self) -> list[int]:
        """Device addresses of all tensors; allocates outputs and copies host arrays."""
        overwritten = {p.in_place for p in self.signature.outputs}
        numbers = self.signature.numbers
        addresses = {}
        for number, operand, found in zip(numbers, self.signature.tensors, self.views, strict=True):
            addresses[number] = self._place(operand, found, back=number in overwritten)
        result = list(addresses.values())
        for i, operand in enumerate(self.signature.outputs):
            if operand.in_place is not None:
                source = self.views[numbers.index(operand.in_place)]
                given = self.results[i]
                if given is not None and given.address != source.address:
                    raise ArgumentError(
                        f"output '{operand.name}' is in place of an input: pass that input as out, or None"
                    )
                self.out[i] = source.owner[0] if isinstance(source.owner, tuple) else source.owner
                result.append(addresses[operand.in_place])
                continue
            made = self.results[i]
            if made is None:
                shape = operand.shape_for(self.size)
                self.out[i] = empty(
                    self.library, operand.dtype, shape, operand.strides, None if self.host else self.executable.device
                )
                made = view(self.out[i], f"output '{operand.name}'", self.given_stream)
            result.append(self._place(operand, made, back=True))
        return result

    def _place(self, operand: Operand, found: View, back: bool) -> int:
        """The device address of a tensor; one of the host gets a copy."""
        if found.on_device:
            return found.address
        shape = operand.shape_for(self.size)
        layout = (found.shape, operand.bytes_strides()) if operand.is_bytes else (shape, operand.strides)
        elements = span(*layout)
        copy = Memory(self.executable.device, elements * operand.dtype.itemsize)
        # An output with gaps keeps what the caller has there.
        if copy.bytes and (not operand.is_output or operand.strides != contiguous(shape)):
            copy.upload(found.address, copy.bytes)
        self.staged.append((found, copy, back))
        return copy.address

    def _workspace(self, given: Any, stream: int, torch: Any) -> int:
        need = self.executable.workspace_bytes
        if need == 0:
            return 0
        if given is not None:
            space = view(given, "workspace", stream)
            size = span(space.shape, space.strides) * _itemsize(given)
            if not space.on_device or size < need:
                raise ArgumentError(
                    f"workspace has {size} bytes {'on the device' if space.on_device else 'on the host'}: "
                    f"pass {need} bytes on device {self.executable.device}"
                )
            return space.address
        if torch is not None:
            memory = torch.empty(need, dtype=torch.uint8, device=torch.device("cuda", self.executable.device))
            self.staging = memory  # freed after the launch: the allocator orders its next use on the stream
            return memory.data_ptr()
        kept = self.executable._workspace(stream)
        self.turn = kept.turn
        return kept.memory.address


def _itemsize(array: Any) -> int:
    return array.dtype.itemsize


class _Streams(threading.local):
    """This library's streams of a thread, by device."""

    def __init__(self) -> None:
        self.streams: dict[int, Stream] = {}


_streams = _Streams()


def own_stream(device: int) -> Stream:
    """The stream of this thread for arrays that have none."""
    found = _streams.streams.get(device)
    if found is None:
        found = _streams.streams[device] = Stream(device)
    return found


def stream_pointer(stream: Any) -> int | None:
    """The CUstream of a pointer or of a stream of torch, cupy, CUDA's bindings or this library."""
    if stream is None or isinstance(stream, int):
        return stream
    for attribute in ("cuda_stream", "ptr"):
        found = getattr(stream, attribute, None)
        if isinstance(found, int):
            return found
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is None:
        raise ArgumentError(
            f"stream is {type(stream).__name__}: pass a CUstream's address, or an object with "
            "cuda_stream, ptr or __cuda_stream__"
        )
    return int((protocol() if callable(protocol) else protocol)[1])


def run_reference(chain: Chain, arguments: Sequence[Any], named: Mapping[str, Any], threads: int) -> Any:
    """`Chain.reference`."""
    signature = Signature(chain)
    tensors, scalars = signature.bind(arguments, named)
    views = [view(t, f"argument '{p.name}'") for p, t in zip(signature.tensors, tensors, strict=True)]
    for operand, found in zip(signature.tensors, views, strict=True):
        if found.on_device:
            raise ArgumentError(f"argument '{operand.name}' is on a device: the reference takes host arrays")
    size = signature.size(views, [None] * len(signature.outputs))
    library = views[0].library if views else "numpy"
    outputs = [empty(library, o.dtype, o.shape_for(size), o.strides, None) for o in signature.outputs]
    addresses = [v.address for v in [*views, *(view(o, "output") for o in outputs)]]
    args = _native.ReferenceArgs(
        tensors=(ctypes.c_void_p * len(addresses))(*addresses),
        num_tensors=len(addresses),
        scalars=(ctypes.c_float * len(scalars))(*scalars),
        num_scalars=len(scalars),
        symbol=size,
        threads=threads,
    )
    check(lib.ctn_reference_run(chain._handle.pointer, ctypes.byref(args)))
    return outputs[0] if len(outputs) == 1 else tuple(outputs)
