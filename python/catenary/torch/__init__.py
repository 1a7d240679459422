# SPDX-License-Identifier: Apache-2.0
"""Catenary in PyTorch: chains as operators, layers with gradients, a backend of torch.compile. See docs/pytorch.md."""

from catenary.torch.forms import ACTIVATIONS
from catenary.torch.function import ChainFunction
from catenary.torch.functional import chain, glu, glu_mlp, grouped_glu_mlp, grouped_linear, linear
from catenary.torch.operators import IMPLEMENTATION, add_pack, report, set_host, use_engine

__all__ = [
    "ACTIVATIONS",
    "IMPLEMENTATION",
    "ChainFunction",
    "add_pack",
    "chain",
    "glu",
    "glu_mlp",
    "grouped_glu_mlp",
    "grouped_linear",
    "linear",
    "report",
    "set_host",
    "use_engine",
]
