# SPDX-License-Identifier: Apache-2.0
"""Layers at the edges of what they take: ends of groups with gaps, no columns, the activation of an MLP, and words of
compressed-tensors without a shape."""

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F
from torch import nn

import catenary as ctn
import catenary.torch as ct
from pytorch.test_layers import experts, ragged

BF16 = torch.bfloat16
ENDS = [3, 3, 8, 10]


def ends(device, gaps=True):
    offs = torch.tensor(ENDS, dtype=torch.int32, device=device)
    return offs.repeat_interleave(2)[::2] if gaps else offs


def randn(device, *shape):
    return torch.randn(shape, device=device)


def grouped_calls(device):
    x, w, up, down = (randn(device, *s) for s in ((10, 8), (4, 6, 8), (4, 6, 8), (4, 8, 6)))
    one = torch.ones(1, device=device)
    xq, wq = (randn(device, *s).to(torch.float8_e4m3fn) for s in ((10, 16), (4, 16, 16)))
    return {
        "linear": lambda offs: ct.grouped_linear(x, w, None, "silu", offs),
        "mlp": lambda offs: ct.grouped_glu_mlp(x, w, up, down, offs),
        "fp8": lambda offs: ct.scaled_grouped_linear(xq, wq, one, one, offs),
    }


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", ["linear", "mlp", "fp8"])
def test_ends_of_groups_with_gaps(device, name, compiled):
    if name == "fp8" and device.type == "cuda" and torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("fp8 kernels are for compute capability 9.0")
    call = grouped_calls(device)[name]
    wanted = call(ends(device, gaps=False))
    if compiled:
        call = torch.compile(call, backend="aot_eager", fullgraph=True)
    assert ends(device).stride() == (2,) and torch.equal(call(ends(device)), wanted)


def test_ends_with_gaps_have_gradients(device, near):
    x, w = randn(device, 10, 8).requires_grad_(), randn(device, 4, 6, 8).requires_grad_()
    found = [torch.autograd.grad(ct.grouped_linear(x, w, None, "silu", ends(device, gaps)).square().sum(), (x, w))
             for gaps in (True, False)]  # fmt: skip
    for got, want in zip(*found, strict=True):
        near(got, want)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_samples_of_ends_with_gaps(device, same, compiled):
    """A sample of the last dimension has gaps: each sample has a call, since the weights have samples too."""
    splits = [[3, 0, 5, 2], [1, 4, 2, 3], [0, 0, 10, 0]]
    offs = torch.tensor(splits, device=device).cumsum(1).int().t().contiguous()
    x, w = randn(device, 10, 8), randn(device, 3, 4, 6, 8)
    ours = torch.vmap(lambda x, w, offs: ct.grouped_linear(x, w, None, None, offs), (None, 0, 1))

    def theirs(x, w, offs):
        return torch.stack([
            torch.cat([rows @ v.t() for rows, v in zip(x.split(split), one, strict=True)])
            for one, split in zip(w, splits, strict=True)
        ])  # fmt: skip

    ours = torch.compile(ours, backend="aot_eager", fullgraph=True) if compiled else ours
    same(ours, theirs, x, w, offs)

    def total(f):
        return lambda *t: f(*t).square().sum()

    if not compiled:
        same(torch.func.grad(total(ours), (0, 1)), torch.func.grad(total(theirs), (0, 1)), x, w, offs, factor=8)


def test_samples_of_a_chain_s_ends(device, same):
    function = ct.chain(
        "chain c[M in 1..64](input x: f32[M, 8], weight w: f32[4, 6, 8], input ends: i32[4]) {\n"
        '  y = contract "mk,enk->mn" f32 (x, w) ragged m by ends over e\n  return y: f32\n}',
        exact=False,
    )
    x, w, offs = randn(device, 10, 8), randn(device, 3, 4, 6, 8), ends(device, False).unsqueeze(1).repeat(1, 3)
    same(torch.vmap(function, (None, 0, 1)),
         lambda x, w, _: torch.stack([ragged(x, one) for one in w]), x, w, offs)  # fmt: skip


