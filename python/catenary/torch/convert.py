# SPDX-License-Identifier: Apache-2.0
"""`convert`: the quantised linear layers of torchao and compressed-tensors in a model become those of Catenary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from catenary.errors import ArgumentError
from catenary.torch import operators
from catenary.torch.calls import refuse_more
from catenary.torch.kinds import checked
from catenary.torch.quantized_modules import QuantizedLinear
from catenary.torch.scaled_modules import ScaledLinear

Tensor = torch.Tensor

# Modules that read weights of their layers, by the names of these: the first in its fast path.
_READERS = {nn.TransformerEncoderLayer: ("linear1", "linear2"), nn.MultiheadAttention: ("out_proj",)}


@dataclass(frozen=True)
class Conversion:
    """A quantised module of a model."""

    name: str
    """Its path in the model; "" is the model itself."""
    before: str
    """Its class, and that of its weight or its format."""
    taken: bool
    reason: str
    """What it has become, or why it is left."""

    def __str__(self) -> str:
        return f"{'taken' if self.taken else 'left'}: {self.name or 'the model'} ({self.before}): {self.reason}"


@checked
def convert(model: nn.Module) -> tuple[nn.Module, list[Conversion]]:
    """Replaces the quantised linear layers of a model, in place, by `QuantizedLinear` and `ScaledLinear`.

    Layers: of torchao after `quantize_` (Int8WeightOnlyConfig, IntxWeightOnlyConfig of 4 and 8 bits,
    Float8DynamicActivationFloat8WeightConfig); of compressed-tensors, compressed, in the formats pack-quantized and
    int-quantized without activations, and float-quantized with x by token or by tensor. Layers that are not quantised
    stay as they are and are not listed; other quantised ones stay too, and are listed with the reason: also those with
    hooks or a forward of their own, on the meta device, of f32 models where the replacement takes no x of f32, and
    those whose weight `nn.TransformerEncoderLayer` or `nn.MultiheadAttention` reads without calling them.

    Returns (the model, or its replacement where it is such a layer itself; one `Conversion` per quantised module).
    """
    readers = {getattr(parent, name, None): kind.__name__ for parent in model.modules()
               for kind, names in _READERS.items() if isinstance(parent, kind) for name in names}  # fmt: skip
    found: list[Conversion] = []
    made: dict[nn.Module, nn.Module | None] = {}  # a module at several places becomes one
    for name, module in model.named_modules():
        before = _kind(module)
        if before is None:
            continue
        try:
            made[module] = _replacement(module, readers.get(module))
            made[module].train(module.training)
            found.append(Conversion(name, before, True, type(made[module]).__name__))
        except ArgumentError as error:
            made[module] = None
            found.append(Conversion(name, before, False, str(error)))
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):
            if made.get(child) is not None:
                parent._modules[name] = made[child]
    return made.get(model) or model, found


def _kind(module: nn.Module) -> str | None:
    """What is quantised about a module; None: nothing, or it is of Catenary."""
    if getattr(module, "quantization_scheme", None) is not None:
        return f"{type(module).__name__} of compressed-tensors, {_format(module)}"
    for parameter in module._parameters.values():
        kind = type(parameter if parameter is None else parameter.data)
        if any(base.__module__.startswith("torchao.") for base in kind.__mro__):
            return f"{type(module).__name__} of torchao, {kind.__name__}"
    return None


def _replacement(module: nn.Module, reader: str | None) -> nn.Module:
    if not isinstance(module, nn.Linear):
        raise ArgumentError(f"it is {type(module).__name__}: only linear layers are replaced")
    if reader is not None:
        raise ArgumentError(f"nn.{reader} reads its weight and does not call it: use a module that calls its layers")
    compressed = getattr(module, "quantization_scheme", None) is not None
    refuse_more(module, "it", nn.Linear, compressed)
    for name, tensor in (*module._parameters.items(), *module._buffers.items()):
        if tensor is not None and tensor.device.type == "meta":
            raise ArgumentError(f"its {name} is on the meta device: load it first")
    if compressed:
        return _from_compressed_tensors(module)
    if type(module.weight).__name__ == "Float8Tensor":
        return ScaledLinear.from_torchao(module)
    return _for_x([module.weight], QuantizedLinear.from_torchao(module))


def _for_x(tensors: Sequence[Tensor | None], made: QuantizedLinear) -> QuantizedLinear:
    """The layer, if it takes the x of the model, whose dtype one of these tensors has."""
    dtypes = [tensor.dtype for tensor in tensors if tensor is not None]
    if not any(dtype in (torch.bfloat16, torch.float16) for dtype in dtypes):
        name = operators.NAMES.get(dtypes[0], dtypes[0])
        raise ArgumentError(f"its x is {name}: convert the model to bf16 or f16 first")
    return made


def _format(module: nn.Module) -> str:
    weights = module.quantization_scheme.weights
    if "weight_packed" in module._parameters or "weight_packed" in module._buffers:
        return "pack-quantized"
    return "without weights" if weights is None else f"{weights.type} of {weights.num_bits} bits"


def _from_compressed_tensors(module: nn.Linear) -> nn.Module:
    scheme = module.quantization_scheme
    weights, inputs = scheme.weights, scheme.input_activations
    state = {**dict(module._parameters), **dict(module._buffers)}
    if str(getattr(module, "quantization_status", "")).rpartition(".")[2].lower() != "compressed":
        raise ArgumentError("it is not compressed: call compress_module, or load the checkpoint without decompressing")
    if weights is None:
        raise ArgumentError("its weight is not quantised")
    if scheme.output_activations is not None:
        raise ArgumentError("its output is quantised: only weights and x may be")
    if state.get("weight_g_idx") is not None:
        raise ArgumentError("its columns are permuted (weight_g_idx): quantise without actorder='group'")
    if weights.type == "float":
        return _scaled(state, weights, inputs)
    if inputs is not None:
        raise ArgumentError("it quantises x to integers: use a scheme of weights only")
    strategy = str(weights.strategy).rpartition(".")[2].lower()
    if strategy not in ("channel", "group"):
        raise ArgumentError(f"its weight has scales by {strategy}: use channel or group")
    scale, zero, bias = state["weight_scale"], state.get("weight_zero_point"), state.get("bias")
    if "weight_packed" in state:
        return _for_x([scale, bias], QuantizedLinear.from_compressed_tensors(
            state["weight_packed"], scale, zero, state.get("weight_shape"), bias
        ))  # fmt: skip
    values = state["weight"]
    if values.dtype != torch.int8 or weights.num_bits not in (4, 8):
        raise ArgumentError(f"its weight is {values.dtype} of {weights.num_bits} bits: use int8 of 4 or 8")
    zero = None if zero is None or not bool((zero != 0).any()) else zero.to(torch.int8)
    made = QuantizedLinear.from_values(values.detach(), scale, zero, bias, bits=weights.num_bits)
    return _for_x([scale, bias], made)


def _scaled(state: dict[str, Any], weights: Any, inputs: Any) -> ScaledLinear:
    weight = state.get("weight")
    if weight is None or weights.num_bits != 8:
        raise ArgumentError(f"its weight is floats of {weights.num_bits} bits: use fp8")
    if inputs is None:
        raise ArgumentError("only the weight is fp8, and no kernel multiplies it by another dtype: quantise x too")
    if inputs.type != "float" or inputs.num_bits != 8:
        raise ArgumentError(f"x is quantised to {inputs.type} of {inputs.num_bits} bits: use fp8, as the weight")
    strategy = str(inputs.strategy).rpartition(".")[2].lower()
    per = {"token": "row", "tensor": "tensor"}.get(strategy)
    if per is None:
        raise ArgumentError(f"x has scales by {strategy}: use token or tensor")
    if not inputs.dynamic:
        if per != "tensor" or state.get("input_scale") is None:
            raise ArgumentError("x has a static scale that is no single number: use strategy='tensor'")
        return ScaledLinear.of(weight, state["weight_scale"], state.get("bias"), per="static",
                               input_scale=state["input_scale"])  # fmt: skip
    return ScaledLinear.of(weight, state["weight_scale"], state.get("bias"), per=per)
