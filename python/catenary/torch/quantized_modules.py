# SPDX-License-Identifier: Apache-2.0
"""`QuantizedLinear`, a linear layer with a packed weight, from layers of torch, compressed-tensors and torchao."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from catenary.arguments import integers, shown
from catenary.errors import ArgumentError
from catenary.repack import packed_bytes, repack, repack_zeros
from catenary.torch import quantized
from catenary.torch.forms import activation_name
from catenary.torch.kinds import checked, refuse_kinds

Tensor = torch.Tensor


class QuantizedLinear(nn.Module):
    """`torch.nn.Linear` with a weight of 4 or 8 bits, which has no gradient: see `catenary.torch.quantized_linear`.

    Buffers: `weight`, uint8, the packed bytes; `scale` [out_features, groups]; `zero` int8 [out_features, groups] or
    None; `bias` [out_features] or None. `to()` and `half()` convert scale and bias. The layouts of the buffers do not
    depend on the device, so a state_dict moves between machines.

    Args:
        weight_dtype: "i4", "u4" or "i8".
        group: columns that share a scale; None: all of a row.
        symmetric: without zeros.
        activation: one of `catenary.torch.ACTIVATIONS`, or None.
        scale_dtype: of scale and bias.
    """

    @checked
    def __init__(self, in_features: int, out_features: int, bias: bool = True, *, weight_dtype: str = "i4",
                 group: int | None = 128, symmetric: bool = True, activation: str | None = None,
                 scale_dtype: torch.dtype = torch.bfloat16, device: Any = None):  # fmt: skip
        super().__init__()
        if weight_dtype not in ("i8", "i4", "u4"):
            raise ArgumentError(f"weight_dtype is {weight_dtype!r}: use 'i8', 'i4' or 'u4'")
        if group is not None and group < 1:
            raise ArgumentError(f"group is {group}: use a positive number of columns, or None for a whole row")
        self.in_features, self.out_features = in_features, out_features
        self.weight_dtype = weight_dtype
        self.group = max(in_features if group is None else min(group, in_features), 1)
        self.activation = activation_name(activation)
        blocks = (out_features, -(-in_features // self.group))
        size = packed_bytes(weight_dtype, out_features, in_features)
        self.register_buffer("weight", torch.zeros(size, dtype=torch.uint8, device=device))
        self.register_buffer("scale", torch.ones(blocks, dtype=scale_dtype, device=device))
        self.register_buffer("zero", None if symmetric else torch.zeros(blocks, dtype=torch.int8, device=device))
        self.register_buffer("bias", torch.zeros(out_features, dtype=scale_dtype, device=device) if bias else None)

    @classmethod
    @checked
    def from_linear(cls, layer: nn.Linear, bits: int = 4, group: int | None = 128, symmetric: bool = True,
                    activation: str | None = None) -> QuantizedLinear:  # fmt: skip
        """The layer with its weight rounded to the nearest of 2^bits values, without calibration.

        Symmetric: scale = (largest |w| of the group) / ((2^bits - 1) / 2), q = round(w / scale), no less than
        -2^(bits - 1) and no more than 2^(bits - 1) - 1. Else scale = (max(w, 0) - min(w, 0)) / (2^bits - 1), and a zero
        moves the values, so that 0 stays 0. Scales and bias have the dtype of the layer.
        """
        if bits not in (4, 8):
            raise ArgumentError(f"bits is {bits}: use 4 or 8")
        if group is not None and group < 1:
            raise ArgumentError(f"group is {group}: use a positive number of columns, or None for a whole row")
        weight = layer.weight.detach()
        if not weight.is_floating_point() or not bool(torch.isfinite(weight).all()):
            raise ArgumentError("the weight of the layer has values that are no finite numbers: quantise finite ones")
        width = max(layer.in_features, 1) if group is None else group
        values, scale, zero = _round_to_nearest(weight, bits, width, symmetric)
        return cls.from_values(values, scale, zero, layer.bias, bits=bits, group=group, activation=activation)

    @classmethod
    @checked
    def from_values(cls, values: Tensor, scale: Tensor, zero: Tensor | None = None, bias: Tensor | None = None, *,
                    bits: int, group: int | None = None, activation: str | None = None) -> QuantizedLinear:  # fmt: skip
        """From integers q, int8 [n, k] of the range of `bits` with sign: the weight is (q - zero) * scale.

        scale: [n, groups]. zero: int8 [n, groups], or None for 0. group: None: k / groups. Buffers are on the values'
        device.
        """
        if values.dtype != torch.int8 or values.dim() != 2:
            raise ArgumentError(f"values is {values.dtype} of {values.dim()} dimensions: pass int8 [n, k]")
        rows = values.detach().cpu().contiguous()
        packed = repack(rows, "plain", "i4" if bits == 4 else "i8")
        return cls._of(torch.from_numpy(packed), tuple(values.shape), scale, zero, bias, f"i{bits}", group, activation,
                       values.device)  # fmt: skip

    @classmethod
    @checked
    def from_compressed_tensors(cls, packed: Tensor, scale: Tensor, zero: Tensor | None = None,
                                shape: Sequence[int] | Tensor | None = None, bias: Tensor | None = None,
                                activation: str | None = None) -> QuantizedLinear:  # fmt: skip
        """From the state of a module in the format "pack-quantized": weight_packed, weight_scale, weight_zero_point (as
        stored, int32 [n / f, groups]; None: symmetric), weight_shape. The columns are in order: no `weight_g_idx`.

        f, the values of a word, is 8 or 4; k is a multiple of it. Buffers are on the device of `packed`.

        shape: None: f is that which fits the rows of `zero` and the groups of `scale`. ArgumentError where both do, as
        without zeros they mostly do.
        """
        if packed.dtype != torch.int32 or packed.dim() != 2:
            raise ArgumentError(f"packed is {packed.dtype} of {packed.dim()} dimensions: pass weight_packed, int32")
        if shape is None:
            n, k = packed.shape[0], packed.shape[1] * (32 // _bits_of_words(packed, scale, zero))
        else:
            sizes = integers(shape.tolist() if isinstance(shape, Tensor) else shape, "shape")
            if len(sizes) != 2:
                raise ArgumentError(f"shape is {shown(shape)}: pass weight_shape, [n, k]")
            n, k = sizes
        bits = next((b for b in (4, 8) if k == packed.shape[1] * (32 // b)), None)
        if bits is None or n != packed.shape[0]:
            raise ArgumentError(
                f"packed has shape {list(packed.shape)} and the weight [{n}, {k}]: pass weight_packed [n, k / 8] of 4 "
                "bits or [n, k / 4] of 8"
            )
        dtype = f"i{bits}"
        if zero is not None:
            zero = torch.from_numpy(repack_zeros(zero.detach().cpu().contiguous(), "compressed-tensors", dtype, n))
        weight = torch.from_numpy(repack(packed.detach().cpu().contiguous(), "compressed-tensors", dtype))
        return cls._of(weight, (n, k), scale, zero, bias, dtype, None, activation, packed.device)

    @classmethod
    @checked
    def from_torchao(cls, layer: nn.Linear, activation: str | None = None) -> QuantizedLinear:
        """From a linear layer after `torchao.quantization.quantize_` with Int8WeightOnlyConfig, or IntxWeightOnlyConfig
        of 4 or 8 bits. Their zeros are integers. ArgumentError for other tensors, such as `Int4Tensor`, whose zeros
        are floats."""
        weight = layer.weight
        kind = type(weight).__name__
        if kind not in ("Int8Tensor", "IntxUnpackedToInt8Tensor"):
            why = ", whose zeros are floats" if kind.startswith("Int4") else ""
            raise ArgumentError(
                f"the weight is torchao's {kind}{why}: quantise the layer with Int8WeightOnlyConfig or "
                "IntxWeightOnlyConfig, or use from_linear"
            )
        for name in ("act_quant_kwargs", "act_pre_scale", "activation_quantization"):
            if getattr(weight, name, None) is not None:
                raise ArgumentError(
                    f"the layer quantises or scales its activations ({name}): use a configuration of weights only"
                )
        target = str(getattr(weight, "target_dtype", "torch.int8"))
        if target not in ("torch.int4", "torch.int8"):
            raise ArgumentError(f"the weight has values of {target}: use torch.int4 or torch.int8")
        rows, group = weight.block_size
        if rows != 1:
            raise ArgumentError(f"{rows} rows of the weight share a scale: use a granularity by row or by group")
        blocks = (weight.shape[0], -(-weight.shape[1] // group))
        zero = weight.zero_point
        if zero is not None:
            if zero.is_floating_point():
                raise ArgumentError("the weight's zeros are floats: use a configuration with integer zeros")
            zero = zero.to(torch.int8).reshape(blocks) if bool((zero != 0).any()) else None
        return cls.from_values(weight.qdata, weight.scale.reshape(blocks), zero, layer.bias, bits=int(target[-1]),
                               group=int(group), activation=activation)  # fmt: skip

    @classmethod
    def _of(cls, weight: Tensor, shape: tuple[int, int], scale: Tensor, zero: Tensor | None, bias: Tensor | None,
            dtype: str, group: int | None, activation: str | None, device: Any) -> QuantizedLinear:  # fmt: skip
        kind = quantized.kind_of(weight, scale, shape[1], dtype, group)
        if kind.rows != shape[0]:
            raise ArgumentError(f"scale has shape {list(scale.shape)} and the weight {list(shape)}: pass one row each")
        made = cls(kind.columns, kind.rows, bias is not None, weight_dtype=dtype, group=kind.group,
                   symmetric=zero is None, activation=activation, scale_dtype=scale.dtype, device="meta")  # fmt: skip
        made.weight, made.scale = weight.to(device), scale.detach().to(device).contiguous()
        if zero is not None:
            made.zero = zero.detach().to(device).contiguous()
        if bias is not None:
            made.bias = bias.detach().to(device)
        quantized._check_blocks(made.scale, made.zero)
        return made

    def forward(self, x: Tensor) -> Tensor:
        """x: bf16 or f16 [..., in_features]. The bias is converted to its dtype."""
        try:
            if x.shape[-1] != self.in_features:
                raise ArgumentError(f"x has {x.shape[-1]} columns: the layer has {self.in_features} features")
            bias = self.bias if self.bias is None or self.bias.dtype == x.dtype else self.bias.to(x.dtype)
            return quantized.quantized_linear(x, self.weight, self.scale, self.zero, bias, self.activation,
                                              weight_dtype=self.weight_dtype, group=self.group)  # fmt: skip
        except Exception:
            refuse_kinds(QuantizedLinear.forward, locals())
            raise

    @checked
    def dequantize(self, result: torch.dtype = torch.bfloat16) -> Tensor:
        """The weight [out_features, in_features]: see `catenary.torch.dequantize`."""
        return quantized.dequantize(self.weight, self.scale, self.zero, columns=self.in_features, group=self.group,
                                    weight_dtype=self.weight_dtype, result=result)  # fmt: skip

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, "
            f"weight_dtype={self.weight_dtype}, group={self.group}, symmetric={self.zero is None}, "
            f"activation={self.activation}"
        )


def _bits_of_words(packed: Tensor, scale: Tensor, zero: Tensor | None) -> int:
    """4 or 8: the bits of the values in words [n, w], if the sizes of scale and zero fit only one."""
    n, words = packed.shape

    def fits(bits: int) -> bool:
        count = 32 // bits
        whole = scale.dim() != 2 or words * count % max(scale.shape[1], 1) == 0
        return whole and (zero is None or zero.dim() != 2 or zero.shape[0] == -(-n // count))

    fitting = [bits for bits in (4, 8) if fits(bits)]
    if len(fitting) != 1:
        raise ArgumentError(
            f"packed has shape [{n}, {words}], and scale and zero do not say whether its values have 4 or 8 bits: pass "
            "shape, which is weight_shape, [n, k]"
        )
    return fitting[0]


def _round_to_nearest(weight: Tensor, bits: int, group: int,
                      symmetric: bool) -> tuple[Tensor, Tensor, Tensor | None]:  # fmt: skip
    """Integers int8 [n, k], scales and zeros [n, groups], computed in f32 with the scale as it is stored."""
    n, k = weight.shape
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    padded = torch.nn.functional.pad(weight.to(torch.float32), (0, -k % group)).view(n, -(-k // group), group)
    if symmetric:
        step = padded.abs().amax(-1) / ((high - low) / 2)
    else:
        least, most = padded.amin(-1).clamp(max=0), padded.amax(-1).clamp(min=0)
        step = (most - least) / (high - low)
    scale = step.to(weight.dtype)
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))  # a group of zeros, or of numbers too small
    real = scale.to(torch.float32)
    zero = None if symmetric else (torch.round(-least / real) + low).clamp(low, high)
    values = torch.round(padded / real.unsqueeze(-1))
    if zero is not None:
        values = values + zero.unsqueeze(-1)
    values = values.clamp(low, high).to(torch.int8).flatten(1)[:, :k]
    return values, scale, None if zero is None else zero.to(torch.int8)