def test_samples_of_experts_with_gaps(device, same):
    index = torch.tensor([[0, 2], [3, 1], [2, 0]], device=device)
    x, weights = randn(device, 3, 8), torch.rand(3, 2, device=device)
    up, down = randn(device, 5, 4, 12, 8), randn(device, 5, 4, 8, 6)
    many = torch.stack([index, index.flip(0), index.flip(1), index, (index + 1) % 4], 2)

    def total(f):
        return torch.vmap(lambda x, i, s, u, d: f(x, i, s, u, d), (None, 2, None, 0, 0))

    same(total(ct.experts), total(experts), x, many, weights, up, down)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", ""])
@pytest.mark.parametrize("activation", [None, "sigmoid"])
def test_quantised_without_columns(device, activation, bias, compiled):
    """The sum over no columns is 0, before the bias and the activation."""
    layer = ct.QuantizedLinear(0, 4, bias, activation=activation, device=device)
    if bias:
        layer.bias.copy_(torch.arange(4))
    for shape in ((3, 0), (2, 3, 0), (0,)):
        x = torch.zeros(shape, dtype=BF16, device=device)
        wanted = torch.zeros((*shape[:-1], 4), dtype=BF16, device=device) + (layer.bias if bias else 0)
        call = torch.compile(layer, backend="aot_eager", fullgraph=True, dynamic=False) if compiled else layer
        assert torch.equal(call(x), wanted if activation is None else wanted.sigmoid())
    one = torch.ones(4, 1, dtype=BF16, device=device)  # a group without columns
    y = ct.quantized_linear(x, layer.weight, one, None, layer.bias, activation)
    assert torch.equal(y, call(x))


def test_gradients_without_columns(device):
    layer = ct.QuantizedLinear(0, 4, activation="silu", device=device)
    x = torch.zeros(3, 0, dtype=BF16, device=device, requires_grad=True)
    bias = torch.arange(4.0, device=device).to(BF16).requires_grad_()
    layer.bias = bias
    of_x, of_bias = torch.autograd.grad(layer(x).sum(), (x, bias))
    wide = bias.detach().clone().requires_grad_()
    wanted = torch.autograd.grad(F.silu(wide.expand(3, 4)).sum(), wide)[0]
    assert of_x.shape == (3, 0) and torch.equal(of_bias, wanted)


@pytest.mark.parametrize("sizes", [(0, 4), (4, 0)], ids=["no columns", "no rows"])
@pytest.mark.parametrize("symmetric", [True, False], ids=["symmetric", "zeros"])
def test_quantised_layers_of_no_size(device, sizes, symmetric):
    with pytest.warns(UserWarning, match="zero-element"):
        source = nn.Linear(*sizes, dtype=BF16, device=device)
    for group in (None, 32):
        layer = ct.QuantizedLinear.from_linear(source, 4, group, symmetric)
        assert layer.dequantize().shape == (sizes[1], sizes[0])
        x = torch.randn(3, sizes[0], dtype=BF16, device=device, requires_grad=True)
        assert torch.equal(layer(x), source(x))
        if sizes[0] > 0:
            assert torch.autograd.grad(layer(x).sum(), x)[0].shape == x.shape


def test_groups_and_experts_without_columns(device):
    layer = ct.GroupedLinear(2, 0, 4, device=device)
    assert (layer.bias == 0).all()  # as that of nn.Linear(0, 4)
    assert torch.equal(layer(torch.zeros(3, 2, 0, device=device)), torch.zeros(3, 2, 4, device=device))
    offs = torch.tensor([1, 3], dtype=torch.int32, device=device)
    assert layer(torch.zeros(3, 0, device=device), offs).shape == (3, 4)
    index, weights = torch.tensor([[0], [1], [1]], device=device), torch.ones(3, 1, device=device)
    for hidden, inner in ((0, 4), (4, 0)):
        layer = ct.Experts(2, hidden, inner, bias=True, device=device)
        assert layer(torch.zeros(3, hidden, device=device), index, weights).shape == (3, hidden)


class MLP(nn.Module):
    def __init__(self, act_fn, device):
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(16, 24, bias=False, device=device) for _ in range(2))
        self.down_proj = nn.Linear(24, 16, bias=False, device=device)
        self.act_fn = act_fn

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


