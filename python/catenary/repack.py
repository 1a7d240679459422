# SPDX-License-Identifier: Apache-2.0
"""Quantised weights of other libraries in the packed layout: `repack`, `repack_zeros`. Host memory only.

The names are those of include/catenary/repack.hpp; the formats are described in include/catenary/repack.h.
"""

from __future__ import annotations

import ctypes
import enum
from typing import Any

from catenary import _native
from catenary._native import lib
from catenary.arguments import integer, shown
from catenary.arrays import View, is_bytes, is_contiguous, view
from catenary.errors import ArgumentError, check, result
from catenary.operand import DType

_NAMES = {"compressed-tensors": "compressed_tensors"}


class WeightFormat(enum.IntEnum):
    """How a weight [N, K] and its zeros for G groups of columns are stored; f: values of a 32-bit word."""

    plain = 0
    """int8 [N, K], a value a byte; of i4 and u4 also two: uint8 [N, K / 2], the low half first. Zeros: int8 [N, G]."""
    compressed_tensors = 1
    """int32 [N, K / f], "pack-quantized". Zeros: int32 [N / f, G]."""
    gptq = 2
    """int32 [K / f, N], without a permutation of columns (g_idx). Zeros, less one: int32 [G, N / f]."""
    gptq_v2 = 3
    """As gptq, with zeros stored as they are."""
    awq = 4
    """int32 [K, N / 8]. Zeros: int32 [G, N / 8]."""

    @classmethod
    def of(cls, format: Any) -> WeightFormat:
        """From a WeightFormat or its name; "compressed-tensors" too."""
        if isinstance(format, cls):
            return format
        found = cls.__members__.get(_NAMES.get(format, format)) if isinstance(format, str) else None
        if found is None:
            words = ", ".join(repr(name) for name in cls.__members__)
            raise ArgumentError(f"format is {shown(format)}: use one of {words}")
        return found


def packed_bytes(dtype: Any, rows: int, columns: int) -> int:
    """Bytes of a packed weight [rows, columns] of i8, i4 or u4, padding included."""
    return result(
        ctypes.c_int64, lib.ctn_packed_bytes, DType.of(dtype), integer(rows, "rows"), integer(columns, "columns")
    )


def repack(weight: Any, format: Any, dtype: Any, columns: int | None = None) -> Any:
    """A weight in the packed layout, as a numpy array of bytes: the argument for a parameter with packed=True.

    Args:
        weight: a host array of numpy, torch or DLPack, contiguous, as `format` says.
        format: a WeightFormat or its name.
        dtype: of the packed weight: i8, i4 or u4. A value u that the format stores without sign becomes u in u4,
            u - 8 in i4 and u - 128 in i8.
        columns: K, where a plain weight is uint8 with two values a byte and K is odd; None: as the shape says.

    ArgumentError: an int8 value that the dtype does not hold, or an array that is not what `format` says.
    """
    import numpy

    kind, wanted = WeightFormat.of(format), _integer(dtype)
    source = _host(weight, "weight", kind != WeightFormat.plain)
    rows, k = _sizes(kind, wanted, source)
    halves = kind == WeightFormat.plain and wanted.bits == 4 and source.dtype != DType.i8
    if columns is not None:
        columns = integer(columns, "columns")
        if columns != k and not (halves and columns == k - 1):
            unless = f", unless it is {k - 1}" if halves else ""
            raise ArgumentError(f"columns is {columns}, and the weight has {k}: leave it out{unless}")
        k = columns
    if kind == WeightFormat.plain and wanted.bits == 4 and not halves:
        source = _two_a_byte(source, wanted)
    packed = numpy.empty(packed_bytes(wanted, rows, k), numpy.uint8)
    args = _native.RepackArgs(
        format=kind,
        dtype=wanted,
        rows=rows,
        columns=k,
        weight=source.address or None,
        weight_bytes=_bytes(source),
        packed=packed.ctypes.data,
        packed_bytes=packed.nbytes,
    )
    check(lib.ctn_repack(ctypes.byref(args)))
    return packed


