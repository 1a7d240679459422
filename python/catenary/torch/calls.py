# SPDX-License-Identifier: Apache-2.0
"""Whether a call of a linear layer is x w^T + b and nothing else: what reads its weight calls neither its hooks nor a
forward of its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from torch import nn

from catenary.errors import ArgumentError

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
# Modules of compressed-tensors: functions of the first quantise and then call that of the class; older versions have a
# class that decompresses the weight.
_INSTANCE_FORWARD = "compressed_tensors.quantization.lifecycle.forward"
_CLASS_FORWARD = "compressed_tensors.linear.compressed_linear"
_TENSOR_PARALLEL = "torch.distributed.tensor."


def has_hooks(module: nn.Module) -> bool:
    """Whether a call of the module calls hooks, those of accelerate included."""
    own = module.__dict__  # getattr is slow where a module has no such attribute
    return any(own.get(name) for name in _HOOKS) or own.get("_hf_hook") is not None


def calls_linear(module: nn.Module, compressed: bool = False, kind: type[nn.Module] = nn.Linear) -> bool:
    """Whether the forward is that of nn.Linear, or of `kind`, but for what compressed-tensors does to x and the
    weight."""
    own = type(module).forward
    if own is not kind.forward and not (compressed and own.__module__ == _CLASS_FORWARD):
        return False
    instance = module.__dict__.get("forward")
    if instance is None:
        return True
    function = getattr(instance, "__func__", None)
    names = getattr(function, "__globals__", {})
    return compressed and names.get("__name__") == _INSTANCE_FORWARD and inspect.unwrap(function) is own


def refuse_more(module: nn.Module, who: str, kind: type[nn.Module] | None, compressed: bool = False) -> None:
    """ArgumentError, which calls the module `who`, if a call of it does more than the forward of `kind`; None: any
    forward of its class."""
    if has_hooks(module):
        raise ArgumentError(f"{who} has hooks, which its replacement would not call: remove them first")
    if not calls_linear(module, compressed, kind or type(module)):
        raise ArgumentError(
            f"{who} has a forward of its own, which its replacement would not call: use that of "
            f"{'its class' if kind is None else 'nn.Linear' if kind is nn.Linear else kind.__name__}"
        )


def is_divided(module: nn.Module) -> bool:
    """Whether its hooks are those of ColwiseParallel and RowwiseParallel: they place x and the result."""
    hooks = [hook for name in _HOOKS for hook in getattr(module, name).values()]
    return bool(hooks) and all(getattr(hook, "__module__", "").startswith(_TENSOR_PARALLEL) for hook in hooks)


def placed_input(module: nn.Module, x: Any) -> Any:
    """x as the hooks of a divided layer place it."""
    return _placed(module._forward_pre_hooks, lambda hook, x: hook(module, (x,)), x)


def placed_result(module: nn.Module, x: Any, y: Any) -> Any:
    """The result for x as the hooks of a divided layer place it."""
    return _placed(module._forward_hooks, lambda hook, y: hook(module, (x,), y), y)


def _placed(hooks: Any, call: Callable[[Any, Any], Any], value: Any) -> Any:
    for hook in hooks.values():
        found = call(hook, value)
        value = value if found is None else found[0] if isinstance(found, tuple) else found
    return value
