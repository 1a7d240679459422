# SPDX-License-Identifier: Apache-2.0
"""Kinds of arguments, by the annotations of functions: `checked` for functions that are called seldom, `refuse_kinds`
after a failure of one that is called often, and so checks nothing before."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch
from torch import nn

from catenary import arguments
from catenary.chain import Chain
from catenary.errors import ArgumentError


def _each(values: Any, who: str, check: Callable[[Any, str], Any]) -> None:
    if isinstance(values, torch.Tensor):
        raise arguments.wrong_kind(who, values, "a tuple or a list")
    for i, value in enumerate(arguments.items(values, who)):
        check(value, f"element {i} of {who}")


def _tensor(value: Any, who: str) -> None:
    if not isinstance(value, torch.Tensor):
        raise arguments.wrong_kind(who, value, "a torch.Tensor")


Function = TypeVar("Function", bound=Callable[..., Any])

_CLASSES = {
    "Tensor": (torch.Tensor, "a torch.Tensor"),
    "torch.Tensor": (torch.Tensor, "a torch.Tensor"),
    "torch.dtype": (torch.dtype, "a torch.dtype"),
    "nn.Module": (nn.Module, "a torch.nn.Module"),
    "nn.Linear": (nn.Linear, "a torch.nn.Linear"),
    "Chain": (Chain, "a catenary.Chain"),
    "str": (str, "a str"),
    "dict[str, Any]": (dict, "a dict"),
    "None": (type(None), "None"),
}
_CHECKS = {
    "bool": (arguments.flag, "True or False"),
    "int": (lambda value, who: arguments.integer(value, who, 0), "an integer"),
    "float": (arguments.number, "a number"),
    "Sequence[int]": (arguments.integers, "a tuple of integers"),
    "Sequence[float]": (lambda value, who: _each(value, who, arguments.number), "a tuple of numbers"),
    "Sequence[torch.Tensor]": (lambda value, who: _each(value, who, _tensor), "a tuple of tensors"),
}


def checked(function: Function) -> Function:
    """The function, which first refuses arguments of kinds that its annotations do not name. Integers are sizes."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        try:
            bound = signature.bind(*given, **named)
        except TypeError:  # its own error says what is missing or unknown
            return function(*given, **named)
        refuse_kinds(function, bound.arguments)
        return function(*given, **named)

    return call  # type: ignore[return-value]


def refuse_kinds(function: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Raises ArgumentError, mostly ArgumentTypeError, for the first argument of `function` in `given`, by name, whose
    kind is another than its annotation's."""
    for name, annotation in function.__annotations__.items():
        if name == "return" or name not in given:
            continue
        value = given[name]
        if name == "x" and isinstance(value, torch.Tensor) and value.dim() == 0:
            raise ArgumentError("x has no dimension: pass [..., k]")
        if name == "device" and annotation == "Any":
            _check_device(value)
        else:
            _check(name, value, "torch.dtype | None" if (name, annotation) == ("dtype", "Any") else annotation)


def refuse_other_tensors(names: Any, tensors: Any) -> None:
    """Raises ArgumentTypeError for the first of `tensors` that is none; `names` are theirs."""
    for name, tensor in zip(names, tensors, strict=False):
        _tensor(tensor, f"'{name}'")


def _check(name: str, value: Any, annotation: str) -> None:
    parts = annotation.split(" | ")
    if not all(part in _CLASSES or part in _CHECKS for part in parts):
        return
    if any(isinstance(value, _CLASSES[part][0]) for part in parts if part in _CLASSES):
        return
    checks = [part for part in parts if part in _CHECKS]
    if len(checks) == 1 and (len(parts) == 1 or parts == [*checks, "None"]):
        _CHECKS[checks[0]][0](value, name)
        return
    for part in checks:
        try:
            _CHECKS[part][0](value, name)
            return
        except ArgumentError:
            continue
    raise arguments.wrong_kind(name, value, " or ".join((_CLASSES | _CHECKS)[part][1] for part in parts))


def _check_device(device: Any) -> None:
    if device is None:
        return
    try:
        torch.device(device)
    except (TypeError, RuntimeError, ValueError, OverflowError):
        raise arguments.wrong_kind("device", device, "a torch.device, or its name, such as 'cuda:0'") from None
