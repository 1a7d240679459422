# SPDX-License-Identifier: Apache-2.0
"""A chain on a device: calling it with arrays. Allocates outputs and the workspace, copies host arrays, launches."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import operator
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from catenary import _native
from catenary._native import lib
from catenary.arguments import flag, integer, shown
from catenary.arrays import ANY_DEVICE, View, empty, view
from catenary.chain import Chain
from catenary.compiled import Compiled, Kernel, Plan
from catenary.device import (
    LEGACY_STREAM,
    PER_THREAD_STREAM,
    Array,
    Memory,
    Stream,
    Token,
    contiguous,
    is_simulator,
    span,
    stream_key,
    this_thread,
)
from catenary.errors import ArgumentError, ArgumentTypeError, Handle, check, copied, result
from catenary.operand import Operand
from catenary.signature import Signature


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
        /,
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
            stream: a pointer, torch's, cupy's or catenary's stream; it must live until its work has ended. None: torch's
                current stream if a tensor of it is on the device; else a stream of this library, and the call waits.
            workspace: an array on the device of at least `workspace_bytes` bytes, aligned to 256; None: allocated.
            allow_pdl: the first kernel may start while the stream's previous kernel still runs. Only if that kernel
                writes no weight of this chain.
            disable_pdl: no kernel starts before the previous one has ended.

        Returns the output, or a tuple of several. Raises ArgumentError before anything is launched.
        """
        allow_pdl, disable_pdl = flag(allow_pdl, "allow_pdl"), flag(disable_pdl, "disable_pdl")
        tensors, scalars = self._signature.bind(arguments, named)
        call = _Call(self, tensors, self._signature.given_outputs(out), stream)
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
        size = integer(symbol, "symbol")
        flags = flag(allow_pdl, "allow_pdl"), flag(disable_pdl, "disable_pdl")
        try:
            stream, workspace, *tensors = map(_address, (stream, workspace, *tensors))
            self._launch(stream, tensors, scalars, size, workspace, *flags)
        except TypeError as error:  # before anything is launched
            raise ArgumentTypeError(f"a launch takes addresses as int and scalars as float: {error}") from None

    def _workspace(self, stream: int) -> _Workspace:
        key = (stream, threading.get_ident() if stream == PER_THREAD_STREAM else 0)
        with self._workspaces_lock:
            if key not in self._workspaces:
                self._workspaces[key] = _Workspace(self.device, self.workspace_bytes)
            found = self._workspaces[key]
        if stream == PER_THREAD_STREAM:
            found.take(this_thread())
        return found

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

    def __reduce__(self):
        raise copied()

    def __repr__(self) -> str:
        return f"<catenary.Executable '{self._signature.name}' on device {self.device}>"


class _Workspace:
    """The workspace of all launches on a stream. A thread that launches holds `turn`: the kernels of two launches would
    else mix on the stream."""

    __slots__ = ("memory", "thread", "turn")

    def __init__(self, device: int, bytes: int):
        self.memory = Memory(device, bytes)
        self.turn = threading.Lock()
        self.thread: weakref.ref[Token] | None = None

    def take(self, thread: Token) -> None:
        """For launches on the default stream of a thread. Another thread had its number and has ended, and its work may
        still run."""
        if self.thread is not None and self.thread() is not thread:
            self.memory.wait()
        self.thread = weakref.ref(thread)


