# SPDX-License-Identifier: Apache-2.0
"""Calls of the operators without torch's dispatcher, where it would only go to the operator's own kernel.

`make()` gives a function of the library, `direct(key, inputs, scalars=(), outs=None)`, which returns None for every
call that needs the dispatcher: tensors of another class, gradients, modes, transforms, a level of forward mode,
profilers, autocast, several devices, a first call. CATENARY_TORCH_OPERATORS=dispatcher or python turns it off.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from catenary import _native
from catenary.errors import Error, check

Direct = Callable[..., Any]
# torch's dtypes by ctn_dtype; those of 4 bits have none.
_DTYPES = (torch.bfloat16, torch.float16, torch.float32, torch.int32, torch.int8, None, None, torch.float8_e4m3fn,
           torch.float8_e5m2)  # fmt: skip
# For tensors without gradients these only pass on the call, but for the versions that operators.write() counts.
_PASSED = ("BackendSelect", "ADInplaceOrView", "AutogradCPU", "AutogradCUDA")


def none(*_arguments: Any) -> None:
    """`direct` where direct calls are not possible: no call is made."""


def make() -> Direct:
    """The function of the library, or `none`."""
    try:
        return _make() if _wanted() and _guards_tell() else none
    except (AttributeError, TypeError, RuntimeError, Error):  # a torch or a Python that lacks what it needs
        return none


def _wanted() -> bool:
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()  # the function's tables have no other lock
    return has_gil and os.environ.get("CATENARY_TORCH_OPERATORS") not in ("python", "dispatcher")


def _make() -> Direct:
    folder = Path(torch.__file__).parent / "lib"
    empty = torch._C._dynamo.guards
    prototype = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    pointer = prototype(("PyCapsule_GetPointer", ctypes.pythonapi))
    objects = {
        "tensor_type": torch.Tensor,
        "parameter_type": torch.nn.Parameter,
        "empty_cpu": empty._empty_strided_cpu,
        "dtypes": _DTYPES,
        "admit": admit,
    }
    if torch.version.cuda is not None:
        objects["empty_cuda"] = empty._empty_strided_cuda
    options = _native.TorchDirectOptions(
        libc10=os.fsencode(folder / "libc10.so"),
        libtorch_cpu=os.fsencode(folder / "libtorch_cpu.so"),
        exchange=pointer(torch.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api"),
        **{name: id(value) for name, value in objects.items()},  # CPython: the object's address
    )
    function = ctypes.py_object()
    # The GIL is held: the library calls Python.
    make = ctypes.PyDLL(str(_native.library_path())).ctn_torch_direct
    check(make(ctypes.byref(options), ctypes.byref(function)))
    return function.value


def admit(*tensors: torch.Tensor) -> Any:
    """A function that is true as long as tensors have the dispatch keys, dtypes, layouts and classes of these in the
    thread's state, and need no gradient; None where the dispatcher does more with these than call the kernel."""
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return None
    keys = torch._C._dispatch_tls_local_include_set()
    for tensor in tensors:
        keys = keys | torch._C._dispatch_keys(tensor)
    keys = keys - torch._C._dispatch_tls_local_exclude_set()
    for name in _PASSED:
        keys = keys.remove(getattr(torch._C.DispatchKey, name))
    kernel = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, tensors[0].device.type.upper()))
    return _guards(tensors).check if keys.raw_repr() == kernel.raw_repr() else None


def _guards(tensors: tuple[torch.Tensor, ...]) -> Any:
    return torch._C._dynamo.guards.TensorGuards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None)


def _guards_tell() -> bool:
    """Whether torch's guards tell apart what admit() needs them for."""
    with torch.inference_mode(False), torch.enable_grad():
        x = torch.zeros(2, 3, device="cpu", dtype=torch.float32)
        same = _guards((x,)).check
        others = (
            torch.zeros(2, 3, device="cpu", dtype=torch.float32, requires_grad=True), torch._neg_view(x),
            torch.nn.Parameter(x), x.to(torch.int32), x[:1], x.t(),
        )  # fmt: skip
        told = same(torch.ones_like(x)) and not any(map(same, others))
        with torch.autocast("cpu"):
            told = told and not same(x)
        with torch.inference_mode():
            told = told and not same(x)
    return bool(told)
