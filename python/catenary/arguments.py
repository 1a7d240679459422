# SPDX-License-Identifier: Apache-2.0
"""Arguments of Python as values of the C ABI, which ctypes would truncate or refuse by errors of its own.

Every function raises ArgumentError, ArgumentTypeError for another kind of value. The sentence names the argument, its
value and what to pass. The functions of launches (`int64s`) check nothing.
"""

from __future__ import annotations

import ctypes
import math
import operator
import os
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from catenary.errors import ArgumentError, ArgumentTypeError

INT32 = 2**31 - 1
INT64 = 2**63 - 1  # the least integer of 64 bits is CTN_SYMBOL, so ranges are symmetric

Kind = TypeVar("Kind")


def counted(count: int, noun: str) -> str:
    """As in "1 stride" and "2 strides"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def shown(value: Any) -> str:
    """`value` in one line of an error, shortened."""
    try:
        words = " ".join(repr(value).split())
    except ValueError:  # Python prints no integer of more than 4300 digits
        words = f"an integer of {value.bit_length()} bits"
    return words if len(words) <= 80 else words[:60] + "..."


def wrong_kind(who: str, value: Any, wanted: str) -> ArgumentTypeError:
    """The error of a value that is not `wanted`."""
    return ArgumentTypeError(f"{who} is {shown(value)}, of type {type(value).__name__}: pass {wanted}")


def integer(value: Any, who: str, lo: int = -INT64, hi: int = INT64) -> int:
    """An integer of Python, numpy or another library, from `lo` to `hi`. No bool, and no float, even a whole one."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        raise wrong_kind(who, value, "an integer")
    if not lo <= number <= hi:
        raise ArgumentError(f"{who} is {shown(number)}: pass an integer from {lo} to {hi}")
    return number


def integers(values: Any, who: str) -> tuple[int, ...]:
    """The integers of a sequence that errors call `who`."""
    return tuple(integer(value, f"element {i} of {who}") for i, value in enumerate(items(values, who)))


def items(values: Any, who: str) -> Iterable[Any]:
    """What can be iterated, but for text."""
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise wrong_kind(who, values, "a tuple or a list")
    return values


def number(value: Any, who: str) -> float:
    """A number of Python, numpy or another library, arrays of no dimension included. No bool, and no text."""
    if is_number(value):
        try:
            return float(value)
        except ArgumentError:
            raise
        except OverflowError:
            raise ArgumentError(f"{who} is {shown(value)}: pass a number that is finite in f32") from None
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"{who} has no value ({' '.join(str(error).split())}): pass a number") from None
    raise wrong_kind(who, value, "a number")


def finite_in_f32(found: float, given: Any, who: str) -> float:
    """`found`, the `number` of a given scalar of a chain, which is finite in f32 unless it is infinite itself."""
    rounded = ctypes.c_float(found).value
    if math.isinf(rounded) and given != rounded:
        raise ArgumentError(f"{who} is {shown(given)}, and scalars are f32: pass a number that is finite in f32")
    return found


def is_number(value: Any) -> bool:
    """Whether `number` takes a value of this kind."""
    if isinstance(value, (int, float)):
        return not isinstance(value, bool)
    kind = str(getattr(value, "dtype", ""))
    if not hasattr(value, "__float__") or any(word in kind for word in ("bool", "complex", "U", "S")):
        return False
    return tuple(getattr(value, "shape", ())) == ()


def names(values: Any, who: str) -> list[bytes]:
    """Several names; a str is one."""
    return [encode(name) for name in ([values] if isinstance(values, str) else items(values, who))]


def flag(value: Any, who: str) -> bool:
    """True or False, of Python or numpy, or 1 or 0."""
    if isinstance(value, (bool, int)) or type(value).__name__ in ("bool", "bool_"):
        if value == 0 or value == 1:
            return bool(value)
    raise ArgumentTypeError(f"{who} is {shown(value)}: pass True or False")


def instance(value: Any, kind: type[Kind], who: str) -> Kind:
    """An object of this package."""
    if not isinstance(value, kind):
        raise wrong_kind(who, value, f"a catenary.{kind.__name__}")
    return value


def instance_or_none(value: Any, kind: type[Kind], who: str) -> Kind | None:
    """The same, or None."""
    return None if value is None else instance(value, kind, who)


def encode(text: Any) -> bytes:
    """Text for the C ABI, where it ends at its first zero byte."""
    data = utf8(text)
    if 0 in data:
        raise ArgumentError(f"{shown(text)} contains a zero byte: remove it")
    return data


def utf8(text: Any) -> bytes:
    """Text for a function of the C ABI that takes its length."""
    if not isinstance(text, str):
        raise ArgumentTypeError(f"{shown(text)} is {type(text).__name__}: use str")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ArgumentError(f"{shown(text)} has a surrogate, which UTF-8 has not: remove it") from None


def optional(name: str | None) -> bytes | None:
    """A name for the C ABI; null for "" and None."""
    return None if name is None or (isinstance(name, str) and not name) else encode(name)


def file_path(value: Any, who: str, wanted: str = "a path") -> bytes:
    """The path of a file or folder for the C ABI. `wanted`: what the error says to pass."""
    try:
        data = os.fsencode(value)
    except (TypeError, ValueError):
        raise wrong_kind(who, value, wanted) from None
    if 0 in data:
        raise ArgumentError(f"{who} is {shown(value)}, which contains a zero byte: remove it")
    return data


def int64s(numbers: Sequence[int]) -> Any:
    """An array of the C ABI, of integers that are known to have 64 bits."""
    return (ctypes.c_int64 * len(numbers))(*numbers)
