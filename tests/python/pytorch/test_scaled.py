# SPDX-License-Identifier: Apache-2.0
"""fp8 in operators: `scaled_linear`, `scaled_grouped_linear`, `quantize_fp8`, chains with fp8 operands and results."""

import pytest

torch = pytest.importorskip("torch")

from conftest import run_python

import catenary as ctn
import catenary.torch as ct
from catenary.torch import operators
from catenary.torch.functional import chain_activation

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
CHAIN = """chain c[M in 1..64](input x: e4m3[M, 32], weight w: e4m3[16, 32], input s: f32[M]) {
  h = contract "mk,nk->mn"(x, w)
  y = mul(h, s @ "m")
  return y: e5m2, y: f32
}"""


@pytest.fixture(autouse=True)
def hopper(request):
    cuda = "device" in request.fixturenames and request.getfixturevalue("device").type == "cuda"
    if cuda and torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("fp8 kernels are for compute capability 9.0")


def fp8(*shape, dtype=E4M3, device="cpu"):
    """Random whole numbers up to 4: products and sums of them are exact in f32."""
    return torch.randint(-4, 5, shape, device=device).float().to(dtype)


def product(x, w, sx, sw, bias=None, activation=None):
    y = (x.double() @ w.double().transpose(-1, -2)) * sx.double() * sw.double()
    y = y if bias is None else y + bias.double()
    return y if activation is None else chain_activation(activation, y)


@pytest.mark.parametrize("dtype", [E4M3, E5M2], ids=["e4m3", "e5m2"])
@pytest.mark.parametrize("per_row", [False, True], ids=["x tensor", "x row"])
@pytest.mark.parametrize("per_channel", [False, True], ids=["w tensor", "w channel"])
def test_scaled_linear(device, near, dtype, per_row, per_channel):
    x, w = fp8(2, 5, 64, dtype=dtype, device=device), fp8(48, 64, dtype=dtype, device=device)
    sx = torch.rand((2, 5, 1) if per_row else (), device=device) + 0.5
    sw = torch.rand(48 if per_channel else 1, device=device) + 0.5
    y = ct.scaled_linear(x, w, sx, sw, out_dtype=torch.float32)
    near(y, product(x, w, sx, sw))
    if per_row:  # with and without the last dimension
        assert torch.equal(y, ct.scaled_linear(x, w, sx.squeeze(-1), sw, out_dtype=torch.float32))
    if per_channel:
        assert torch.equal(y, ct.scaled_linear(x, w, sx, sw.unsqueeze(1), out_dtype=torch.float32))


def test_whole_numbers_are_exact(device):
    x, w = fp8(7, 64, device=device), fp8(48, 64, device=device)
    two, half = torch.tensor(2.0, device=device), torch.tensor(0.5, device=device)
    wanted = x.double() @ w.double().t()
    for fast in (False, True):
        y = ct.scaled_linear(x, w, two, half, out_dtype=torch.float32, fast_accum=fast)
        assert torch.equal(y.double(), wanted)


