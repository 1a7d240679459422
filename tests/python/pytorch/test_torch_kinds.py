# SPDX-License-Identifier: Apache-2.0
"""Every public function and module of catenary.torch with arguments of other kinds: see ../kinds.py."""

import re

import pytest

torch = pytest.importorskip("torch")
from kinds import failures, functions_of

import catenary as ctn
import catenary.torch as ct
from catenary.torch import operators

TEXT = """chain layer(input x: f32[4, 32], weight w: f32[16, 32], scalar s: f32) {
  y = contract "mk,nk->mn" f32 (x, w)
  t = scale(y, s)
  return t: f32
}"""
LEFT = {"Conversion", "ChainFunction.accumulating", "ChainFunction.training", "ChainFunction.training_of",
        "ChainFunction.graph_keys"}  # fmt: skip
NO_ARGUMENTS = {"report", "register_with_transformers"}


def t(*shape):
    return torch.randn(shape)


def offs():
    return torch.tensor([1, 4], dtype=torch.int32)


def linear(**options):
    return torch.nn.Linear(32, 16, **options)


def fp8(*shape):
    return t(*shape).to(torch.float8_e4m3fn)


def packed():
    layer = ct.QuantizedLinear.from_linear(linear().bfloat16(), group=32)
    return dict(weight=layer.weight, scale=layer.scale, zero=torch.zeros(16, 1, dtype=torch.int8))


def mlp():
    return ct.GLU(32, 16)


def method(kind, name, **arguments):
    return lambda: (getattr(kind() if callable(kind) else kind, name), dict(arguments))


