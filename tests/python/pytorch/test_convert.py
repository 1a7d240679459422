# SPDX-License-Identifier: Apache-2.0
"""`ScaledLinear`, and `convert` on models of torchao and compressed-tensors."""

import copy
import io
import pickle

import pytest

torch = pytest.importorskip("torch")
from torch import nn

import catenary as ctn
import catenary.torch as ct
from catenary.torch.graph import CatenaryPass

BF16, E4M3 = torch.bfloat16, torch.float8_e4m3fn


def expected(layer, x, scale=None):
    """What the layer computes, from its buffers, in float64."""
    if layer.per == "static":
        q, scale = (x.float() / layer.input_scale).clamp(-448, 448).to(E4M3), layer.input_scale
    else:
        q, scale = ct.quantize_fp8(x, layer.per)
    y = (q.double() * scale) @ (layer.weight.double() * layer.weight_scale.reshape(-1, 1)).t()
    return y if layer.bias is None else y + layer.bias.double()


@pytest.fixture
def hopper(device):
    if device.type == "cuda" and torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("fp8 kernels are for compute capability 9.0")
    return device


@pytest.mark.parametrize("per", ["row", "tensor"])
@pytest.mark.parametrize("channels", [True, False], ids=["channels", "tensor"])
@pytest.mark.parametrize("shape", [(3, 5, 64), (64,), (0, 64)])
def test_from_linear(hopper, near, per, channels, shape):
    source = nn.Linear(64, 48, dtype=BF16, device=hopper)
    layer = ct.ScaledLinear.from_linear(source, per=per, channels=channels)
    x = torch.randn(shape, dtype=BF16, device=hopper)
    near(layer(x), expected(layer, x), BF16)
    near(layer(x), source(x).double(), BF16, factor=4)


def test_the_state_of_a_module(hopper, near):
    layer = ct.ScaledLinear.from_linear(nn.Linear(64, 48, device=hopper), activation="relu")
    x = torch.randn(4, 64, device=hopper)
    wanted = layer(x)
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    made = ct.ScaledLinear(64, 48, activation="relu", dtype=torch.float32, device=hopper)
    made.load_state_dict(layer.state_dict())
    copies = [made, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), torch.load(file, weights_only=False)]
    for other in copies:
        assert torch.equal(other(x), wanted)
    # Sums of fp8 products have 13 fraction bits in the tensor cores.
    near(wanted, expected(layer, x).relu(), factor=16)
    half = copies[1].half()
    assert half.weight.dtype == E4M3 and half.weight_scale.dtype == torch.float32 and half.bias.dtype == torch.float16
    near(half(x.half()), expected(layer, x.half()).relu(), torch.float16)
    assert copies[2].to("meta").weight.is_meta
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    near(compiled(x), wanted.double())
    with torch.autocast(hopper.type, dtype=BF16):
        assert layer(x).dtype == BF16


def test_modules_refuse():
    layer = ct.ScaledLinear(32, 16)
    for call, sentence in [
        (lambda: layer(torch.zeros(2, 16)), "x has 16 columns"),
        (lambda: layer(torch.zeros(2, 32, dtype=torch.int32)), "x is torch.int32"),
        (lambda: layer(torch.zeros(2, 32, requires_grad=True)), "has no gradient"),
        (lambda: ct.ScaledLinear(8, 8, per="block"), "per is 'block'"),
        (lambda: ct.ScaledLinear(8, 8, weight_dtype=BF16), "weight_dtype is torch.bfloat16"),
        (lambda: ct.ScaledLinear.from_linear(nn.Linear(8, 8), per="static"), "needs calibration"),
        (lambda: ct.ScaledLinear.of(torch.zeros(8, 8), torch.ones(1)), "pass fp8"),
        (lambda: ct.ScaledLinear.of(layer.weight, torch.ones(2, 2)), "no blocks"),
        (lambda: ct.ScaledLinear.of(layer.weight, torch.ones(1), per="static"), "input_scale is one element"),
    ]:
        with pytest.raises(ctn.ArgumentError, match=sentence):
            call()


