# SPDX-License-Identifier: Apache-2.0
"""DLPack's capsules by ctypes: reading one, and making one. Structs as in dlpack.h, version 0.8 and 1.x."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from typing import Any

from catenary.errors import ArgumentError

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13  # DLDeviceType
VERSION = (1, 0)  # the newest that is read
_NAME, _VERSIONED_NAME = b"dltensor", b"dltensor_versioned"
_READ_ONLY = 1  # DLPACK_FLAG_BITMASK_READ_ONLY


class Tensor(ctypes.Structure):
    """DLTensor. Strides are in elements; null: row-major."""

    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class Managed(ctypes.Structure):
    """DLManagedTensor."""


_Deleter = ctypes.CFUNCTYPE(None, POINTER(Managed))
Managed._fields_ = [("tensor", Tensor), ("context", c_void_p), ("deleter", _Deleter)]


class Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", Tensor),
    ]


_python = ctypes.pythonapi


def _function(name: str, restype: Any, *argtypes: Any) -> Any:
    """A function of Python with a prototype of its own: those of ctypes.pythonapi belong to all libraries."""
    return ctypes.PYFUNCTYPE(restype, *argtypes)((name, _python))


_Destructor = ctypes.PYFUNCTYPE(None, c_void_p)
_get = _function("PyCapsule_GetPointer", c_void_p, ctypes.py_object, ctypes.c_char_p)
_get_raw = _function("PyCapsule_GetPointer", c_void_p, c_void_p, ctypes.c_char_p)
_is_named = _function("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_is_valid = _function("PyCapsule_IsValid", ctypes.c_int, c_void_p, ctypes.c_char_p)
_new = _function("PyCapsule_New", ctypes.py_object, c_void_p, ctypes.c_char_p, _Destructor)

# The dtypes of a chain and bytes by DLPack's code and bits.
NAMES = {
    (0, 8): "i8",
    (0, 32): "i32",
    (1, 8): "uint8",
    (2, 16): "f16",
    (2, 32): "f32",
    (4, 16): "bf16",
    (10, 8): "e4m3",
    (12, 8): "e5m2",
}
CODES = {name: key for key, name in NAMES.items()}
# Exported tensors that a consumer has, by address: each keeps its arrays and its memory.
_exported: dict[int, Any] = {}


def request(array: Any, **options: Any) -> Any:
    """A capsule of `array`; one of DLPack 1.x from a producer that has it, which says whether it is read-only."""
    try:
        return array.__dlpack__(max_version=VERSION, **options)
    except TypeError:  # a producer of before 1.0
        return array.__dlpack__(**options)


def read(capsule: Any) -> tuple[Tensor, bool]:
    """The tensor of a capsule and whether it may be written, valid while the capsule is kept. The capsule stays
    unconsumed: it frees the tensor."""
    if not _is_named(capsule, _VERSIONED_NAME):
        return Managed.from_address(_get(capsule, _NAME)).tensor, True
    versioned = Versioned.from_address(_get(capsule, _VERSIONED_NAME))
    if versioned.major != VERSION[0]:
        raise ArgumentError(
            f"an array exports DLPack {versioned.major}.{versioned.minor}: pass one that exports 0.8 or "
            f"{VERSION[0]}.x, as __dlpack__(max_version={VERSION}) asks for"
        )
    return versioned.tensor, not versioned.flags & _READ_ONLY


@_Deleter
def _delete(managed: Any) -> None:
    _exported.pop(ctypes.addressof(managed.contents), None)


@_Destructor
def _destroy(capsule: int) -> None:
    # A consumer renames the capsule; one that nothing consumed still owns the tensor.
    if _is_valid(capsule, _NAME):
        _exported.pop(_get_raw(capsule, _NAME), None)


def export(array: Any, device: tuple[int, int]) -> Any:
    """A capsule of an `Array`, which lives until the consumer has deleted the tensor."""
    rank = len(array.shape)
    shape, strides = (c_int64 * rank)(*array.shape), (c_int64 * rank)(*array.strides)
    code, bits = CODES[array.dtype.name]
    managed = Managed(
        Tensor(array.address, device[0], device[1], rank, code, bits, 1, shape, strides, 0), None, _delete
    )
    address = ctypes.addressof(managed)
    _exported[address] = (managed, shape, strides, array)
    return _new(address, _NAME, _destroy)