SIZES = dict(bias=True, activation=None, device=None, dtype=None, recompute="none")
MODULES = {
    "Linear": lambda: (ct.Linear, dict(in_features=32, out_features=16, fuse_wgrad_accumulation=False, **SIZES)),
    "GLU": lambda: (ct.GLU, dict(hidden_size=32, intermediate_size=16, fuse_wgrad_accumulation=False, **SIZES)),
    "SwiGLU": lambda: (ct.SwiGLU, dict(hidden_size=32, intermediate_size=16, bias=False, device=None, dtype=None)),
    "GroupedLinear": lambda: (ct.GroupedLinear, dict(groups=2, in_features=32, out_features=16, **SIZES)),
    "Experts": lambda: (ct.Experts, dict(num_experts=2, hidden_size=32, intermediate_size=16, **SIZES)),
    "QuantizedLinear": lambda: (ct.QuantizedLinear, dict(
        in_features=32, out_features=16, bias=True, weight_dtype="i4", group=32, symmetric=True, activation=None,
        scale_dtype=torch.bfloat16, device=None)),
    "ScaledLinear": lambda: (ct.ScaledLinear, dict(
        in_features=32, out_features=16, bias=True, per="row", channels=True, activation=None, fast_accum=False,
        weight_dtype=torch.float8_e4m3fn, dtype=torch.bfloat16, device=None)),
    "Linear.of": lambda: (ct.Linear.of, dict(layer=linear(), activation=None)),
    "SwiGLU.of": lambda: (ct.SwiGLU.of, dict(mlp=mlp(), activation="silu")),
    "GLU.of": lambda: (ct.GLU.of, dict(mlp=mlp(), activation="silu")),
    "QuantizedLinear.from_linear": lambda: (ct.QuantizedLinear.from_linear, dict(
        layer=linear(), bits=4, group=32, symmetric=True, activation=None)),
    "QuantizedLinear.from_values": lambda: (ct.QuantizedLinear.from_values, dict(
        values=torch.zeros(16, 32, dtype=torch.int8), scale=t(16, 1), zero=None, bias=t(16), bits=4, group=32,
        activation=None)),
    "QuantizedLinear.from_compressed_tensors": lambda: (ct.QuantizedLinear.from_compressed_tensors, dict(
        packed=torch.zeros(16, 4, dtype=torch.int32), scale=t(16, 1), zero=None, shape=(16, 32), bias=t(16),
        activation=None)),
    "QuantizedLinear.from_torchao": lambda: (ct.QuantizedLinear.from_torchao, dict(layer=linear(), activation=None)),
    "ScaledLinear.of": lambda: (ct.ScaledLinear.of, dict(
        weight=fp8(16, 32), weight_scale=t(16), bias=t(16), per="row", input_scale=None, activation=None,
        fast_accum=False)),
    "ScaledLinear.from_linear": lambda: (ct.ScaledLinear.from_linear, dict(
        layer=linear(), per="row", channels=True, activation=None, fast_accum=False)),
    "ScaledLinear.from_torchao": lambda: (ct.ScaledLinear.from_torchao, dict(layer=linear(), activation=None)),
    "QuantizedLinear.dequantize": method(lambda: ct.QuantizedLinear(32, 16), "dequantize", result=torch.float32),
    "ScaledLinear.dequantize": method(lambda: ct.ScaledLinear(32, 16), "dequantize", result=torch.float32),
    "Linear.forward": method(lambda: ct.Linear(32, 16), "forward", x=t(4, 32)),
    "GLU.forward": method(mlp, "forward", x=t(4, 32)),
    "SwiGLU.forward": method(lambda: ct.SwiGLU(32, 16), "forward", x=t(4, 32)),
    "GroupedLinear.forward": method(lambda: ct.GroupedLinear(2, 32, 16), "forward", x=t(4, 32), offs=offs()),
    "Experts.forward": method(lambda: ct.Experts(2, 32, 16), "forward", hidden_states=t(4, 32),
                              top_k_index=torch.zeros(4, 1, dtype=torch.int64), top_k_weights=t(4, 1)),
    "QuantizedLinear.forward": method(lambda: ct.QuantizedLinear(32, 16), "forward", x=t(4, 32).bfloat16()),
    "ScaledLinear.forward": method(lambda: ct.ScaledLinear(32, 16), "forward", x=t(4, 32).bfloat16()),
}  # fmt: skip
CALLS = {
    **MODULES,
    "linear": lambda: (ct.linear, dict(x=t(4, 32), w=t(16, 32), b=t(16), activation="silu", recompute="none",
                                       fuse_wgrad_accumulation=False)),
    "glu": lambda: (ct.glu, dict(x=t(4, 32), w=t(16, 32), w_up=t(16, 32), b=t(16), b_up=t(16), activation="silu",
                                 recompute="none", fuse_wgrad_accumulation=False)),
    "glu_mlp": lambda: (ct.glu_mlp, dict(x=t(4, 32), w_gate=t(16, 32), w_up=t(16, 32), w_down=t(32, 16),
                                         activation="silu", recompute="none", fuse_wgrad_accumulation=False)),
    "grouped_linear": lambda: (ct.grouped_linear, dict(x=t(4, 32), w=t(2, 16, 32), b=t(2, 16), activation=None,
                                                       offs=offs(), recompute="none")),
    "grouped_glu_mlp": lambda: (ct.grouped_glu_mlp, dict(
        x=t(4, 32), w_gate=t(2, 16, 32), w_up=t(2, 16, 32), w_down=t(2, 32, 16), offs=offs(), activation="silu",
        scale=t(4), b_gate=t(2, 16), b_up=t(2, 16), b_down=t(2, 32), recompute="none")),
    "experts": lambda: (ct.experts, dict(
        hidden_states=t(4, 32), top_k_index=torch.zeros(4, 1, dtype=torch.int64), top_k_weights=t(4, 1),
        gate_up_proj=t(2, 32, 32), down_proj=t(2, 32, 16), activation="silu", gate_up_bias=None, down_bias=None,
        recompute="none")),
    "scaled_linear": lambda: (ct.scaled_linear, dict(
        x=fp8(4, 32), w=fp8(16, 32), x_scale=t(4), w_scale=t(16), bias=t(16), activation="silu",
        out_dtype=torch.float8_e4m3fn, out_scale=t(1), fast_accum=False)),
    "scaled_grouped_linear": lambda: (ct.scaled_grouped_linear, dict(
        x=fp8(4, 32), w=fp8(2, 16, 32), x_scale=t(4), w_scale=t(2, 16), offs=offs(), bias=t(2, 16), activation=None,
        out_dtype=torch.float8_e4m3fn, out_scale=t(1), fast_accum=False)),
    "quantize_fp8": lambda: (ct.quantize_fp8, dict(x=t(4, 32), per="row", dtype=torch.float8_e4m3fn)),
    "quantized_linear": lambda: (ct.quantized_linear, dict(
        x=t(4, 32).bfloat16(), **packed(), bias=t(16).bfloat16(), activation="silu", weight_dtype="i4", group=32)),
    "dequantize": lambda: (ct.dequantize, dict(**packed(), columns=32, weight_dtype="i4", group=32,
                                               result=torch.float32)),
    "chain": lambda: (ct.chain, dict(chain=TEXT, exact=True, recompute="none", save_budget=0)),
    "ChainFunction": lambda: (ct.ChainFunction, dict(chain=ctn.Chain.parse(TEXT), exact=True, recompute="none",
                                                     save_budget=0)),
    "ChainFunction.__call__": lambda: (ct.chain(TEXT), {"*x": [t(4, 32)], "*w": [t(16, 32)], "*s": [2.0]}),
    "convert": lambda: (ct.convert, dict(model=linear())),
    "compile": lambda: (ct.compile, dict(model=linear(), dynamic=None, fullgraph=False, mode=None, options=None)),
    "backend": lambda: (lambda **named: ct.backend(None, [], **named), dict()),
    "add_pack": lambda: (ct.add_pack, dict(pack="none")),
    "use_engine": lambda: (ct.use_engine, dict(engine=None)),
    "set_pdl": lambda: (ct.set_pdl, dict(allow=False)),
    "set_host": lambda: (ct.set_host, dict(host="reference")),
    "operators.add": lambda: (operators.add, dict(chain=ctn.Chain.parse(TEXT), exact=True, pdl=False)),
    "operators.run_out": lambda: (operators.run_out, dict(
        form=operators.add(ctn.Chain.parse(TEXT)), inputs=[t(4, 32), t(16, 32)], outs=[t(4, 16)], scalars=[1.0])),
}  # fmt: skip