@pytest.mark.parametrize("bias", [None, torch.bfloat16, torch.float32], ids=["none", "bf16", "f32"])
@pytest.mark.parametrize("out", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("activation", [None, "gelu"])
def test_epilogues(device, near, bias, out, activation):
    x, w = fp8(6, 32, device=device), fp8(24, 32, device=device)
    sx, sw = torch.rand(6, device=device) / 8, torch.rand(24, device=device) / 8
    b = None if bias is None else torch.randn(24, device=device).to(bias)
    y = ct.scaled_linear(x, w, sx, sw, b, activation, out_dtype=out)
    assert y.dtype == out
    near(y, product(x, w, sx.unsqueeze(1), sw, b, activation), out)


def test_a_quantised_result_feeds_the_next_layer(device, near):
    x, w1, w2 = fp8(8, 32, device=device), fp8(48, 32, device=device), fp8(16, 48, device=device)
    one, scale = torch.ones((), device=device), torch.tensor(0.25, device=device)
    h = ct.scaled_linear(x, w1, one, one, None, "relu", out_dtype=E4M3, out_scale=scale)
    wanted = (product(x, w1, one, one).relu() / 0.25).clamp(-448, 448).to(torch.float32).to(E4M3)
    assert h.dtype == E4M3 and torch.equal(h.float(), wanted.float())
    assert h.float().max() == 448  # something is beyond the largest
    near(ct.scaled_linear(h, w2, scale, one, out_dtype=torch.float32), product(h, w2, scale, one))


@pytest.mark.parametrize("kind", ["tensor", "group", "channel"])
def test_groups(device, near, kind):
    x, w = fp8(12, 32, device=device), fp8(3, 24, 32, device=device)
    offs = torch.tensor([5, 5, 10], dtype=torch.int32, device=device)
    sx = torch.rand(12, device=device) + 0.5
    sw = torch.rand({"tensor": (), "group": 3, "channel": (3, 24)}[kind], device=device) + 0.5
    b = torch.randn(3, 24, device=device)
    y = ct.scaled_grouped_linear(x, w, sx, sw, offs, b, out_dtype=torch.float32)
    wide = sw.reshape(-1, 1).expand(3, 24) if kind != "channel" else sw
    parts = [product(x[lo:hi], w[g], sx[lo:hi, None], wide[g], b[g]) for g, lo, hi in ((0, 0, 5), (2, 5, 10))]
    near(y, torch.cat([*parts, torch.zeros(2, 24, device=device).double()]))
    one = torch.ones((), device=device)
    near(ct.scaled_grouped_linear(x, w, one, sw, offs)[:5], product(x[:5], w[0], one, wide[0]), torch.bfloat16)


def test_rows_that_are_no_one_dimension_are_copied(device, near):
    x, w, one = fp8(3, 2, 32, device=device).transpose(0, 1), fp8(16, 32, device=device), torch.ones((), device=device)
    near(ct.scaled_linear(x, w, one, one, out_dtype=torch.float32), product(x, w, one, one))


@pytest.mark.parametrize("shape", [(32,), (0, 32), (2, 0, 32), (1, 32)])
def test_few_rows(device, near, shape):
    x, w, one = fp8(*shape, device=device), fp8(16, 32, device=device), torch.ones((), device=device)
    b = torch.randn(16, device=device)
    near(ct.scaled_linear(x, w, one, one, b, out_dtype=torch.float32), product(x, w, one, one, b))


def test_no_columns(near):
    """A sum of no terms is 0: bias and activation are left, by the group of each row."""
    one, b = torch.ones(()), torch.randn(2, 5)
    offs = torch.tensor([1, 3], dtype=torch.int32)
    y = ct.scaled_grouped_linear(fp8(4, 0), fp8(2, 5, 0), one, one, offs, b, "relu", out_dtype=torch.float32)
    near(y, torch.stack([b[0], b[1], b[1], torch.zeros(5)]).relu().double())
    big = torch.full((5,), 1000.0)
    y = ct.scaled_linear(fp8(2, 0), fp8(5, 0), one, one, big, out_dtype=E4M3, out_scale=torch.tensor(2.0))
    assert y.dtype == E4M3 and torch.equal(y.float(), torch.full((2, 5), 448.0))


@pytest.mark.parametrize("dtype", [E4M3, E5M2])
@pytest.mark.parametrize("per, shape", [("row", (4, 1)), ("tensor", ())])
def test_quantize_fp8(dtype, per, shape):
    x = torch.randn(4, 64)
    x[2] = 0
    q, scale = ct.quantize_fp8(x, per, dtype)
    assert q.dtype == dtype and scale.shape == shape and scale.dtype == torch.float32
    error = (q.double() * scale - x).abs()
    assert bool((error <= x.abs() * (2**-4 if dtype == E4M3 else 2**-3) + scale * 2**-9).all())
    assert q.float().abs().max() == torch.finfo(dtype).max and not q[2].float().any()
    with pytest.raises(ctn.ArgumentError, match="use 'row' or 'tensor'"):
        ct.quantize_fp8(x, "block")
    with pytest.raises(ctn.ArgumentError, match="float8_e5m2"):
        ct.quantize_fp8(x, dtype=torch.int8)


@pytest.mark.parametrize(
    "change, sentence",
    [
        (dict(x=torch.zeros(4, 32)), "use float8_e4m3fn for both"),
        (dict(x=fp8(4, 32, dtype=E5M2)), "use float8_e4m3fn for both"),
        (dict(w=fp8(8, 16)), r"pass x \[..., k\] and w \[n, k\]"),
        (dict(x_scale=torch.ones(3)), r"x_scale has shape \[3\]: pass \[4\], \[4, 1\] or one element"),
        (dict(x_scale=torch.ones(4, 2)), "blocks of k have no scales here"),
        (dict(w_scale=torch.ones(4)), r"w_scale has shape \[4\]: pass \[8\]"),
        (dict(w_scale=torch.ones(8).half()), "w_scale is torch.float16: scales are float32"),
        (dict(bias=torch.ones(4)), r"of shape \[8\]"),
        (dict(out_dtype=torch.int8), "out_dtype is torch.int8"),
        (dict(out_scale=torch.ones(4)), "out_scale has shape"),
        (dict(x_scale=torch.ones((), requires_grad=True)), "has no gradient"),
        (dict(activation="nope"), "activation is 'nope'"),
    ],
)
def test_wrong_arguments(change, sentence):
    given = dict(x=fp8(4, 32), w=fp8(8, 32), x_scale=torch.ones(()), w_scale=torch.ones(())) | change
    with pytest.raises(ctn.ArgumentError, match=sentence):
        ct.scaled_linear(**given)


def test_wrong_groups():
    x, w, one = fp8(4, 32), fp8(3, 8, 32), torch.ones(())
    with pytest.raises(ctn.ArgumentError, match=r"pass int32 of shape \[3\]"):
        ct.scaled_grouped_linear(x, w, one, one, torch.tensor([2, 4], dtype=torch.int32))
    with pytest.raises(ctn.ArgumentError, match=r"\[3, 8\], \[3\] or one element"):
        ct.scaled_grouped_linear(x, w, one, torch.ones(8), torch.tensor([2, 4, 4], dtype=torch.int32))
    with pytest.raises(ctn.ArgumentError, match="or scaled_linear for fp8"):
        ct.linear(fp8(4, 32), fp8(8, 32))


@pytest.mark.parametrize("exact", [True, False], ids=["exact", "from tensors"])
def test_a_chain_takes_and_returns_fp8(device, near, exact):
    x, w, s = fp8(5, 32, device=device), fp8(16, 32, device=device), torch.rand(5, device=device)
    function = ct.chain(CHAIN, exact=exact)
    narrow, wide = function(x, w, s)
    near(wide, product(x, w, s.unsqueeze(1), torch.ones((), device=device)))
    assert narrow.dtype == E5M2 and torch.equal(narrow.float(), wide.to(E5M2).float())
    outs = [torch.empty_like(narrow), torch.empty_like(wide)]
    operators.run_out(function.form, [x, w, s], outs)
    assert torch.equal(outs[0].float(), narrow.float()) and torch.equal(outs[1], wide)
    # Other checks of opcheck multiply the arguments, which torch has not for fp8.
    torch.library.opcheck(torch.ops.catenary.run2.default, ([x, w, s], function.form.key), test_utils="test_faketensor")
    with pytest.raises(Exception, match="'w' is e5m2, and the chain takes e4m3"):
        function(x, w.to(E5M2), s)
    with pytest.raises(Exception, match="'w' is uint8, and the chain takes e4m3"):
        function(x, w.view(torch.uint8), s)
    with pytest.raises(ctn.Error, match="gradient"):
        function(x, w, s.requires_grad_())


def test_compile_fullgraph_with_dynamic_rows(device, near):
    w, b = fp8(24, 32, device=device), torch.randn(24, device=device)
    sw = torch.rand(24, device=device)

    def layer(x):
        q, scale = ct.quantize_fp8(x)
        return ct.scaled_linear(q, w, scale, sw, b, "silu")

    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="aot_eager")
    for rows in (3, 9, 17):
        x = torch.randn(rows, 32, device=device)
        near(compiled(x), layer(x).double(), torch.bfloat16)


SCRIPT = (
    "import torch, catenary.torch as ct\n"
    "{host}"
    "x, w = (torch.randint(-4, 5, s).float().to(torch.float8_e4m3fn) for s in ((2, 8, 160), (48, 160)))\n"
    "s, t = torch.tensor(2.0), torch.full((48,), 0.5)\n"
    "y = ct.scaled_linear(x, w, s, t, out_dtype=torch.float32)\n"
    "assert torch.equal(y.double(), x.double() @ w.double().t()), y\n"
    "z = ct.scaled_linear(x.transpose(0, 1), w, s, t, out_dtype=torch.float8_e5m2)\n"
    "assert torch.equal(z.float(), y.transpose(0, 1).to(torch.float8_e5m2).float())\n"
    "print(ct.IMPLEMENTATION)\n"
)


def test_the_python_implementation():
    assert run_python(SCRIPT.format(host=""), CATENARY_TORCH_OPERATORS="python") == "python\n"


def test_the_simulator_computes_the_same():
    run_python(SCRIPT.format(host="ct.set_host('simulator')\n"), CATENARY_DEVICE="sim")
