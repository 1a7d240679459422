# SPDX-License-Identifier: Apache-2.0
"""Arrays of other libraries as address, dtype, shape, strides and device: `view()`. And new ones: `empty()`.

numpy and torch are read by their own attributes, which is fastest; everything else by DLPack,
__cuda_array_interface__ or __array_interface__. No library is imported: if an array of it exists, it is loaded.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from catenary import dlpack
from catenary.device import Array, contiguous, span
from catenary.errors import ArgumentError, ArgumentTypeError
from catenary.operand import DType

ANY_DEVICE = -1  # of an array that does not say on which GPU it is


@dataclass(slots=True)
class View:
    """Where an array is and how it is laid out."""

    address: int
    dtype: DType | None
    """None: no dtype of a chain."""
    dtype_name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """Elements."""
    device: int | None
    """The number of a GPU or of the simulator; None: host memory."""
    library: str
    """Whose allocator makes outputs: "numpy", "torch", or "" for `Array`."""
    owner: Any = None
    """Keeps the memory."""
    writable: bool = True
    producer: int | None = None
    """A stream whose work makes the data ready; None: they are, for the stream of `view()`."""

    @property
    def on_device(self) -> bool:
        return self.device is not None


def view(array: Any, who: str, stream: int | None = None) -> View:
    """A view of `array`; `who` names it in errors. `stream`: where its data are ready, if a producer can say so."""
    kind = type(array)
    reader = _readers.get(kind)
    if reader is None:
        reader = _readers[kind] = _reader(kind, array, who)
    return reader(array, who, stream)


_readers: dict[type, Callable[[Any, str, int | None], View]] = {}


def _reader(kind: type, array: Any, who: str) -> Callable[[Any, str, int | None], View]:
    if kind is Array:
        return _view_own
    roots = {base.__module__.partition(".")[0] for base in kind.__mro__}
    if "torch" in roots and hasattr(array, "data_ptr"):
        return _view_torch
    if "numpy" in roots and hasattr(array, "__array_interface__"):
        return _numpy_reader(kind, who)
    if "jax" in roots and any(base.__name__ == "Tracer" for base in kind.__mro__):
        raise ArgumentTypeError(
            f"{who} is a tracer of JAX, which has no elements yet: call the chain by catenary.jax.call in a function "
            "that JAX transforms"
        )
    if hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__"):
        return _view_dlpack
    if hasattr(array, "__cuda_array_interface__"):
        return _view_cuda
    if hasattr(array, "__array_interface__"):
        return _view_interface
    raise ArgumentTypeError(
        f"{who} is {kind.__name__}: pass an array with __dlpack__, __cuda_array_interface__ or __array_interface__"
    )


def _view_own(array: Array, who: str, stream: int | None) -> View:
    return View(array.address, array.dtype, array.dtype.name, array.shape, array.strides, array.device, "", array)


def _view_torch(tensor: Any, who: str, stream: int | None) -> View:
    place = tensor.device
    if place.type not in ("cuda", "cpu"):
        raise ArgumentError(f"{who} is on {place}: pass a tensor of the CPU or of a CUDA device")
    try:
        negative, address, strides = tensor.is_neg(), tensor.data_ptr(), tensor.stride()
    except RuntimeError:
        raise _no_memory(tensor, who) from None
    if negative:
        raise ArgumentError(f"{who} is a negative view, whose memory has the other sign: pass its resolve_neg()")
    if address == 0 and tensor.numel():
        raise _no_memory(tensor, who)
    name = _torch_names.get(tensor.dtype)
    if name is None:
        name = _torch_names.setdefault(tensor.dtype, str(tensor.dtype).removeprefix("torch."))
    return View(
        address,
        _dtype(name),
        name,
        tuple(tensor.shape),
        strides,
        place.index if place.type == "cuda" else None,
        "torch",
        tensor,
    )


_torch_names: dict[Any, str] = {}


def _no_memory(tensor: Any, who: str) -> ArgumentError:
    """The error of a tensor whose elements have no one address."""
    layout, kind = str(tensor.layout), type(tensor).__name__
    if tensor.is_nested:
        return ArgumentError(f"{who} is a nested tensor: pass the tensors that it has, one by one")
    if layout != "torch.strided":
        return ArgumentError(f"{who} has layout {layout}, and a chain takes torch.strided: pass its to_dense()")
    if hasattr(tensor, "to_local"):
        return ArgumentError(f"{who} is a {kind}, which has no memory of its own: pass its to_local()")
    if kind not in ("Tensor", "Parameter"):
        return ArgumentError(f"{who} is a {kind}, which has no memory of its own: pass the tensor that it wraps")
    return ArgumentError(
        f"{who} is a tensor of torch.func or torch.vmap, which has no memory: make a function of the chain by "
        "catenary.torch.chain"
    )


def _numpy_reader(kind: type, who: str) -> Callable[[Any, str, int | None], View]:
    import numpy

    if issubclass(kind, numpy.ma.MaskedArray):
        raise ArgumentTypeError(f"{who} is a masked array, and a chain knows no mask: pass its filled() or its data")
    return _view_numpy if issubclass(kind, numpy.ndarray) else _view_interface


def _view_interface(source: Any, who: str, stream: int | None) -> View:
    """Of what numpy makes an array of. A number of numpy has no memory that a second read of it would find."""
    import numpy

    try:
        array = numpy.asarray(source)
    except (TypeError, ValueError) as error:
        words = " ".join(str(error).split())
        raise ArgumentError(f"{who} has a wrong __array_interface__ ({words}): pass a numpy array") from None
    found = _view_numpy(array, who, stream)
    found.owner = (source, array)
    found.writable = found.writable and not isinstance(source, numpy.generic)
    return found


def _view_numpy(array: Any, who: str, stream: int | None) -> View:
    name = array.dtype.name if array.dtype.isnative else array.dtype.str  # ">f4" is no dtype of a chain
    return View(
        array.__array_interface__["data"][0],
        _dtype(name),
        name,
        array.shape,
        _element_strides(who, array.strides, array.itemsize),
        None,
        "numpy",
        array,
        array.flags.writeable,
    )


def _element_strides(who: str, strides: Sequence[int], size: int) -> tuple[int, ...]:
    if size == 0:
        return tuple(strides)  # of a type without bytes, which is no dtype of a chain
    if any(stride % size for stride in strides):
        raise ArgumentError(
            f"{who} has strides of {tuple(strides)} bytes, which are no multiples of its element's {size}: pass a "
            "contiguous copy"
        )
    return tuple(stride // size for stride in strides)


def _view_dlpack(array: Any, who: str, stream: int | None) -> View:
    kind, index = array.__dlpack_device__()
    if kind not in (dlpack.CPU, dlpack.CUDA, dlpack.CUDA_HOST, dlpack.CUDA_MANAGED):
        raise ArgumentError(f"{who} is on DLPack device {int(kind)}: pass an array of the CPU or of a CUDA device")
    on_device = kind in (dlpack.CUDA, dlpack.CUDA_MANAGED)
    capsule = dlpack.request(array, stream=stream or 1) if on_device else dlpack.request(array)
    tensor, writable = dlpack.read(capsule)
    name = dlpack.NAMES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else contiguous(shape)
    library = "" if on_device else "numpy"
    return View(
        (tensor.data or 0) + tensor.byte_offset,
        _dtype(name) if name else None,
        name or f"DLPack's {tensor.code} of {tensor.bits} bits",
        shape,
        strides,
        index if on_device else None,
        library,
        (array, capsule),
        writable and type(array).__module__.partition(".")[0] not in _IMMUTABLE,
    )


_IMMUTABLE = ("jax", "jaxlib")  # their arrays are, and DLPack's flag does not say it


def _view_cuda(array: Any, who: str, stream: int | None) -> View:
    facts = array.__cuda_array_interface__
    kinds = {"<f2": "f16", "<f4": "f32", "<i4": "i32", "<u2": "uint16", "|i1": "i8", "|u1": "uint8"}
    name = kinds.get(facts["typestr"], facts["typestr"])
    size = int(facts["typestr"][2:])
    shape = tuple(facts["shape"])
    strides = facts.get("strides")
    elements = contiguous(shape) if strides is None else _element_strides(who, strides, size)
    address, read_only = facts["data"]
    producer = facts.get("stream")
    if producer == 0:
        raise ArgumentError(
            f"{who} has stream 0 in its __cuda_array_interface__: give 1 for the legacy default stream, 2 for that of "
            "the thread, or None"
        )
    return View(address, _dtype(name), name, shape, elements, ANY_DEVICE, "", array, not read_only, producer)


@functools.cache
def _dtype(name: str) -> DType | None:
    try:
        return DType.of(name)
    except ArgumentError:
        return None


def accepts(view: View, dtype: DType) -> bool:
    """Whether an array has `dtype`; integers are the bits of bf16 or fp8 where numpy has no other type for it."""
    return view.dtype == dtype or view.dtype_name == _BITS.get(dtype)


# numpy's own name of the bits of a dtype that ml_dtypes has, and its name there.
_BITS = {DType.bf16: "uint16", DType.e4m3: "uint8", DType.e5m2: "uint8"}
_ML_DTYPES = {DType.bf16: "bfloat16", DType.e4m3: "float8_e4m3fn", DType.e5m2: "float8_e5m2"}


def is_bytes(view: View) -> bool:
    """Whether an array has bytes for elements, with or without sign."""
    return view.dtype == DType.i8 or view.dtype_name == "uint8"


def is_contiguous(view: View) -> bool:
    """Whether elements follow each other in row-major order. The stride of a dimension of size 1 is never used."""
    if 0 in view.shape:
        return True
    wanted = contiguous(view.shape)
    return all(n == 1 or got == want for n, got, want in zip(view.shape, view.strides, wanted, strict=True))


def contiguous_host(source: View, dtype: DType) -> View:
    """A copy, in row-major order, of a host array of `dtype` with strides of any sign."""
    import numpy

    strides = contiguous(source.shape)
    if 0 in source.shape:
        return replace(source, strides=strides)
    size = dtype.itemsize
    ends = [(n - 1) * stride for n, stride in zip(source.shape, source.strides, strict=True)]
    before = -sum(end for end in ends if end < 0)  # elements at lower addresses than the first one
    after = 1 + sum(end for end in ends if end > 0)
    memory = (ctypes.c_char * ((before + after) * size)).from_address(source.address - before * size)
    bits = numpy.frombuffer(memory, f"u{size}")[before:]
    steps = [stride * size for stride in source.strides]
    copy = numpy.ascontiguousarray(numpy.lib.stride_tricks.as_strided(bits, source.shape, steps))
    return replace(source, address=copy.ctypes.data, strides=strides, owner=copy)


def empty_numpy(dtype: DType, shape: Sequence[int], strides: Sequence[int]) -> Any:
    """A numpy array with unset elements at `strides`; bf16 and fp8 of ml_dtypes if installed, else uint16 and uint8."""
    import numpy

    kinds = {DType.f16: numpy.float16, DType.f32: numpy.float32, DType.i32: numpy.int32, DType.i8: numpy.int8}
    kind = kinds.get(dtype) or _numpy_kind(dtype)
    size = dtype.itemsize
    memory = numpy.zeros(span(shape, strides) * size, numpy.uint8)  # an array of ml_dtypes' e5m2 has no strides
    return numpy.ndarray(shape, kind, memory, strides=[n * size for n in strides])


@functools.cache
def _numpy_kind(dtype: DType) -> Any:
    try:
        import ml_dtypes
    except ImportError:
        return _BITS[dtype]
    return getattr(ml_dtypes, _ML_DTYPES[dtype])


def empty(library: str, dtype: DType, shape: Sequence[int], strides: Sequence[int], device: int | None) -> Any:
    """An array of `library` with unset elements, on a GPU, or on the host for None."""
    if library == "torch":
        torch = sys.modules["torch"]
        own = {DType.f16: "float16", DType.f32: "float32", DType.i32: "int32"}
        kind = getattr(torch, own.get(dtype) or _ML_DTYPES[dtype])
        place = "cpu" if device is None else torch.device("cuda", device)
        return torch.empty_strided(shape, strides, dtype=kind, device=place)
    if device is None:
        return empty_numpy(dtype, shape, strides)
    return Array(dtype, shape, strides, device)