@pytest.mark.parametrize(
    "act_fn, name",
    [(nn.SiLU(), "silu"), (nn.GELU(approximate="tanh"), "gelu_tanh"), (nn.GELU(), "gelu"), (F.relu, "relu")],
    ids=["silu", "gelu_tanh", "gelu", "function"],
)
def test_the_activation_of_an_mlp(device, near, act_fn, name):
    mlp, x = MLP(act_fn, device), randn(device, 3, 16)
    made = ct.GLU.of(mlp)
    assert made.activation == name and ct.GLU.of(made).activation == name
    wanted = mlp(x)
    near(made(x), wanted, factor=8)
    assert ct.GLU.of(mlp, "tanh").activation == "tanh" and ct.GLU.of(mlp, None).activation is None


def test_an_mlp_with_an_activation_that_no_chain_has(device):
    mlp = MLP(nn.Mish(), device)
    with pytest.raises(ctn.ArgumentError, match=r"mlp.act_fn is Mish\(\), which no chain has: pass activation"):
        ct.GLU.of(mlp)
    with pytest.raises(ctn.ArgumentError, match="SwiGLU has 'silu'"):
        ct.SwiGLU.of(MLP(nn.GELU(), device))
    assert ct.GLU.of(mlp, "silu").activation == "silu"
    del mlp.act_fn
    assert ct.GLU.of(mlp).activation == "silu"


def words(values, bits):
    """As weight_packed of compressed-tensors: values plus half of the range, the first in the low bits."""
    count = 32 // bits
    stored = (values.long() + 2 ** (bits - 1)).reshape(values.shape[0], -1, count)
    found = (stored << (bits * torch.arange(count))).sum(-1)
    return torch.where(found >= 2**31, found - 2**32, found).to(torch.int32)


@pytest.mark.parametrize("bits", [4, 8])
def test_words_without_a_shape(device, bits):
    """The rows of zeros, or a number of groups, say how many bits a value has."""
    n, k = 16, 64
    values = torch.randint(-(2 ** (bits - 1)), 2 ** (bits - 1), (n, k), dtype=torch.int8)
    zeros = torch.randint(-(2 ** (bits - 1)), 2 ** (bits - 1), (n, 2), dtype=torch.int8)
    scale = torch.rand(n, 2) + 0.5
    packed, packed_zeros = words(values, bits).to(device), words(zeros.t(), bits).t().contiguous().to(device)
    layer = ct.QuantizedLinear.from_compressed_tensors(packed, scale.to(device), packed_zeros)
    real = (values.int() - zeros.repeat_interleave(32, 1)) * scale.repeat_interleave(32, 1)
    assert layer.in_features == k and torch.equal(layer.dequantize(torch.float32).cpu(), real)
    with pytest.raises(ctn.ArgumentError, match=r"packed has shape \[16, \d+\], .* 4 or 8 bits: pass shape"):
        ct.QuantizedLinear.from_compressed_tensors(packed, scale.to(device))
    given = ct.QuantizedLinear.from_compressed_tensors(packed, scale.to(device), None, (n, k))
    assert given.weight_dtype == f"i{bits}"
    with pytest.raises(ctn.ArgumentError, match="4 or 8 bits: pass shape"):
        ct.QuantizedLinear.from_compressed_tensors(packed, scale.to(device), packed_zeros[:1])


def test_words_whose_groups_have_only_4_bits(device):
    """Eight groups of three words: eight columns a word divide by eight groups, and four do not."""
    values = torch.randint(-8, 8, (16, 24), dtype=torch.int8)
    scale = torch.rand(16, 8, device=device)
    layer = ct.QuantizedLinear.from_compressed_tensors(words(values, 4).to(device), scale)
    assert layer.weight_dtype == "i4" and layer.group == 3
    assert torch.equal(layer.dequantize(torch.float32).cpu(), values * scale.cpu().repeat_interleave(3, 1))


def test_buffers_are_on_the_device_of_the_values(device):
    values, scale = torch.zeros(8, 64, dtype=torch.int8), torch.ones(8, 2, device=device)
    layer = ct.QuantizedLinear.from_values(values, scale, values[:, :2].to(device), scale[:, 0], bits=4)
    assert {buffer.device.type for buffer in layer.buffers()} == {"cpu"}
    layer = ct.QuantizedLinear.from_values(values.to(device), scale.cpu(), bits=8)
    assert {buffer.device.type for buffer in layer.buffers()} == {device.type}
    with pytest.raises(NotImplementedError, match="meta"):  # by torch: the scale cannot move to the values
        ct.QuantizedLinear.from_values(values, torch.ones(8, 2, device="meta"), bits=4)