def float8_layer(n, k, tensor=False, activations=True, dtype=BF16, **options):
    """As quantize_ makes it, which asks for a GPU."""
    pytest.importorskip("torchao")
    from torchao.float8.inference import Float8MMConfig
    from torchao.quantization import Float8Tensor, PerRow, PerTensor
    from torchao.quantization.quantize_.common.kernel_preference import KernelPreference
    from torchao.quantization.quantize_.workflows.float8.float8_tensor import QuantizeTensorToFloat8Kwargs

    kind = PerTensor() if tensor else PerRow()
    layer = nn.Linear(k, n, dtype=dtype)
    kwargs = QuantizeTensorToFloat8Kwargs(granularity=kind, **options) if activations else None
    made = Float8Tensor.from_hp(
        layer.weight.detach(),
        granularity=kind,
        mm_config=Float8MMConfig(use_fast_accum=True),
        kernel_preference=KernelPreference.TORCH,
        act_quant_kwargs=kwargs,
    )
    layer.weight = nn.Parameter(made, requires_grad=False)
    return layer


@pytest.mark.parametrize("tensor", [False, True], ids=["row", "tensor"])
def test_torchao_fp8(near, tensor):
    source = float8_layer(48, 64, tensor)
    layer, found = ct.convert(source)  # the model itself
    assert isinstance(layer, ct.ScaledLinear) and layer.per == ("tensor" if tensor else "row")
    assert [str(c) for c in found] == ["taken: the model (Linear of torchao, Float8Tensor): ScaledLinear"]
    assert layer.fast_accum and torch.equal(layer.dequantize(torch.float32), source.weight.dequantize(torch.float32))
    x = torch.randn(6, 64, dtype=BF16)
    near(layer(x), x.double() @ source.weight.dequantize(torch.float64).t() + source.bias.double(), BF16, factor=4)


def test_a_model_of_torchao(near):
    ao = pytest.importorskip("torchao.quantization")
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Sequential(nn.Linear(128, 64), nn.Linear(64, 32)))
    shared = nn.Linear(32, 32)
    model.append(shared).append(shared).append(nn.Linear(32, 32)).append(nn.Linear(32, 16)).eval()
    model.to(BF16)
    ao.quantize_(model[0], ao.Int8WeightOnlyConfig())
    ao.quantize_(model[2], ao.IntxWeightOnlyConfig(weight_dtype=torch.int4))
    ao.quantize_(shared, ao.Int8WeightOnlyConfig())
    ao.quantize_(model[5], ao.Int8DynamicActivationInt8WeightConfig())
    x = torch.randn(3, 64, dtype=BF16)
    wanted = model[:5](x).double()
    converted, found = ct.convert(model)
    assert converted is model and model[3] is model[4] and type(model[6]) is nn.Linear
    assert [(c.name, c.taken) for c in found] == [("0", True), ("2.0", True), ("2.1", True), ("3", True), ("5", False)]
    assert "quantises or scales its activations" in found[-1].reason and not model[0].training
    near(converted[:5](x), wanted, BF16)
    assert [c.taken for c in ct.convert(model)[1]] == [False]  # what is ours is not listed again


def test_what_is_left_of_torchao(near):
    ao = pytest.importorskip("torchao.quantization")
    hooked = float8_layer(16, 32)
    hooked.register_forward_hook(lambda *_: None)
    bounded = float8_layer(16, 32, hp_value_lb=1e-6)
    lookup = nn.Embedding(8, 32)
    ao.quantize_(lookup, ao.IntxWeightOnlyConfig(weight_dtype=torch.int8), filter_fn=lambda *_: True)
    model = nn.ModuleList([float8_layer(16, 32, activations=False), hooked, bounded, lookup, nn.Linear(4, 4)])
    before = list(model)
    _, found = ct.convert(model)
    reasons = ["only the weight is fp8", "it has hooks", "bounds of its scale", "it is Embedding"]
    assert len(found) == 4 and not any(c.taken for c in found) and before == list(model)
    for conversion, reason in zip(found, reasons, strict=True):
        assert reason in conversion.reason, conversion


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


class Named(nn.Linear):
    """With the forward of nn.Linear."""


def int8_layers(*layers, dtype=BF16):
    ao = pytest.importorskip("torchao.quantization")
    model = nn.Sequential(*layers).to(dtype)
    ao.quantize_(model, ao.Int8WeightOnlyConfig())
    return model


def doubled(self, x):
    return 2 * nn.Linear.forward(self, x)


def with_a_forward(layer):
    layer.forward = doubled.__get__(layer)


