# SPDX-License-Identifier: Apache-2.0
"""A failed call as an exception: one class per kind of answer, `code` for the exact reason."""

from __future__ import annotations

import ctypes
from typing import ClassVar

from catenary import _native


class Error(Exception):
    """A failed call of the library. Its text is one sentence with the value, the rule and the fix.

    Attributes:
        code: the name of the status in the C ABI, "invalid_chain".
        status: its number, `ctn_status`.
        line, column: the place in parsed text, from 1; None without one.
    """

    def __init__(self, message: str, status: int = 1, line: int | None = None, column: int | None = None):
        super().__init__(message)
        self.status = status
        self.line = line
        self.column = column

    @property
    def code(self) -> str:
        return _native.lib.ctn_status_name(self.status).decode()

    def __reduce__(self):
        return type(self), (str(self), self.status, self.line, self.column)


class ArgumentError(Error, ValueError):
    """An argument of a call or of a launch is wrong: shape, dtype, strides, device, option."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument is of a kind that the function does not take: a list for a tensor, text for a number."""


class ParseError(Error, ValueError):
    """The text is not a chain; `line` and `column` say where."""


class ChainError(Error, ValueError):
    """The chain breaks a rule."""


class UnsupportedError(Error):
    """The chain is valid, and no kernel or rule supports it; or a limit is exceeded."""


class CompileError(Error):
    """There is no compiler, or it failed to compile a kernel."""


class DeviceError(Error):
    """No usable device, a kernel for another one, or a call that the driver refused."""


class CaptureError(DeviceError):
    """Compiling or loading while a stream is captured: prepare the executable before."""


class PackError(Error):
    """Compiling is off and no pack has the chain, or a pack or cache entry is damaged."""


class OutOfMemoryError(Error, MemoryError):
    """Host or device memory ran out; the call may be repeated."""


class SimulatorError(Error):
    """A kernel broke a rule of the hardware in the simulator."""


class InternalError(Error):
    """A broken invariant of the library: please report it."""


# By ctn_status; what is not here is Error itself.
_CLASSES = {
    1: ArgumentError,
    2: ParseError,
    3: ChainError,
    4: UnsupportedError,
    5: UnsupportedError,
    6: CompileError,
    7: CompileError,
    8: DeviceError,
    9: DeviceError,
    11: PackError,
    12: CaptureError,
    13: DeviceError,
    14: OutOfMemoryError,
    17: DeviceError,
    18: SimulatorError,
    19: CompileError,
    20: CompileError,
    21: PackError,
    22: CompileError,
    23: CompileError,
    99: InternalError,
}


def check(status: int) -> None:
    """Raises the error of this thread's last call unless `status` is 0."""
    if status:
        lib = _native.lib
        raise _CLASSES.get(status, Error)(
            lib.ctn_last_error().decode(errors="replace"),
            status,
            lib.ctn_last_error_line() or None,
            lib.ctn_last_error_column() or None,
        )


def result(kind, function, *arguments):
    """The value that `function` writes to its last argument, of ctypes type `kind`."""
    value = kind()
    check(function(*arguments, ctypes.byref(value)))
    return value.value


def text(function, *arguments) -> str:
    """The text that `function` makes."""
    pointer = result(ctypes.c_void_p, function, *arguments)
    try:
        return ctypes.string_at(pointer).decode()
    finally:
        _native.lib.ctn_string_free(pointer)


def copied() -> ArgumentTypeError:
    """The error of a copy of what owns a handle, a shallow one too: `__reduce__` of its class raises it."""
    return ArgumentTypeError(
        "an object that owns a handle of the library is copied or pickled, and a handle has one owner in one process: "
        "share the object, or copy its chain, text or numpy array"
    )


class Handle:
    """Owns a handle of the C ABI and destroys it when it is collected.

    `keeps`: what the library uses until then, such as a function that it calls.
    """

    __slots__ = ("_destroy", "keeps", "pointer")
    live: ClassVar[set[int]] = set()  # of this process, for tests of leaks

    def __init__(self, destroy, function, *arguments):
        self.pointer = None
        self.keeps = None
        self._destroy = destroy
        self.pointer = result(ctypes.c_void_p, function, *arguments)
        Handle.live.add(self.pointer)

    def __reduce__(self):
        # Without it, a copy would destroy the same handle a second time.
        raise copied()

    def __del__(self):
        if getattr(self, "pointer", None) is not None:  # not after a failed __new__
            self.live.discard(self.pointer)
            self._destroy(self.pointer)
            self.pointer = None
