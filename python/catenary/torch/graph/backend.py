# SPDX-License-Identifier: Apache-2.0
"""torch.compile(model, backend="catenary"): Inductor with the pass of `graph_pass`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from catenary.arguments import wrong_kind
from catenary.errors import ArgumentError
from catenary.torch.graph.graph_pass import CatenaryPass
from catenary.torch.kinds import checked

OPTIONS = {"accept", "margin", "pdl"}  # of CatenaryPass


def backend(graph: torch.fx.GraphModule, inputs: Any, *, mode: str | None = None,
            options: dict[str, Any] | None = None) -> Callable[..., Any]:  # fmt: skip
    """Compiles a graph of Dynamo by Inductor with the pass of Catenary.

    Args:
        mode: a mode of torch.compile, "reduce-overhead" or "max-autotune".
        options: options of Inductor; and "catenary.accept", "catenary.margin", "catenary.pdl": those of `CatenaryPass`.
    """
    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx

    patches: dict[str, Any] = {}
    if mode is not None and mode != "default":
        from torch._inductor import list_mode_options

        patches.update(list_mode_options(mode))
    given = dict(options or {})
    own = {name.removeprefix("catenary."): given.pop(name) for name in list(given) if name.startswith("catenary.")}
    if unknown := sorted(set(own) - OPTIONS):
        raise ArgumentError(f"'catenary.{unknown[0]}' is no option: use catenary.accept, .margin or .pdl")
    patches.update({name.replace("-", "_"): value for name, value in given.items()})
    before = patches.get("post_grad_custom_pre_pass", config.post_grad_custom_pre_pass)
    patches["post_grad_custom_pre_pass"] = CatenaryPass(before=before, **own)
    return compile_fx(graph, inputs, config_patches=patches)


@checked
def compile(model: Any, *, dynamic: bool | None = None, fullgraph: bool = False, mode: str | None = None,
            options: dict[str, Any] | None = None) -> Any:  # fmt: skip
    """torch.compile with this backend; arguments as there, options as for `backend`."""
    if not callable(model) or isinstance(model, type):
        raise wrong_kind("model", model, "a module or a function")
    return torch.compile(model, backend=lambda graph, inputs: backend(graph, inputs, mode=mode, options=options),
                         dynamic=None if dynamic is None else bool(dynamic), fullgraph=bool(fullgraph))  # fmt: skip
