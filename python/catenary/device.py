# SPDX-License-Identifier: Apache-2.0
"""The process's device, memory on it and streams, for programs without a framework: `Array`, `Stream`.

A launch takes memory of any allocator and streams of any framework; these are optional.
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Sequence
from typing import Any

from catenary import dlpack
from catenary._native import lib
from catenary.arguments import INT32, INT64, counted, integer, integers, shown
from catenary.errors import ArgumentError, DeviceError, Handle, check, copied, result
from catenary.operand import DType


def use_simulator() -> None:
    """Makes the simulator the device of this process, as CATENARY_DEVICE=sim does. ArgumentError: a GPU is in use."""
    check(lib.ctn_device_use_simulator())


def is_simulator() -> bool:
    """Whether the simulator is the device of this process."""
    return bool(result(ctypes.c_int32, lib.ctn_device_is_simulator))


def device_count() -> int:
    """The number of devices that this process sees; 0 without a usable driver."""
    try:
        return result(ctypes.c_int32, lib.ctn_device_count)
    except DeviceError as error:
        if error.code != "driver_missing":
            raise
        return 0


class Stream:
    """A stream of a device, ordered with its default stream. Its kernels run to their end."""

    def __init__(self, device: int = 0):
        self.device = device = integer(device, "device", 0, INT32)
        self._handle = Handle(lambda stream: lib.ctn_stream_destroy(device, stream), lib.ctn_stream_create, device)

    @property
    def pointer(self) -> int:
        """The CUstream."""
        return self._handle.pointer

    def synchronize(self) -> None:
        """Waits for all work of the stream."""
        check(lib.ctn_stream_synchronize(self.device, self.pointer))

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.pointer

    def __reduce__(self):
        raise copied()


LEGACY_STREAM = 1  # CU_STREAM_LEGACY, the same as null
PER_THREAD_STREAM = 2  # CU_STREAM_PER_THREAD: one address, a stream of each thread

StreamKey = tuple[int, object]


class _Thread(threading.local):
    """The token of each thread: the number of a thread that has ended is given again."""

    def __init__(self) -> None:
        self.token = Token()


class Token:
    """The identity of a thread."""


_thread = _Thread()


def this_thread() -> Token:
    """The token of this thread."""
    return _thread.token


def stream_key(stream: int | None) -> StreamKey:
    """Equal for two addresses of one stream."""
    return (stream or LEGACY_STREAM, this_thread() if stream == PER_THREAD_STREAM else None)


class Memory:
    """Device memory, aligned to 256 bytes, freed when it is collected."""

    __slots__ = ("_handle", "address", "bytes", "device")

    def __init__(self, device: int, bytes: int):
        self.device = device
        self.bytes = bytes
        self._handle = None
        self.address = 0
        if bytes:
            self._handle = Handle(
                lambda address: lib.ctn_device_free(device, address), lib.ctn_device_alloc, device, bytes
            )
            self.address = self._handle.pointer

    def upload(self, host: int, bytes: int) -> None:
        """Copies `bytes` bytes from host address `host`; complete on return, for launches on any stream."""
        check(lib.ctn_device_upload(self.device, self.address, host, bytes))

    def download(self, host: int, bytes: int) -> None:
        """Copies `bytes` bytes to host address `host`, after all work of the device."""
        check(lib.ctn_device_download(self.device, host, self.address, bytes))

    def wait(self) -> None:
        """Waits for all work of the device."""
        if self.bytes:
            byte = ctypes.c_char()  # lives until the copy has ended
            self.download(ctypes.addressof(byte), 1)


class Array:
    """A strided tensor on a device: what a launch returns where its arguments have no allocator of their own.

    Other libraries take it by DLPack or __cuda_array_interface__ (a GPU's only); `numpy()` copies it to the host.
    """

    def __init__(self, dtype: Any, shape: Sequence[int], strides: Sequence[int] | None = None, device: int = 0):
        self.dtype = DType.of(dtype)
        if self.dtype.bits < 8:
            raise ArgumentError(f"an Array of {self.dtype} is not possible: keep two elements a byte, as i8")
        self.shape = integers(shape, "the shape")
        self.strides = contiguous(self.shape) if strides is None else integers(strides, "the strides")
        """In elements."""
        _check_layout(self.shape, self.strides)
        self.device = integer(device, "device", 0, INT32)
        bytes = span(self.shape, self.strides) * self.dtype.itemsize
        if bytes > INT64:
            raise ArgumentError(
                f"an Array of {self.dtype} and shape {shown(list(self.shape))} has {bytes} bytes: give sizes and "
                f"strides of at most {INT64} bytes"
            )
        self._memory = Memory(self.device, bytes)
        self._written_on: StreamKey | None = None
        """Where a launch writes it that nothing has waited for."""

    @classmethod
    def of(cls, host: Any, device: int = 0) -> Array:
        """A copy of a host array: numpy's, or anything on the CPU with DLPack. Bytes without sign become i8.

        Strides stay as they are; an array that runs backwards along a dimension becomes contiguous.
        """
        from catenary.arrays import contiguous_host, is_bytes, view

        source = view(host, "the array")
        if source.on_device:
            raise ArgumentError("the array is already on a device: pass it to a launch as it is")
        dtype = DType.i8 if is_bytes(source) else source.dtype
        if dtype is None:
            raise ArgumentError(
                f"the array has dtype {source.dtype_name}: use bf16, f16, f32, i32, e4m3, e5m2 or bytes"
            )
        if any(n > 1 and stride < 0 for n, stride in zip(source.shape, source.strides, strict=True)):
            source = contiguous_host(source, dtype)
        array = cls(dtype, source.shape, source.strides, device)
        if array._memory.bytes:
            array._memory.upload(source.address, array._memory.bytes)
        return array

    @property
    def address(self) -> int:
        """Device address of the first element."""
        return self._memory.address

    def numpy(self) -> Any:
        """A copy as a numpy array: bf16 and fp8 of ml_dtypes if that is installed, else as uint16 and uint8."""
        from catenary.arrays import empty_numpy, view

        host = empty_numpy(self.dtype, self.shape, self.strides)
        if self._memory.bytes:
            self._memory.download(view(host, "").address, self._memory.bytes)
            self._written_on = None  # the copy waits for all work
        return host

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """`numpy()`, for functions of numpy."""
        if copy is False:
            raise ArgumentError("copy is False, and the array is on a device: leave it out, since numpy gets a copy")
        host = self.numpy()
        if dtype is None or host.dtype == dtype:
            return host
        if host.dtype.kind == "u":
            raise ArgumentError(
                f"an Array of {self.dtype} is converted, and numpy has its bits only: install ml_dtypes"
            )
        return host.astype(dtype)

    def __dlpack_device__(self) -> tuple[int, int]:
        self._need_gpu()
        return dlpack.CUDA, self.device

    def __dlpack__(self, *, stream: Any = None, **_: Any) -> Any:
        """A DLPack capsule. Waits for the launch that writes the array, unless that is on `stream`; -1: never."""
        self._need_gpu()
        if stream != -1:
            self._wait(stream)
        return dlpack.export(self, (dlpack.CUDA, self.device))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        kinds = {DType.f16: "<f2", DType.f32: "<f4", DType.i32: "<i4", DType.i8: "|i1"}
        if is_simulator() or self.dtype not in kinds:
            raise AttributeError(
                "__cuda_array_interface__ is for f16, f32, i32 and i8 on a GPU: use __dlpack__ or numpy()"
            )
        # No "stream": the array's may be gone by the time a consumer waits for it.
        if self._written_on is not None:
            self._memory.wait()
            self._written_on = None
        return {
            "shape": self.shape,
            "typestr": kinds[self.dtype],
            "data": (self.address, False),
            "version": 3,
            "strides": tuple(n * self.dtype.itemsize for n in self.strides),
        }

    def _wait(self, stream: int | None = None) -> None:
        """Waits for the launch that writes the array, unless that is on `stream`; None: the legacy default stream."""
        if self._written_on not in (None, stream_key(stream)):
            self._memory.wait()
            self._written_on = None

    def _need_gpu(self) -> None:
        if is_simulator():
            raise ArgumentError(
                "the array is in the simulator's memory, which other libraries cannot read: use numpy()"
            )

    def __reduce__(self):
        raise copied()

    def __repr__(self) -> str:
        return f"<catenary.Array {self.dtype}{list(self.shape)} on device {self.device}>"


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides, in elements, of memory in row-major order."""
    return tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))


def _check_layout(shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    if len(strides) != len(shape):
        raise ArgumentError(
            f"an Array has {counted(len(strides), 'stride')} and {counted(len(shape), 'dimension')}: "
            "give one stride per dimension"
        )
    if any(n < 0 for n in shape):
        raise ArgumentError(f"an Array has shape {list(shape)}: give sizes of 0 or more")
    # The stride of a dimension of size 1 is never used.
    if any(n > 1 and stride < 0 for n, stride in zip(shape, strides, strict=True)):
        raise ArgumentError(f"an Array has strides {list(strides)}: give strides of 0 or more elements")


def span(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first to one past the last of strides of 0 or more; 0 without elements."""
    if 0 in shape:
        return 0
    return 1 + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