def repack_zeros(zeros: Any, format: Any, dtype: Any, rows: int) -> Any:
    """The zeros of a weight with `rows` rows, as a numpy array int8 [rows, G]: an i8 parameter.

    `zeros`, `format` and `dtype` are as for `repack`: a zero moves by as much as the values.
    """
    import numpy

    kind, wanted, rows = WeightFormat.of(format), _integer(dtype), integer(rows, "rows", lo=0)
    source = _host(zeros, "zeros", kind != WeightFormat.plain)
    by_rows = kind in (WeightFormat.plain, WeightFormat.compressed_tensors)
    groups = source.shape[1 if by_rows else 0]
    packed = numpy.empty((rows, groups), numpy.int8)
    args = _native.RepackArgs(
        format=kind,
        dtype=wanted,
        rows=rows,
        columns=8 * groups,  # a multiple of every word's values, and at least one a group
        groups=groups,
        zeros=source.address or None,
        zeros_bytes=_bytes(source),
        packed_zeros=packed.ctypes.data,
        packed_zeros_bytes=packed.nbytes,
    )
    check(lib.ctn_repack(ctypes.byref(args)))
    return packed


def _integer(dtype: Any) -> DType:
    found = DType.of(dtype)
    if found not in (DType.i8, DType.i4, DType.u4):
        raise ArgumentError(f"the packed weight is {found}: only i8, i4 and u4 have the packed layout")
    return found


def _host(array: Any, who: str, words: bool) -> View:
    """A contiguous matrix of the host, of 32-bit words or of bytes."""
    found = view(array, who)
    if found.on_device:
        raise ArgumentError(f"{who} is on a device: repack takes host arrays")
    right = found.dtype == DType.i32 if words else is_bytes(found)
    if not right or len(found.shape) != 2:
        raise ArgumentError(
            f"{who} has dtype {found.dtype_name} and shape {list(found.shape)}: the format takes a matrix of "
            f"{'int32' if words else 'int8 or uint8'}"
        )
    if not is_contiguous(found):
        raise ArgumentError(f"{who} has strides {list(found.strides)}: make it contiguous")
    return found


def _sizes(kind: WeightFormat, dtype: DType, source: View) -> tuple[int, int]:
    """Rows and columns of the weight."""
    first, second = source.shape
    if kind == WeightFormat.plain:
        return first, second if source.dtype == DType.i8 else second * 8 // dtype.bits
    fields = 32 // dtype.bits
    if kind == WeightFormat.compressed_tensors:
        return first, second * fields
    if kind == WeightFormat.awq:
        return second * 8, first
    return second, first * fields


def _two_a_byte(source: View, dtype: DType) -> View:
    """A matrix of a value a byte as rows of two values a byte, the low half first; an odd row ends with a 0."""
    import numpy

    rows, columns = source.shape
    memory = (ctypes.c_int8 * (rows * columns)).from_address(source.address) if rows * columns else b""
    values = numpy.frombuffer(memory, numpy.int8).reshape(rows, columns)
    lo, hi = (-8, 7) if dtype == DType.i4 else (0, 15)
    wrong = (values < lo) | (values > hi)
    if wrong.any():
        row, column = (int(n) for n in numpy.unravel_index(wrong.argmax(), wrong.shape))
        raise ArgumentError(
            f"weight has {values[row, column]} at [{row}, {column}], and {dtype} holds {lo} to {hi}: pass int8 with "
            "one value of that range a byte, or uint8 with two"
        )
    packed = numpy.zeros((rows, (columns + 1) // 2), numpy.uint8)
    packed[:] = values[:, 0::2] & 15
    packed[:, : columns // 2] |= (values[:, 1::2].view(numpy.uint8) & 15) << 4
    return view(packed, "weight")


def _bytes(source: View) -> int:
    elements = source.shape[0] * source.shape[1]
    return elements if source.dtype != DType.i32 else 4 * elements