@pytest.mark.parametrize(
    "change, reason",
    [
        (lambda layer: layer.register_forward_pre_hook(lambda *_: None), "it has hooks"),
        (lambda layer: layer.register_full_backward_hook(lambda *_: None), "it has hooks"),
        (lambda layer: layer.register_full_backward_pre_hook(lambda *_: None), "it has hooks"),
        (lambda layer: setattr(layer, "_hf_hook", object()), "it has hooks"),
        (with_a_forward, "it has a forward of its own"),
        (lambda layer: setattr(layer, "forward", lambda x: x), "it has a forward of its own"),
        (lambda layer: layer.to("meta"), "is on the meta device: load it first"),
        (lambda layer: setattr(layer, "bias", nn.Parameter(layer.bias.to("meta"))), "its bias is on the meta device"),
    ],
    ids=["pre", "backward", "backward pre", "accelerate", "instance", "function", "meta", "bias on meta"],
)
@pytest.mark.parametrize("library", ["torchao", "compressed-tensors"])
def test_a_layer_that_computes_something_else_is_left(library, change, reason):
    layer = int8_layers(nn.Linear(64, 32))[0] if library == "torchao" else compressed(INT4)[0]
    change(layer)
    model = nn.Sequential(layer)
    _, (found,) = ct.convert(model)
    assert model[0] is layer and not found.taken and reason in found.reason


def test_a_class_with_a_forward_of_its_own_is_left(device):
    model = int8_layers(Doubled(64, 32), Named(32, 16)).to(device)
    x = torch.randn(3, 64, dtype=BF16, device=device)
    wanted = model[0](x)
    _, found = ct.convert(model)
    assert [c.taken for c in found] == [False, True] and "it has a forward of its own" in found[0].reason
    assert torch.equal(model[0](x), wanted) and type(model[1]) is ct.QuantizedLinear


def test_a_gated_layer_calls_its_converted_projections(near):
    mlp = ct.GLU(64, 96, "gelu", bias=True)
    model = int8_layers(mlp)
    x = torch.randn(3, 64, dtype=BF16)
    wanted = mlp.down_proj(nn.functional.gelu(mlp.gate_proj(x)) * mlp.up_proj(x))
    _, found = ct.convert(model)
    assert [c.taken for c in found] == [True] * 3 and type(mlp.up_proj) is ct.QuantizedLinear
    near(model(x), wanted, BF16)


@pytest.mark.parametrize("library", ["torchao", "compressed-tensors"])
def test_a_layer_of_an_f32_model_is_left(device, library):
    """QuantizedLinear takes x of bf16 and f16."""
    f32 = torch.float32
    if library == "torchao":
        model = int8_layers(nn.Linear(64, 32), dtype=f32).to(device)
    else:
        model = nn.Sequential(compressed(INT4, dtype=f32)[0], compressed(INT4 | dict(symmetric=False), dtype=f32)[0])
    _, found = ct.convert(model)
    assert {c.reason for c in found} == {"its x is f32: convert the model to bf16 or f16 first"}
    if library == "torchao":
        assert model(torch.randn(3, 64, device=device)).dtype == f32
    scaled = float8_layer(48, 64, dtype=f32)  # it takes f32
    layer, _ = ct.convert(scaled)
    assert layer(torch.randn(3, 64)).dtype == f32


def test_layers_whose_weight_another_module_reads(device):
    """nn.TransformerEncoderLayer in eval mode, without gradients, passes the weights to one operator."""
    ao = pytest.importorskip("torchao.quantization")
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dtype=BF16, device=device).eval()
    model = nn.Sequential(nn.TransformerEncoder(layer, 1, enable_nested_tensor=False), nn.Linear(32, 8))
    model.to(device, BF16)
    ao.quantize_(model, ao.Int8WeightOnlyConfig())
    x = torch.randn(2, 5, 32, dtype=BF16, device=device)
    with torch.no_grad():
        wanted = model[0](x)
        _, found = ct.convert(model)
        assert torch.equal(model[0](x), wanted)
    assert [c.taken for c in found] == [False, False, True]
    assert all("nn.TransformerEncoderLayer reads its weight" in c.reason for c in found[:2])
    attention = nn.MultiheadAttention(32, 4, dtype=BF16, device=device)
    ao.quantize_(attention, ao.Int8WeightOnlyConfig(), filter_fn=lambda module, _: isinstance(module, nn.Linear))
    _, (left,) = ct.convert(attention)
    assert left.name == "out_proj" and "nn.MultiheadAttention reads its weight" in left.reason


