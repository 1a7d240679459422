# SPDX-License-Identifier: Apache-2.0
"""Calls of a function with one argument of another kind, for every argument in turn: each has a result or raises a
`catenary.Error` of one sentence. Shared by the tests of the package and of its frameworks."""

import inspect
import re

import numpy as np

import catenary as ctn


def others():
    """Values of many kinds, new for each call."""
    return {
        "None": None, "True": True, "5": 5, "-1": -1, "2**70": 2**70, "2.5": 2.5, "nan": float("nan"), "1j": 1j,
        "'x'": "x", "''": "", "b'x'": b"x", "[1, 2]": [1, 2], "['x']": ["x"], "[[1.0]]": [[1.0]], "()": (), "{}": {},
        "set()": set(), "object()": object(), "numpy array": np.zeros(3), "numpy of text": np.array(["x"]),
        "numpy matrix": np.eye(9), "numpy number": np.float64(1), "function": lambda *_: 0, "class": int,
        "chain": ctn.Chain("other"),
        "dtype": ctn.f16, "range": range(3), "ellipsis": ...,
    }  # fmt: skip


def failures(name, make, more=()):
    """The wrong errors of a call, one line each. `make()` returns the function and its arguments by name. A name that
    begins with * is a variable number of positional arguments. `more`: further values to try."""
    wrong = []
    _, arguments = make()
    for argument in arguments:
        for kind, value in {**others(), **dict(more)}.items():
            if argument == "stream" and not ctn.is_simulator() and type(value) is int:
                continue  # an address that the driver follows
            function, given = make()
            given[argument] = [value] if argument.startswith("*") else value
            positional = [value for name, values in given.items() if name.startswith("*") for value in values]
            named = {name: value for name, value in given.items() if not name.startswith("*")}
            try:
                function(*positional, **named)
            except ctn.Error as error:
                if not is_sentence(str(error)):
                    wrong.append(f"{name}({argument}={kind}): no sentence: {error}")
            except Exception as error:
                wrong.append(f"{name}({argument}={kind}): {type(error).__name__}: {str(error)[:300]}")
    return wrong


def is_sentence(text):
    return len(text) > 10 and "\n" not in text and not re.search(r"\[catenary ", text)


def functions_of(module, left=()):
    """The names of a module's public functions, and of the methods of its public classes as "Class.method"."""
    found = set()
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isclass(value):
            if name in left or issubclass(value, Exception):
                continue
            found.add(name)
            own = {key: member for base in value.__mro__ if base.__module__.startswith("catenary")
                   for key, member in vars(base).items()}  # fmt: skip
            methods = (classmethod, staticmethod)
            found.update(f"{name}.{key}" for key, member in own.items()
                         if (inspect.isfunction(member) or isinstance(member, methods)) and
                         (key == "__call__" or not key.startswith("_")))  # fmt: skip
        elif callable(value):
            found.add(name)
    return found - set(left)
