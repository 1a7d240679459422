# SPDX-License-Identifier: Apache-2.0
"""`ScaledLinear`, a linear layer with weight and activations of fp8, from layers of torch, torchao and
compressed-tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from catenary.errors import ArgumentError
from catenary.torch import operators
from catenary.torch.forms import activation_name
from catenary.torch.kinds import checked, refuse_kinds
from catenary.torch.scaled import quantize_fp8, scaled_linear

Tensor = torch.Tensor


class ScaledLinear(nn.Module):
    """`torch.nn.Linear` with a weight of fp8, whose x is rounded to fp8 at each call, for inference: see
    `catenary.torch.scaled_linear`.

    Buffers: `weight` fp8 [out_features, in_features]; `weight_scale` f32 [out_features] or [1]; `input_scale` f32 [1]
    or None; `bias` [out_features] or None. `to()` and `half()` convert the bias only.

    Args:
        per: of x's scales: "row", "tensor", or "static", which is `input_scale`.
        channels: a scale per row of the weight, else one.
        activation: one of `catenary.torch.ACTIVATIONS`, or None.
        fast_accum: as for `scaled_linear`.
        weight_dtype: float8_e4m3fn or float8_e5m2, also of x.
        dtype: of the bias.
    """

    @checked
    def __init__(self, in_features: int, out_features: int, bias: bool = True, *, per: str = "row",
                 channels: bool = True, activation: str | None = None, fast_accum: bool = False,
                 weight_dtype: torch.dtype = torch.float8_e4m3fn, dtype: torch.dtype = torch.bfloat16,
                 device: Any = None):  # fmt: skip
        super().__init__()
        if per not in ("row", "tensor", "static"):
            raise ArgumentError(f"per is {per!r}: use 'row', 'tensor' or 'static'")
        if weight_dtype not in operators.FP8:
            raise ArgumentError(f"weight_dtype is {weight_dtype}: use float8_e4m3fn or float8_e5m2")
        self.in_features, self.out_features = in_features, out_features
        self.per, self.fast_accum = per, fast_accum
        self.activation = activation_name(activation)
        f32 = dict(dtype=torch.float32, device=device)
        self.register_buffer("weight", torch.zeros(out_features, in_features, dtype=weight_dtype, device=device))
        self.register_buffer("weight_scale", torch.ones(out_features if channels else 1, **f32))
        self.register_buffer("input_scale", torch.ones(1, **f32) if per == "static" else None)
        self.register_buffer("bias", torch.zeros(out_features, dtype=dtype, device=device) if bias else None)

    @classmethod
    @checked
    def of(cls, weight: Tensor, weight_scale: Tensor, bias: Tensor | None = None, *, per: str = "row",
           input_scale: Tensor | None = None, activation: str | None = None,
           fast_accum: bool = False) -> ScaledLinear:  # fmt: skip
        """From an fp8 weight [n, k], whose value is weight * weight_scale.

        weight_scale: [n], [n, 1] or one element. input_scale: one element, for per="static". Both become f32.
        """
        if weight.dtype not in operators.FP8 or weight.dim() != 2:
            raise ArgumentError(f"weight is {weight.dtype} of {weight.dim()} dimensions: pass fp8 [n, k]")
        n, k = weight.shape
        if weight_scale.numel() != 1 and weight_scale.shape not in ((n,), (n, 1)):
            raise ArgumentError(
                f"weight_scale has shape {list(weight_scale.shape)}: the layer takes [{n}], [{n}, 1] or one element, "
                "no blocks"
            )
        if (input_scale is None) == (per == "static") or (input_scale is not None and input_scale.numel() != 1):
            raise ArgumentError("input_scale is one element with per='static', and None otherwise")
        made = cls(k, n, bias is not None, per=per, channels=weight_scale.numel() > 1, activation=activation,
                   fast_accum=fast_accum, weight_dtype=weight.dtype, device="meta")  # fmt: skip
        made.weight = weight.detach().contiguous()
        made.weight_scale = weight_scale.detach().to(torch.float32).reshape(-1)
        if input_scale is not None:
            made.input_scale = input_scale.detach().to(torch.float32).reshape(1)
        if bias is not None:
            made.bias = bias.detach()
        return made

    @classmethod
    @checked
    def from_linear(cls, layer: nn.Linear, *, per: str = "row", channels: bool = True, activation: str | None = None,
                    fast_accum: bool = False) -> ScaledLinear:  # fmt: skip
        """The layer with its weight rounded to float8_e4m3fn, by `quantize_fp8`: a scale per row, or one."""
        if per == "static":
            raise ArgumentError("a static scale of x needs calibration: use ScaledLinear.of with input_scale")
        weight, scale = quantize_fp8(layer.weight.detach(), "row" if channels else "tensor")
        return cls.of(weight, scale, layer.bias, per=per, activation=activation, fast_accum=fast_accum)

    @classmethod
    @checked
    def from_torchao(cls, layer: nn.Linear, activation: str | None = None) -> ScaledLinear:
        """From a linear layer after `torchao.quantization.quantize_` with Float8DynamicActivationFloat8WeightConfig.

        The scale of x is computed in f32, there in x's dtype. ArgumentError for other tensors, such as those of
        Float8WeightOnlyConfig: no kernel multiplies bf16 by fp8.
        """
        weight = layer.weight
        if type(weight).__name__ != "Float8Tensor":
            raise ArgumentError(
                f"the weight is torchao's {type(weight).__name__}: quantise the layer with "
                "Float8DynamicActivationFloat8WeightConfig, or use from_linear"
            )
        given = weight.act_quant_kwargs
        if given is None:
            raise ArgumentError("only the weight is fp8, and no kernel multiplies it by another dtype: quantise x too")
        if given.float8_dtype != weight.qdata.dtype or given.hp_value_lb is not None or given.hp_value_ub is not None:
            raise ArgumentError("x has another dtype than the weight, or bounds of its scale: use neither")
        kind = type(given.granularity).__name__
        if kind not in ("PerRow", "PerTensor"):
            raise ArgumentError(f"x has scales by {kind}: use PerRow or PerTensor")
        fast = bool(getattr(weight.mm_config, "use_fast_accum", False))
        return cls.of(weight.qdata, weight.scale, layer.bias, per="row" if kind == "PerRow" else "tensor",
                      activation=activation, fast_accum=fast)  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """x: bf16, f16 or f32 [..., in_features]; under autocast the result has its dtype."""
        try:
            if x.shape[-1] != self.in_features:
                raise ArgumentError(f"x has {x.shape[-1]} columns: the layer has {self.in_features} features")
            if x.dtype not in (torch.bfloat16, torch.float16, torch.float32):
                raise ArgumentError(f"x is {x.dtype}: use bfloat16, float16 or float32")
            if torch.is_grad_enabled() and x.requires_grad:
                raise ArgumentError("a product of fp8 tensors has no gradient: call the layer under torch.no_grad()")
            device = x.device.type
            cast = device in ("cpu", "cuda") and torch.is_autocast_enabled(device)
            result = torch.get_autocast_dtype(device) if cast else x.dtype
            if self.per == "static":
                largest = torch.finfo(self.weight.dtype).max
                scale = self.input_scale
                q = (x.to(torch.float32) / scale).clamp(-largest, largest).to(self.weight.dtype)
            else:
                q, scale = quantize_fp8(x, self.per, self.weight.dtype)
            return scaled_linear(q, self.weight, scale, self.weight_scale, self.bias, self.activation, out_dtype=result,
                                 fast_accum=self.fast_accum)  # fmt: skip
        except Exception:
            refuse_kinds(ScaledLinear.forward, locals())
            raise

    @checked
    def dequantize(self, result: torch.dtype = torch.bfloat16) -> Tensor:
        """The weight [out_features, in_features]."""
        return (self.weight.to(torch.float32) * self.weight_scale.reshape(-1, 1)).to(result)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> ScaledLinear:
        kept = {name: buffer for name in ("weight", "weight_scale", "input_scale")
                if (buffer := getattr(self, name)) is not None}  # fmt: skip
        super()._apply(fn, recurse)
        for name, before in kept.items():  # fp8 is a float for half(), but is no number without its scale
            after = getattr(self, name)
            if after.dtype != before.dtype:
                setattr(self, name, before.to(after.device))
        return self

    def __getstate__(self) -> dict[str, Any]:
        # torch 2.11 pickles no fp8 tensors, but their bytes.
        buffers = {**self._buffers, "weight": self.weight.view(torch.uint8)}
        return {**self.__dict__, "_buffers": buffers, "_weight_dtype": self.weight.dtype}

    def __setstate__(self, state: dict[str, Any]) -> None:
        own = dict(state)
        dtype = own.pop("_weight_dtype")
        super().__setstate__(own)
        self._buffers["weight"] = self._buffers["weight"].view(dtype)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, "
            f"weight_dtype={self.weight.dtype}, per={self.per}, channels={self.weight_scale.numel() > 1}, "
            f"activation={self.activation}"
        )