def test_torch_compile_takes_the_products_of_torchao(near):
    """The pass over the graph that Inductor gets. Torch multiplies fp8 on the CPU with a scale per tensor."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._inductor.decomposition import select_decomp_table

    def passed(module, _):
        CatenaryPass("always")(module.graph)
        module.recompile()
        return module.forward

    layer = float8_layer(32, 64, tensor=True)
    x = torch.randn(6, 64, dtype=BF16)
    ct.decisions.clear()
    with torch.no_grad():
        backend = aot_autograd(fw_compiler=passed, decompositions=select_decomp_table())
        near(torch.compile(layer, fullgraph=True, backend=backend)(x), layer(x).double(), BF16)
    assert any(d.taken and "fast_accum" in d.chain for d in ct.decisions), [str(d) for d in ct.decisions]


def compressed(weights, inputs=None, n=48, k=64, dtype=BF16):
    """A compressed module of compressed-tensors."""
    pytest.importorskip("compressed_tensors")
    from compressed_tensors.compressors.base import compress_module
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme, QuantizationStatus
    from compressed_tensors.quantization.lifecycle.initialize import initialize_module_for_quantization
    from compressed_tensors.quantization.utils import calculate_qparams

    args = QuantizationArgs(**weights)
    scheme = QuantizationScheme(
        targets=["Linear"], weights=args, input_activations=QuantizationArgs(**inputs) if inputs else None
    )
    layer = nn.Linear(k, n, dtype=dtype)
    source = layer.weight.detach().clone()
    initialize_module_for_quantization(layer, scheme)
    sizes = {"tensor": (1, n * k), "channel": (n, k), "group": (n, k // (args.group_size or k), args.group_size or k)}
    blocks = source.reshape(sizes[str(args.strategy)])
    keep = str(args.strategy) != "group"
    scale, zero = calculate_qparams(blocks.amin(-1, keepdim=keep), blocks.amax(-1, keepdim=keep), args)
    layer.weight_scale.data.copy_(scale.reshape(layer.weight_scale.shape))
    if getattr(layer, "weight_zero_point", None) is not None:
        layer.weight_zero_point.data.copy_(zero.reshape(layer.weight_zero_point.shape))
    if getattr(layer, "input_scale", None) is not None:
        layer.input_scale.data.fill_(0.01)
    layer.quantization_status = QuantizationStatus.FROZEN
    compress_module(layer)
    return layer, source


INT4 = dict(num_bits=4, strategy="group", group_size=32)
FP8 = dict(num_bits=8, type="float", strategy="channel")


@pytest.mark.parametrize(
    "weights, inputs, kind",
    [
        (INT4, None, ct.QuantizedLinear),
        (INT4 | dict(symmetric=False), None, ct.QuantizedLinear),
        (dict(num_bits=8, strategy="channel"), None, ct.QuantizedLinear),
        (FP8, dict(num_bits=8, type="float", strategy="token", dynamic=True), ct.ScaledLinear),
        (FP8 | dict(strategy="tensor"), dict(num_bits=8, type="float", strategy="tensor"), ct.ScaledLinear),
    ],
    ids=["int4", "int4 zeros", "int8", "fp8 by token", "fp8 static"],
)
def test_compressed_tensors(near, weights, inputs, kind):
    layer, source = compressed(weights, inputs)
    made, found = ct.convert(nn.Sequential(layer))
    assert found[0].taken and type(made[0]) is kind, found[0]
    from compressed_tensors.compressors.base import decompress_module

    bias = layer.bias.double()
    decompress_module(layer)
    assert torch.equal(made[0].dequantize(BF16), layer.weight)
    near(layer.weight, source.double(), factor=1e4)
    x = torch.randn(4, 64, dtype=BF16)
    if kind is ct.ScaledLinear:
        assert made[0].per == ("static" if weights["strategy"] == "tensor" else "row")
        near(made(x), expected(made[0], x), BF16)
    else:
        wanted = x.double() @ made[0].dequantize(torch.float64).t() + bias
        near(made(x), wanted, BF16)


@pytest.mark.parametrize(
    "weights, inputs, reason",
    [
        (dict(num_bits=8, strategy="channel"), dict(num_bits=8, strategy="token", dynamic=True), "quantises x to int"),
        (FP8, None, "only the weight is fp8"),
    ],
)
def test_what_is_left_of_compressed_tensors(weights, inputs, reason):
    layer, _ = compressed(weights, inputs)
    made, (found,) = ct.convert(nn.Sequential(layer))
    assert made[0] is layer and not found.taken and reason in found.reason


def test_a_layer_that_is_not_compressed_is_left():
    layer, _ = compressed(INT4)
    layer.quantization_status = "frozen"
    _, (found,) = ct.convert(nn.Sequential(layer))
    assert not found.taken and "it is not compressed" in found.reason
