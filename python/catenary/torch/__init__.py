# SPDX-License-Identifier: Apache-2.0
"""Catenary in PyTorch: chains as operators, layers with gradients, a backend of torch.compile. See docs/pytorch.md."""

from catenary.torch import levels  # noqa: F401, which registers kernels
from catenary.torch.convert import Conversion, convert
from catenary.torch.experts import experts, register_with_transformers
from catenary.torch.forms import ACTIVATIONS
from catenary.torch.function import ChainFunction
from catenary.torch.functional import chain, glu, glu_mlp, grouped_glu_mlp, grouped_linear, linear
from catenary.torch.graph import backend, compile, decisions
from catenary.torch.modules import GLU, Experts, GroupedLinear, Linear, SwiGLU
from catenary.torch.operators import IMPLEMENTATION, add_pack, report, set_host, set_pdl, use_engine
from catenary.torch.quantized import dequantize, quantized_linear
from catenary.torch.quantized_modules import QuantizedLinear
from catenary.torch.scaled import quantize_fp8, scaled_grouped_linear, scaled_linear
from catenary.torch.scaled_modules import ScaledLinear

__all__ = [
    "ACTIVATIONS",
    "GLU",
    "IMPLEMENTATION",
    "ChainFunction",
    "Conversion",
    "Experts",
    "GroupedLinear",
    "Linear",
    "QuantizedLinear",
    "ScaledLinear",
    "SwiGLU",
    "add_pack",
    "backend",
    "chain",
    "compile",
    "convert",
    "decisions",
    "dequantize",
    "experts",
    "glu",
    "glu_mlp",
    "grouped_glu_mlp",
    "grouped_linear",
    "linear",
    "quantize_fp8",
    "quantized_linear",
    "register_with_transformers",
    "report",
    "scaled_grouped_linear",
    "scaled_linear",
    "set_host",
    "set_pdl",
    "use_engine",
]