class _Call:
    """One call: from arrays to addresses, the launch, and back."""

    def __init__(self, executable: Executable, tensors: Sequence[Any], out: list[Any], stream: Any):
        self.executable = executable
        self.signature = signature = executable._signature
        self.out = out
        self.stream_given = stream is not None
        self.stream, self.waits = self._choose_stream(stream, [*tensors, *out])
        self.views = [
            view(t, f"argument '{p.name}'", self.stream) for p, t in zip(signature.tensors, tensors, strict=True)
        ]
        self.results: list[View | None] = [
            None if o is None else view(o, f"output '{p.name}'", self.stream)
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
        self.ended: set[int] = set()  # streams of producers that were waited for
        self.turn: Any = contextlib.nullcontext()
        # Host arrays, their copy, and the operand where it is copied back.
        self.staged: list[tuple[View, Memory, Operand | None]] = []

    def _choose_stream(self, given: Any, arrays: list[Any]) -> tuple[int, bool]:
        """The stream of the launch, and whether the call waits for it."""
        pointer = stream_pointer(given)
        if pointer is not None:
            return pointer, False
        torch = _torch()
        if torch is not None and any(isinstance(a, torch.Tensor) and a.is_cuda for a in arrays):
            return torch._C._cuda_getCurrentRawStream(self.executable.device), False
        return own_stream(self.executable.device).pointer, True

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
        stream = self.stream
        for found in [*self.views, *self.results]:
            if found is not None and found.producer is not None:
                self._wait_for_producer(found, stream)
        if torch is not None and self.stream_given:
            # Outputs and workspace then belong to the stream that uses them.
            with torch.cuda.stream(torch.cuda.ExternalStream(stream, device=self.executable.device)):
                addresses, space = self._addresses(), self._workspace(workspace, stream, torch)
        else:
            addresses, space = self._addresses(), self._workspace(workspace, stream, torch)
        if not self.waits:
            self.executable._keep()
        with self.turn:
            self.executable._launch(stream, addresses, scalars, self.size, space, allow_pdl, disable_pdl)
        self._count_versions()
        if self.waits or self.host:
            check(lib.ctn_stream_synchronize(self.executable.device, stream))
        else:
            for written in self._written():
                if isinstance(written, Array):
                    written._written_on = stream_key(stream)
        for host, copy, back in self.staged:
            if back is not None and copy.bytes:
                copy.download(host.address, copy.bytes)
        return self.out[0] if len(self.out) == 1 else tuple(self.out)

    def _count_versions(self) -> None:
        """For autograd of torch, which refuses a backward that reads a saved tensor after it was overwritten."""
        torch = _torch()
        if torch is None:
            return
        given = [found.owner for found in self.results if found is not None] + self._overwritten()
        tensors = [array for array in given if isinstance(array, torch.Tensor)]
        if tensors:
            torch.autograd.graph.increment_version(tensors)

    def _overwritten(self) -> list[Any]:
        """Inputs that outputs are in place of."""
        signature = self.signature
        places = [signature.numbers.index(o.in_place) for o in signature.outputs if o.in_place is not None]
        return [self.views[place].owner for place in places]

    def _written(self) -> list[Any]:
        """All arrays that the launch writes."""
        return [*self.out, *self._overwritten()]

    def _wait_for_producer(self, found: View, stream: int) -> None:
        """Waits for the stream of an array's producer unless the launch is on it."""
        if found.producer not in (None, stream or LEGACY_STREAM, *self.ended):
            check(lib.ctn_stream_synchronize(self.executable.device, found.producer))
            self.ended.add(found.producer)

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
                made = view(self.out[i], f"output '{operand.name}'", self.stream)
            result.append(self._place(operand, made, back=True))
        self._check_overlap()
        return result

    def _check_overlap(self) -> None:
        """The launch refuses arrays on the device that overlap; of host arrays it sees the copies."""
        written = sorted(
            (host.address, host.address + copy.bytes, back.name)
            for host, copy, back in self.staged
            if back is not None and copy.bytes
        )
        for (_, end, first), (begin, _, second) in itertools.pairwise(written):
            if begin < end:
                raise ArgumentError(
                    f"'{second}', which is written, overlaps '{first}' in memory: give it memory of its own"
                )

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
        self.staged.append((found, copy, operand if back else None))
        return copy.address

    def _workspace(self, given: Any, stream: int, torch: Any) -> int:
        need = self.executable.workspace_bytes
        if need == 0:
            return 0
        if given is not None:
            space = view(given, "workspace", stream)
            self._wait_for_producer(space, stream)
            size = span(space.shape, space.strides) * _itemsize(given)
            if space.device not in (self.executable.device, ANY_DEVICE) or size < need:
                place = "the host" if space.device is None else f"device {space.device}"
                raise ArgumentError(
                    f"workspace has {size} bytes on {place}: pass {need} bytes on device {self.executable.device}"
                )
            return space.address
        if torch is not None:
            memory = torch.empty(need, dtype=torch.uint8, device=torch.device("cuda", self.executable.device))
            self.staging = memory  # freed after the launch: the allocator orders its next use on the stream
            return memory.data_ptr()
        kept = self.executable._workspace(stream)
        self.turn = kept.turn
        return kept.memory.address


def _torch() -> Any:
    """torch, if it is loaded; None while a thread imports it."""
    torch = sys.modules.get("torch")
    return torch if hasattr(torch, "Tensor") else None


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


def _address(value: Any) -> int:
    """An address for ctypes, which would drop its upper bits; None is null."""
    if value is None:
        return 0
    if isinstance(value, bool):
        raise TypeError(f"{value} is a bool")
    number = operator.index(value)
    if not 0 <= number <= _LAST_ADDRESS:
        raise ArgumentError(f"an address is {shown(number)}: pass an integer from 0 to {_LAST_ADDRESS}")
    return number


_LAST_ADDRESS = 2**64 - 1


def stream_pointer(stream: Any) -> int | None:
    """The CUstream of a pointer or of a stream of torch, cupy, CUDA's bindings or this library."""
    if stream is None:
        return None
    if hasattr(stream, "__index__"):
        return integer(stream, "stream", 0, _LAST_ADDRESS)
    for attribute in ("cuda_stream", "ptr"):
        found = getattr(stream, attribute, None)
        if isinstance(found, int):
            return found
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is None:
        raise ArgumentTypeError(
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