def test_every_function_is_called():
    ours = {name for name in functions_of(ct, LEFT) if not name.endswith((".extra_repr", ".reset_parameters"))}
    assert ours - set(CALLS) - NO_ARGUMENTS == set()


@pytest.fixture(autouse=True)
def state():
    """What calls change for the whole process."""
    yield
    ct.set_pdl(False)
    ct.use_engine(None)


MORE = {
    "tensor": torch.zeros(2), "matrix": torch.zeros(2, 2), "integers": torch.zeros(3, dtype=torch.int32),
    "tensor of no dimension": torch.zeros(()), "module": torch.nn.ReLU(), "torch dtype": torch.float64,
    "complex": torch.zeros(2, dtype=torch.complex64), "device": torch.device("cpu"),
}  # fmt: skip


@pytest.mark.parametrize("gradients", [False, True], ids=["", "gradients"])
@pytest.mark.parametrize("name", CALLS)
def test_kinds_of_arguments(name, gradients, monkeypatch):
    """Operators raise RuntimeErrors of one sentence for tensors that do not fit, as docs/pytorch.md says."""

    def make():
        function, arguments = CALLS[name]()
        if gradients:
            for key, value in arguments.items():
                for tensor in value if key.startswith("*") else [value]:
                    if isinstance(tensor, torch.Tensor) and tensor.dtype == torch.float32:
                        tensor.requires_grad_()
        return function, arguments

    known = re.compile(r"RuntimeError: (.*\[catenary \w+\]$|Found no NVIDIA driver)|(device ordinal|no CUDA GPUs)")
    found = [line for line in failures(name, make, MORE.items()) if not known.search(line)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "call, sentence",
    [
        (lambda: ct.linear(t(4, 32).numpy(), t(16, 32)), "x is array.*, of type ndarray: pass a torch.Tensor"),
        (lambda: ct.grouped_linear(t(4, 32), t(2, 16, 32), offs=[1]), r"offs is \[1\], of type list: pass a torch"),
        (lambda: ct.linear(t(4, 32), t(16, 32), activation=["silu"]), "activation is .*, of type list: pass a str"),
        (lambda: ct.linear(t(4, 32), t(16, 32).requires_grad_(), recompute="some"), "recompute is 'some': use 'none'"),
        (lambda: ct.chain(TEXT)(t(4, 32), [1], 2.0), r"'w' is \[1\], of type list: pass a torch.Tensor"),
        (lambda: ct.chain(TEXT)(t(4, 32), t(16, 32), "2"), "scalar 0 is '2', of type str: pass a number"),
        (lambda: ct.Linear("32", 16), "in_features is '32', of type str: pass an integer"),
        (lambda: ct.Linear(32, 16, dtype="bf16"), "dtype is 'bf16', of type str: pass a torch.dtype or None"),
        (lambda: ct.SwiGLU(32, 16, activation="gelu"), "activation is 'gelu': SwiGLU has 'silu'"),
        (lambda: ct.convert("model"), "model is 'model', of type str: pass a torch.nn.Module"),
    ],
)
def test_sentences(call, sentence):
    with pytest.raises(ctn.ArgumentError, match=sentence) as caught:
        call()
    assert isinstance(caught.value, TypeError if "of type" in sentence else ValueError)


def test_a_gated_layer_shares_parameters():
    layer = mlp()
    for shared in (ct.GLU.of(layer), ct.SwiGLU.of(layer)):
        assert shared.up_proj is layer.up_proj and torch.equal(shared(t(4, 32).zero_()), torch.zeros(4, 32))
