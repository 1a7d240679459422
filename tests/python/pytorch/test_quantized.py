# SPDX-License-Identifier: Apache-2.0
"""Quantised weights: packed bytes as arguments of operators, `quantized_linear`, `dequantize`, `QuantizedLinear`."""

import copy
import io
import pickle

import pytest

torch = pytest.importorskip("torch")

from conftest import run_python

import catenary as ctn
import catenary.torch as ct
from catenary.torch import operators, quantized
from catenary.torch.functional import chain_activation

WIDTHS = {"i8": (-128, 128), "i4": (-8, 8), "u4": (0, 16)}


def values_of(dtype, n, k):
    return torch.randint(*WIDTHS[dtype], (n, k))


def packed(values, dtype):
    """By numpy and the core package, so that `unpack` is not checked against itself."""
    rows, columns = values, None
    if dtype != "i8":
        columns = values.shape[1] if values.shape[1] % 2 else None
        rows = torch.nn.functional.pad(values, (0, values.shape[1] % 2)) & 15
        rows = rows[:, 0::2] | (rows[:, 1::2] << 4)
    kind = torch.int8 if dtype == "i8" else torch.uint8
    return torch.from_numpy(ctn.repack(rows.to(kind), "plain", dtype, columns))


def weight(dtype="i4", n=48, k=128, group=32, zero=False, device="cpu", scale_dtype=torch.bfloat16):
    """Packed bytes, scale, zero, and the weight in float64."""
    values = values_of(dtype, n, k)
    groups = -(-k // group)
    scale = (torch.rand(n, groups) + 0.5).to(scale_dtype) / 8
    zeros = values_of(dtype, n, groups).to(torch.int8) if zero else None

    def wide(blocks):
        return blocks.repeat_interleave(group, 1)[:, :k].double()

    real = (values - wide(zeros) if zero else values.double()) * wide(scale)
    tensors = [packed(values, dtype), scale, zeros, real]
    return [None if t is None else t.to(device) for t in tensors]


CHAIN = """chain c[M in 1..32](input x: bf16[M, 64], weight q: i4[40, 64] packed, weight s: bf16[40, 2],
                    weight z: i8[40, 2]) {
  w = dequant(q, s, z) block (1, 32)
  y = contract "mk,nk->mn"(x, w)
  return y: bf16
}"""


@pytest.mark.parametrize("exact", [True, False], ids=["exact", "from tensors"])
@pytest.mark.parametrize("bytes", [torch.uint8, torch.int8], ids=str)
def test_a_chain_takes_packed_bytes(device, near, exact, bytes):
    q, s, z, real = weight("i4", 40, 64, 32, zero=True, device=device)
    function = ct.chain(CHAIN, exact=exact)
    for shape in ((1, 64), (5, 64)) if exact else ((1, 64), (2, 3, 64), (0, 64)):
        x = torch.randn(shape, device=device, dtype=torch.bfloat16)
        y = function(x, q.view(bytes), s, z)
        near(y, x.double() @ real.t(), torch.bfloat16)
        out = torch.empty_like(y)
        torch.ops.catenary.run_out([x, q, s, z], [out], function.form.key)
        assert torch.equal(out, y)


def test_rows_of_two_values_a_byte(near):
    """Not packed: only the reference computes it."""
    function = ct.chain(CHAIN.replace(" packed", ""), exact=False)
    values = values_of("i4", 40, 64)
    rows = ((values[:, 0::2] & 15) | ((values[:, 1::2] & 15) << 4)).to(torch.uint8)
    s, z = torch.ones(40, 2, dtype=torch.bfloat16), torch.zeros(40, 2, dtype=torch.int8)
    x = torch.randn(3, 64, dtype=torch.bfloat16)
    near(function(x, rows, s, z), x.double() @ values.double().t(), torch.bfloat16)
    with pytest.raises(RuntimeError, match=r"'q' .*two elements a byte: pass uint8 of sizes \(40, 32\)"):
        function(x, rows[:, :16].contiguous(), s, z)


def test_opcheck(device):
    q, s, z, _ = weight("i4", 40, 64, 32, zero=True, device=device)
    x = torch.randn(5, 64, device=device, dtype=torch.bfloat16)
    for exact in (True, False):
        key = operators.add(ctn.Chain.parse(CHAIN), exact).key
        torch.library.opcheck(torch.ops.catenary.run1.default, ([x, q, s, z], key, []))
        torch.library.opcheck(torch.ops.catenary.run_out.default, ([x, q, s, z], [x.new_empty(5, 40)], key, []))


@pytest.mark.parametrize("exact", [True, False], ids=["exact", "from tensors"])
@pytest.mark.parametrize(
    "change, sentence",
    [
        (lambda q: q[:-1], r"'q' is uint8 of sizes \(1535\), .* takes i4, packed: pass uint8 of sizes \(1536\)"),
        (lambda q: q.view(16, -1), r"'q' is uint8 of sizes \(16, 96\)"),
        (lambda q: q.float(), r"'q' is f32 of sizes \(1536\)"),
        (lambda q: q.repeat_interleave(2)[::2], r"'q' has strides \(2\), and the chain takes \(1\)"),
    ],
)
def test_bytes_that_do_not_fit(device, exact, change, sentence):
    q, s, z, _ = weight("i4", 40, 64, 32, zero=True, device=device)
    x = torch.randn(5, 64, device=device, dtype=torch.bfloat16)
    function = ct.chain(CHAIN, exact=exact)
    with pytest.raises(RuntimeError, match=sentence):
        function(x, change(q), s, z)
    with pytest.raises(RuntimeError, match="'z' is uint8, and the chain takes i8"):
        function(x, q, s, z.view(torch.uint8))
    if change(q).shape != q.shape or change(q).dtype != q.dtype:
        with pytest.raises(Exception, match="'q' is .*chain takes bytes: pass uint8 of sizes"):
            torch.compile(function, backend="eager", fullgraph=True)(x, change(q), s, z)


def test_a_chain_has_no_gradient():
    q, s, z, _ = weight("i4", 40, 64, 32, zero=True)
    x = torch.randn(5, 64, dtype=torch.bfloat16, requires_grad=True)
    with pytest.raises(ctn.Error, match="dequant"):
        ct.chain(CHAIN)(x, q, s, z)
    with torch.no_grad():
        ct.chain(CHAIN)(x, q, s, z)


@pytest.mark.parametrize("dtype", ["i8", "i4", "u4"])
@pytest.mark.parametrize("shape", [(48, 128), (40, 96), (5, 7), (16, 64), (33, 200)], ids=str)
@pytest.mark.parametrize("zero", [False, True], ids=["symmetric", "zeros"])
def test_dequantize_is_exact(device, dtype, shape, zero):
    q, s, z, real = weight(dtype, *shape, 32, zero, device, torch.float32)
    wide = ct.dequantize(q, s, z, columns=shape[1], weight_dtype=dtype, group=32, result=torch.float32)
    assert torch.equal(wide, real.float())
    half = ct.dequantize(q.view(torch.int8), s, z, columns=shape[1], weight_dtype=dtype, group=32)
    assert torch.equal(half, real.float().to(torch.bfloat16))
    short = s.to(torch.bfloat16)  # computed in bf16
    wide = ct.dequantize(q, short.float(), z, columns=shape[1], weight_dtype=dtype, group=32, result=torch.float32)
    half = ct.dequantize(q, short, z, columns=shape[1], weight_dtype=dtype, group=32)
    assert torch.equal(half, wide.to(torch.bfloat16))


@pytest.mark.parametrize("dtype", ["i8", "i4", "u4"])
@pytest.mark.parametrize("x_dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("zero, bias, activation", [(False, False, None), (True, True, "silu"), (True, False, "gelu")])
def test_quantized_linear(device, near, dtype, x_dtype, zero, bias, activation):
    q, s, z, real = weight(dtype, zero=zero, device=device)
    b = torch.randn(48, device=device, dtype=x_dtype) if bias else None
    for shape in ((1, 128), (32, 128), (33, 128), (2, 3, 128), (128,)):
        x = torch.randn(shape, device=device, dtype=x_dtype)
        y = ct.quantized_linear(x, q, s, z, b, activation, weight_dtype=dtype)
        wanted = x.double() @ real.t() + (b.double() if bias else 0)
        wanted = chain_activation(activation, wanted) if activation else wanted
        assert y.dtype == x_dtype
        near(y, wanted, x_dtype, factor=2.0 if shape[0] == 33 else 1.0)  # there the weight is rounded too


@pytest.mark.parametrize("shape", [(0, 128), (2, 0, 128)])
def test_no_rows(device, shape):
    q, s, _, _ = weight(device=device)
    y = ct.quantized_linear(torch.empty(shape, device=device, dtype=torch.bfloat16), q, s)
    assert y.shape == (*shape[:-1], 48) and y.dtype == torch.bfloat16


def test_one_operator_computes_any_number_of_rows(device, near, monkeypatch):
    """Also where no kernel multiplies by the packed weight: few columns and many rows, groups of 24, an odd k."""
    calls, unpack = [], quantized.unpack
    monkeypatch.setattr(quantized, "unpack", lambda *a: calls.append(a) or unpack(*a))
    for k, group in ((256, 32), (128, 32), (120, 24), (33, 11)):
        q, s, _, real = weight(k=k, group=group, device=device)
        for rows in (1, 32, 33, 200):
            x = torch.randn(rows, k, device=device, dtype=torch.bfloat16)
            near(ct.quantized_linear(x, q, s, group=group), x.double() @ real.t(), torch.bfloat16, factor=2.0)
    assert not calls
    q, s, _, _ = weight(k=256, device=device)
    x = torch.randn(40, 256, device=device, dtype=torch.bfloat16, requires_grad=True)
    calls.clear()
    ct.quantized_linear(x, q, s).sum().backward()
    assert calls  # the gradient of x dequantises


def test_views_of_x(device, near):
    q, s, _, real = weight(device=device)
    memory = torch.randn(4 * 300, device=device, dtype=torch.bfloat16)
    for x in (memory.view(4, 300)[:, 1:129], memory.view(4, 300)[:, 8:136], memory[3 : 3 + 128],
              memory[:1024].view(128, 8).t()):  # fmt: skip
        near(ct.quantized_linear(x, q, s), x.double() @ real.t(), torch.bfloat16)


def test_autocast(device, near):
    q, s, _, real = weight(device=device)
    x, b = torch.randn(3, 128, device=device), torch.randn(48, device=device)
    with torch.autocast(device.type, torch.bfloat16):
        y = ct.quantized_linear(x, q, s, bias=b)
    assert y.dtype == torch.bfloat16
    near(y, x.double() @ real.t() + b.double(), torch.bfloat16)
    with torch.autocast(device.type, torch.bfloat16), pytest.raises(ctn.ArgumentError, match="x is torch.float64"):
        ct.quantized_linear(x.double(), q, s)


@pytest.mark.parametrize(
    "change, sentence",
    [
        ({"x": torch.zeros(2, 128)}, "x is torch.float32: quantised weights are multiplied by bfloat16 and float16"),
        ({"x": torch.zeros(2, 64, dtype=torch.bfloat16)}, r"weight has 3072 bytes, .* weight i4\[48, 64\] has 1536"),
        ({"weight": torch.zeros(3072)}, "weight is torch.float32 of shape"),
        ({"weight": torch.zeros(6144, dtype=torch.uint8)[::2]}, r"strides \[2\]: pass the contiguous uint8"),
        ({"weight": torch.zeros(3000, dtype=torch.uint8)}, "weight has 3000 bytes, and a packed weight"),
        ({"weight_dtype": "i8"}, r"a packed weight i8\[48, 128\] has 6144"),
        ({"weight_dtype": "f16"}, "weight_dtype is 'f16': use 'i8', 'i4' or 'u4'"),
        ({"scale": torch.ones(48)}, r"scale has shape \[48\]"),
        ({"scale": torch.ones(48, 4, dtype=torch.int8)}, "scale is torch.int8"),
        ({"scale": torch.ones(48, 3)}, "128 columns in 3 groups leave a part of a group: pass group"),
        ({"group": 64}, "group is 64: 128 columns are then no 4 groups"),
        ({"zero": torch.zeros(48, 4)}, r"zero is torch.float32 of shape \[48, 4\]: pass int8"),
        ({"zero": torch.zeros(48, 2, dtype=torch.int8)}, r"scale's shape, \[48, 4\]"),
        ({"bias": torch.zeros(48)}, "bias is torch.float32"),
        ({"bias": torch.zeros(47, dtype=torch.bfloat16)}, r"of shape \[48\]"),
        ({"activation": "softmax"}, "activation is 'softmax'"),
        ({"scale": torch.ones(48, 4, requires_grad=True)}, "has no gradient of scale: detach it"),
    ],
)  # fmt: skip
def test_wrong_arguments(change, sentence):
    q, s, _, _ = weight()
    arguments = {"x": torch.zeros(2, 128, dtype=torch.bfloat16), "weight": q, "scale": s} | change
    with pytest.raises(ctn.ArgumentError, match=sentence) as caught:
        ct.quantized_linear(**arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("shape", [(5, 128), (2, 3, 128), (40, 128), (128,), (0, 128)])
def test_gradients_of_x_and_bias(device, near, shape, compiled):
    q, s, z, real = weight(zero=True, device=device)
    x, b = torch.randn(shape, device=device), torch.randn(48, device=device)
    x, b = (t.bfloat16().requires_grad_() for t in (x, b))
    x64, b64 = (t.detach().double().requires_grad_() for t in (x, b))

    def layer(x, b):
        return ct.quantized_linear(x, q, s, z, b, "silu")

    wanted = torch.nn.functional.silu(x64 @ real.t() + b64)
    gradient = torch.randn_like(wanted).bfloat16()
    wanted.backward(gradient.double())
    if compiled:
        layer = torch.compile(layer, backend="aot_eager", fullgraph=True, dynamic=False)
    y = layer(x, b)
    y.backward(gradient)
    for got, want in ((y, wanted), (x.grad, x64.grad), (b.grad, b64.grad)):
        near(got, want, torch.bfloat16)


def test_adapters_train_on_a_quantised_layer(device):
    """LoRA after a quantised layer: gradients go through it to the one before."""
    first, second = (ct.QuantizedLinear.from_linear(torch.nn.Linear(64, 64), group=32).to(device) for _ in range(2))
    down, up = (torch.nn.Linear(*sizes, bias=False, device=device) for sizes in ((64, 4), (4, 64)))
    optimizer = torch.optim.Adam([*down.parameters(), *up.parameters()], lr=0.02)
    x, target = (torch.randn(16, 64, device=device) for _ in range(2))
    losses = []
    for _ in range(12):
        with torch.autocast(device.type, torch.bfloat16):
            y = second(first(x) + up(down(x)))
        loss = (y.float() - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0], losses


@pytest.mark.parametrize("rows", [1, 40])
def test_compile_fullgraph(device, near, rows):
    layer = ct.QuantizedLinear.from_linear(torch.nn.Linear(128, 48), group=32, activation="silu").to(device)
    compiled = torch.compile(lambda x: layer(x * 2) + 1, backend="aot_eager", fullgraph=True)
    x = torch.randn(rows, 128, device=device, dtype=torch.bfloat16)
    near(compiled(x), layer(x * 2).double() + 1, torch.bfloat16)


def test_compile_with_dynamic_rows(device, near):
    q, s, z, real = weight(k=256, zero=True, device=device)
    graphs = []

    def backend(graph, _):
        graphs.append([node.target for node in graph.graph.nodes])
        return graph

    compiled = torch.compile(lambda x: ct.quantized_linear(x, q, s, z), backend=backend, fullgraph=True, dynamic=True)
    for x in (torch.randn(n, 256, device=device, dtype=torch.bfloat16) for n in (2, 3, 17, 32, 33, 50, 130)):
        near(compiled(x), x.double() @ real.t(), torch.bfloat16, factor=2.0)
    assert len(graphs) == 1 and torch.ops.catenary.run1.default in graphs[0]


def test_export(device):
    layer = ct.QuantizedLinear.from_linear(torch.nn.Linear(128, 48), group=32).to(device)
    x = torch.randn(3, 128, device=device, dtype=torch.bfloat16)
    program = torch.export.export(layer, (x,))
    assert any(node.target is torch.ops.catenary.run1.default for node in program.graph.nodes)
    assert torch.equal(program.module()(x), layer(x))


def test_capture():
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("needs a GPU with kernels for quantised weights")
    q, s, _, real = weight(device="cuda")
    for rows in (4, 40):
        x = torch.randn(rows, 128, device="cuda", dtype=torch.bfloat16)
        ct.quantized_linear(x, q, s)  # the first call compiles
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = ct.quantized_linear(x, q, s)
        x.copy_(torch.randn(rows, 128))
        graph.replay()
        assert (y.double() - x.double() @ real.t()).abs().max() <= 0.02 * y.abs().max()


def test_dtensor_rules_do_not_divide_packed_bytes():
    pytest.importorskip("torch.distributed.tensor")
    from torch.distributed.tensor import Replicate, Shard

    from catenary.torch.sharding_rules import rules

    found = rules(operators.add(ctn.Chain.parse(CHAIN), exact=False).key, (1, 0, 0, 0))
    assert all(isinstance(place, Replicate) for rule in found for place in rule.inputs[1:])
    assert [rule.inputs[0] for rule in found] == [Replicate(), Shard(0), Shard(1)]  # rows


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("symmetric", [True, False], ids=["symmetric", "zeros"])
@pytest.mark.parametrize("group", [None, 32, 48], ids=str)
def test_from_linear(device, near, bits, symmetric, group):
    source = torch.nn.Linear(128, 40, device=device)
    with torch.no_grad():
        source.weight[3, :] = 0
    layer = ct.QuantizedLinear.from_linear(source, bits, group, symmetric, activation="relu")
    wide = layer.dequantize(torch.float32)
    assert layer.weight.device == source.weight.device and layer.scale.shape == (40, -(-128 // (group or 128)))
    step = layer.scale.repeat_interleave(layer.group, 1)[:, :128]
    # Half a step, at either end of the range too; a zero is rounded as well.
    assert ((wide - source.weight).abs() <= step * (0.5 if symmetric else 1.0) * (1 + 1e-4)).all()
    assert (wide[3] == 0).all()
    x = torch.randn(2, 2, 128, device=device, dtype=torch.bfloat16)
    near(layer(x), (x.double() @ wide.double().t() + source.bias.to(torch.bfloat16).double()).relu(), torch.bfloat16)


def test_the_state_of_a_module(device):
    layer = ct.QuantizedLinear.from_linear(torch.nn.Linear(128, 40), 4, 32, symmetric=False, activation="silu")
    layer = layer.to(device, torch.bfloat16)
    assert layer.scale.dtype == layer.bias.dtype == torch.bfloat16 and layer.weight.dtype == torch.uint8
    assert set(layer.state_dict()) == {"weight", "scale", "zero", "bias"} and not list(layer.parameters())
    x = torch.randn(3, 128, device=device, dtype=torch.bfloat16)
    wanted = layer(x)
    empty = ct.QuantizedLinear(128, 40, group=32, symmetric=False, activation="silu", device=device)
    empty.load_state_dict(layer.state_dict())
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    again = [empty, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), torch.load(file, weights_only=False)]
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    meta = ct.QuantizedLinear(128, 40, group=32, symmetric=False, activation="silu", device="meta")
    meta.load_state_dict(torch.load(file, weights_only=True), assign=True)
    for other in (*again, meta):
        assert torch.equal(other(x), wanted) and repr(other) == repr(layer)
    assert "weight_dtype=i4, group=32, symmetric=False, activation=silu" in repr(layer)
    assert meta.to("meta")(torch.empty(3, 128, dtype=torch.bfloat16, device="meta")).shape == (3, 40)


def test_modules_refuse():
    layer = torch.nn.Linear(64, 8)
    with pytest.raises(ctn.ArgumentError, match="bits is 3: use 4 or 8"):
        ct.QuantizedLinear.from_linear(layer, bits=3)
    with pytest.raises(ctn.ArgumentError, match="group is 0"):
        ct.QuantizedLinear.from_linear(layer, group=0)
    made = ct.QuantizedLinear.from_linear(layer)
    with pytest.raises(ctn.ArgumentError, match="x has 32 columns: the layer has 64 features"):
        made(torch.zeros(2, 32, dtype=torch.bfloat16))
    with torch.no_grad():
        layer.weight[0, 0] = float("nan")
    with pytest.raises(ctn.ArgumentError, match="no finite numbers"):
        ct.QuantizedLinear.from_linear(layer)
    with pytest.raises(ctn.ArgumentError, match="values is torch.float32"):
        ct.QuantizedLinear.from_values(layer.weight, torch.ones(8, 1), bits=4)
    with pytest.raises(ctn.ArgumentError, match="weight_packed"):
        words = torch.zeros(8, 9, dtype=torch.int32)
        ct.QuantizedLinear.from_compressed_tensors(words, torch.ones(8, 1), None, (8, 64))


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("symmetric", [True, False], ids=["symmetric", "zeros"])
def test_from_compressed_tensors(bits, symmetric):
    pytest.importorskip("compressed_tensors")
    from compressed_tensors.compressors.pack_quantized.base import PackedQuantizationCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.utils import calculate_qparams

    n, k, group = 44, 128, 32
    args = QuantizationArgs(num_bits=bits, symmetric=symmetric, strategy="group", group_size=group)
    w = torch.randn(n, k)
    blocks = w.view(n, -1, group)
    scale, zero = calculate_qparams(blocks.amin(-1), blocks.amax(-1), args)
    state = {"weight": w, "weight_scale": scale.float(), "weight_zero_point": zero.to(torch.int8)}
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    stored = PackedQuantizationCompressor.compress(state, scheme)
    layer = ct.QuantizedLinear.from_compressed_tensors(
        stored["weight_packed"], stored["weight_scale"], stored.get("weight_zero_point"), stored["weight_shape"]
    )
    wanted = PackedQuantizationCompressor.decompress(stored, scheme)["weight"]
    assert torch.equal(layer.dequantize(torch.float32), wanted.float())


def torchao_layer(make, k=128):
    torchao = pytest.importorskip("torchao.quantization")
    layer = torch.nn.Linear(k, 40)
    torchao.quantize_(layer, make(torchao))
    return layer


def test_from_torchao_int8(near):
    source = torchao_layer(lambda ao: ao.Int8WeightOnlyConfig())
    layer = ct.QuantizedLinear.from_torchao(source)
    assert layer.weight_dtype == "i8" and layer.zero is None
    assert torch.equal(layer.dequantize(torch.float32), source.weight.dequantize())
    x = torch.randn(3, 128, dtype=torch.bfloat16)
    wanted = x.double() @ source.weight.dequantize().double().t() + source.bias.double()
    near(layer(x), wanted, torch.bfloat16)


@pytest.mark.parametrize("kind", [torch.int4, torch.int8], ids=str)
@pytest.mark.parametrize("symmetric", [True, False], ids=["symmetric", "zeros"])
def test_from_torchao_groups(kind, symmetric):
    def config(ao):
        from torchao.quantization.granularity import PerGroup
        from torchao.quantization.quant_primitives import MappingType

        mapping = MappingType.SYMMETRIC if symmetric else MappingType.ASYMMETRIC
        return ao.IntxWeightOnlyConfig(weight_dtype=kind, granularity=PerGroup(32), mapping_type=mapping)

    source = torchao_layer(config)
    layer = ct.QuantizedLinear.from_torchao(source)
    assert layer.group == 32 and (layer.zero is None) == symmetric
    assert torch.equal(layer.dequantize(torch.float32), source.weight.dequantize())


def test_from_torchao_refuses():
    ao = pytest.importorskip("torchao.quantization")
    floats = torch.nn.Linear(128, 40)
    n, k = 40, 128
    data = torch.zeros(n, k // 2, dtype=torch.int8)
    tensor = ao.Int4Tensor(data, torch.ones(4, n), torch.zeros(4, n), [1, 32], (n, k))
    floats.weight = torch.nn.Parameter(tensor, requires_grad=False)
    with pytest.raises(ctn.ArgumentError, match="torchao's Int4Tensor, whose zeros are floats: quantise"):
        ct.QuantizedLinear.from_torchao(floats)
    with pytest.raises(ctn.ArgumentError, match="torchao's Parameter: quantise"):
        ct.QuantizedLinear.from_torchao(torch.nn.Linear(8, 8))
    with pytest.raises(ctn.ArgumentError, match="the layer quantises or scales its activations"):
        ct.QuantizedLinear.from_torchao(torchao_layer(lambda a: a.Int8DynamicActivationInt8WeightConfig()))
    with pytest.raises(ctn.ArgumentError, match="values of torch.int3"):
        ct.QuantizedLinear.from_torchao(torchao_layer(lambda a: a.IntxWeightOnlyConfig(weight_dtype=torch.int3)))


def test_the_python_implementation():
    code = (
        "import torch, catenary.torch as ct\n"
        "assert ct.IMPLEMENTATION == 'python'\n"
        "torch.manual_seed(0)\n"
        "layer = ct.QuantizedLinear.from_linear(torch.nn.Linear(128, 40), 4, 32, False)\n"
        "x = torch.randn(2, 3, 128, dtype=torch.bfloat16)\n"
        "y = layer(x)\n"
        "z = torch.nn.functional.linear(x.float(), layer.dequantize(torch.float32), layer.bias)\n"
        "assert torch.allclose(y.float(), z, atol=0.02), (y - z).abs().max()\n"
        "function = ct.chain('chain c(input x: f16[2, 64], weight q: i8[16, 64], weight s: f32[16, 1]) {\\n'\n"
        "                    '  w = dequant(q, s) block (1, 64)\\n'\n"
        "                    '  y = contract \"mk,nk->mn\"(x, w)\\n  return y: f16\\n}')\n"
        "a = [torch.ones(2, 64).half(), torch.ones(16, 64, dtype=torch.int8), torch.ones(16, 1)]\n"
        "assert (function(*a) == 64).all()\n"
        "try:\n"
        "    function(a[0], a[1].view(torch.uint8), a[2])\n"
        "except ct.operators.ArgumentError as error:\n"
        "    assert \"'q' is uint8, and the chain takes torch.int8\" in str(error)\n"
        "else:\n"
        "    raise SystemExit('uint8 was accepted as int8')\n"
    )
    run_python(code, CATENARY_TORCH_OPERATORS="python")


def test_the_simulator_computes_the_same():
    code = (
        "import torch, catenary.torch as ct\n"
        "torch.manual_seed(0)\n"
        "ct.set_host('simulator')\n"
        "for bits, symmetric in ((4, True), (4, False), (8, True)):\n"
        "    layer = ct.QuantizedLinear.from_linear(torch.nn.Linear(128, 40), bits, 32, symmetric, 'silu')\n"
        "    wide = layer.dequantize(torch.float32).double()\n"
        "    for rows in (1, 3):\n"
        "        x = torch.randn(rows, 128, dtype=torch.bfloat16)\n"
        "        wanted = torch.nn.functional.silu(x.double() @ wide.t() + layer.bias.to(torch.bfloat16).double())\n"
        "        assert (layer(x).double() - wanted).abs().max() <= 0.01 * wanted.abs().max()\n"
        "assert all(row['place'] == 'device' for row in ct.report()) and len(ct.report()) == 6\n"
    )
    run_python(code, CATENARY_DEVICE="sim")
