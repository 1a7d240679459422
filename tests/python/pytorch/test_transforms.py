# SPDX-License-Identifier: Apache-2.0
"""torch.vmap and torch.func over layers of fp8 and quantised weights, operators and compiled functions; what they
refuse, and where an operator is called without the dispatcher."""

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F
from conftest import run_python
from torch.func import grad, jacfwd, jacrev, vmap

import catenary as ctn
import catenary.torch as ct
from catenary.torch import forms, operators
from pytorch.test_vmap import ENDS, ROWS, SAMPLES, SCALED, K, N, linear, of_all, our_linear, per_sample, samples_of


def test_quantised_weights(device, near):
    layer = ct.QuantizedLinear.from_linear(torch.nn.Linear(64, 8).bfloat16(), group=32, activation="silu").to(device)
    weight, bias = layer.dequantize(torch.float64), layer.bias.double()
    wide = lambda x: F.silu(F.linear(x, weight, bias))
    for shape in ((SAMPLES, 2, 64), (40, 64), (2, 33, 64)):
        x = torch.randn(shape, device=device, dtype=torch.bfloat16)
        near(vmap(layer)(x), wide(x.double()), torch.bfloat16)
        wanted = grad(lambda x: wide(x).sum())(x.double())
        near(vmap(grad(lambda x: layer(x).float().sum()))(x), wanted, torch.bfloat16)
        near(grad(lambda x: vmap(layer)(x).float().sum())(x), wanted, torch.bfloat16)
    biases, x = torch.randn(SAMPLES, 8, device=device, dtype=torch.bfloat16), x[0]
    given = lambda b: ct.quantized_linear(x, layer.weight, layer.scale, layer.zero, b, group=32)
    near(vmap(given)(biases), vmap(lambda b: F.linear(x.double(), weight, b))(biases.double()), torch.bfloat16)


def test_quantised_weights_without_gradients(device):
    """torch.no_grad() is of all levels, as for operations of torch."""
    layer = ct.QuantizedLinear.from_linear(torch.nn.Linear(64, 8).bfloat16(), group=32).to(device)
    weight = layer.dequantize(torch.float64)
    x = torch.randn(2, 64, device=device, dtype=torch.bfloat16)
    found = []
    for f in (layer, lambda x: F.linear(x.double(), weight)):
        inner = lambda x, f=f: torch.no_grad()(f)(x).double().sum() * x.double().sum()
        found.append(grad(lambda x, inner=inner: grad(inner)(x).double().sum())(x))
    assert torch.equal(*found)


def test_scales_of_samples_have_no_gradient(device):
    """A tensor with samples does not tell that it needs a gradient."""
    layer = ct.QuantizedLinear.from_linear(torch.nn.Linear(64, 8).bfloat16(), group=32).to(device)
    scales = layer.scale.detach().expand(SAMPLES, *layer.scale.shape).clone()
    x = torch.randn(2, 64, device=device, dtype=torch.bfloat16)
    call = lambda scale: ct.quantized_linear(x, layer.weight, scale, layer.zero, group=32).float().sum()
    with torch.no_grad():
        vmap(call)(scales)
    of_autograd = lambda: torch.autograd.grad(vmap(call)(scales.requires_grad_()).sum(), scales)
    for wrong in (lambda: grad(lambda s: vmap(call)(s).sum())(scales), lambda: vmap(grad(call))(scales), of_autograd):
        with pytest.raises(ctn.ArgumentError, match="has no gradient of scale: detach it, or pass"):
            wrong()


def test_fp8(device, calls):
    if device.type == "cuda" and torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("needs compute capability 9.0")
    x, scale = ct.quantize_fp8(torch.randn(SAMPLES, ROWS, 32, device=device))
    w, w_scale = ct.quantize_fp8(torch.randn(SAMPLES, 16, 32, device=device))
    call = lambda x, w, s, t: ct.scaled_linear(x, w, s, t, None, "silu")
    got = vmap(call, (0, None, 0, None))(x, w[0], scale, w_scale[0])
    assert calls[0] == 1 and torch.equal(got, call(x, w[0], scale, w_scale[0]))
    loop = torch.stack([call(*sample) for sample in zip(x, w, scale, w_scale, strict=True)])
    calls[0] = 0
    assert torch.allclose(vmap(call)(x, w, scale, w_scale).float(), loop.float(), rtol=1e-2, atol=1e-2)
    assert calls[0] == 1


@pytest.mark.parametrize("weights", [None, 0])
def test_fp8_by_groups(device, calls, weights):
    if device.type == "cuda" and torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("needs compute capability 9.0")
    ends = torch.tensor(ENDS, dtype=torch.int32, device=device)
    x, scale = ct.quantize_fp8(torch.randn(SAMPLES, 10, 32, device=device))
    w = torch.randn(SAMPLES, 4, 16, 32, device=device).to(x.dtype)
    one, fp8 = torch.ones(1, device=device), torch.float8_e4m3fn
    call = lambda x, w, s, e: ct.scaled_grouped_linear(x, w, s, one, e, out_dtype=fp8)
    given = w if weights == 0 else w[0]
    got = vmap(call, (0, weights, 0, 0))(x, given, scale, ends)
    assert calls[0] == (1 if weights is None else SAMPLES)
    loop = [call(x[i], w[i] if weights == 0 else w[0], scale[i], ends[i]) for i in range(SAMPLES)]
    assert torch.equal(got.float(), torch.stack(loop).float())


def test_operators(device, near, calls):
    form = forms.linear("f32", True, "silu", True).form
    two = operators.add(ctn.Chain.parse(SCALED))
    x, w, b = torch.randn(SAMPLES, ROWS, K, device=device), torch.randn(N, K, device=device), torch.randn(N)
    b = b.to(device)
    wanted = linear(x.double(), w.double(), b.double())
    run = lambda x: torch.ops.catenary.run1([x, w, b], form.key)
    near(vmap(run)(x), wanted)
    near(vmap(vmap(run, 1, 1))(torch.stack([x, x]))[1], wanted)
    c, y = vmap(lambda x: torch.ops.catenary.run2([x, w], two.key, [2.0]), out_dims=(0, 1))(x)
    near(c, x.double() @ w.double().t())
    near(y.movedim(1, 0), 2 * F.silu(c.double()))
    # Each sample is aligned.
    out = torch.zeros(SAMPLES, ROWS * N + 2, device=device)[:, : ROWS * N].unflatten(1, (ROWS, N))

    def write(x, out):
        operators.run_out(form, (x, w, b), (out,))
        return out

    vmap(write)(x, out)
    near(out, wanted)
    with pytest.raises(ctn.ArgumentError, match="output 0 of chain '.*' has no samples"):
        vmap(lambda x: write(x, out[0]))(x)


def test_autocast(device, near):
    x, w, b = torch.randn(SAMPLES, ROWS, K, device=device), torch.randn(N, K, device=device), torch.randn(N)
    b = b.to(device)
    with torch.autocast(device.type, torch.bfloat16):
        y = vmap(our_linear, (0, None, None))(x, w, b)
        gradient = grad(lambda w: vmap(our_linear, (0, None, None))(x, w, b).float().sum())(w)
    assert y.dtype == torch.bfloat16 and gradient.dtype == torch.float32
    wide = [t.double() for t in (x, w, b)]
    near(y, linear(*wide), torch.bfloat16)
    near(gradient, grad(lambda w: linear(wide[0], w, wide[2]).sum())(wide[1]), torch.bfloat16)


def test_direct_calls_take_no_wrappers(device):
    """They would compute a wrapper's memory, or lose a gradient. Operands of a call are plain or wrapped."""
    tensors = [torch.randn(s, device=device, dtype=torch.bfloat16) for s in ((ROWS, K), (N, K), (N,))]
    key = forms.linear("bf16", True, "silu", False).form.key
    with torch.no_grad():
        our_linear(*tensors)
    seen, kept = [], []

    def look(*wrapped):
        kept.append(wrapped)
        for mixed in (wrapped, (wrapped[0], *tensors[1:]), (tensors[0], *wrapped[1:]), tuple(tensors)):
            seen.extend([operators._direct(key, mixed), operators._direct((key, key), mixed)])
        return sum(t.float().sum() for t in wrapped)

    for no_grad in (torch.no_grad(), torch.enable_grad()):
        with no_grad:
            vmap(look)(*(t.unsqueeze(0) for t in tensors))
            grad(look)(*tensors)
            vmap(grad(look))(*(t.unsqueeze(0) for t in tensors))
            seen.extend(operators._direct(key, wrapped) for wrapped in kept)  # their transforms have ended
    assert len(seen) == 48 + 9 and set(seen) == {None}


@pytest.mark.parametrize(
    "wrong, sentence",
    [
        (lambda f, x: torch.func.jvp(f, (x,), (x,)), "forward-mode tangent"),
        (lambda f, x: jacfwd(f)(x), "forward-mode tangent"),
        (lambda f, x: vmap(lambda x: torch.func.jvp(f, (x,), (x,)))(x.unsqueeze(0)), "forward-mode tangent"),
        (lambda f, x: torch.func.hessian(lambda x: f(x).sum())(x), "forward-mode tangent"),
        (lambda f, x: torch.func.linearize(f, x), "forward-mode tangent"),
        (lambda f, x: jacrev(jacrev(lambda x: f(x).sum()))(x), "has no second derivative"),
        (lambda f, x: grad(lambda x: grad(lambda x: f(x).sum())(x).sum())(x), "has no second derivative"),
        (lambda f, x: vmap(grad(lambda x: grad(lambda x: f(x).sum())(x).sum()))(x), "has no second derivative"),
    ],
)
def test_derivatives_that_chains_do_not_have(device, wrong, sentence):
    w, b = torch.randn(N, K, device=device), torch.randn(N, device=device)
    with pytest.raises(ctn.ArgumentError, match=sentence):
        wrong(lambda x: our_linear(x, w, b), torch.randn(ROWS, K, device=device))


def test_tangents_that_autograd_sees(device):
    w = torch.randn(N, K, device=device, requires_grad=True)
    with torch.autograd.forward_ad.dual_level():
        x = torch.autograd.forward_ad.make_dual(torch.randn(ROWS, K, device=device), torch.ones(ROWS, K, device=device))
        with pytest.raises(ctn.ArgumentError, match="forward-mode tangent"):
            ct.linear(x, w)


def test_other_refusals(device):
    layer = ct.Linear(K, N, fuse_wgrad_accumulation=True, device=device)
    x = torch.randn(SAMPLES, ROWS, K, device=device)
    for wrong in (vmap(layer), grad(lambda x: layer(x).sum())):
        with pytest.raises(ctn.ArgumentError, match="fuse_wgrad_accumulation adds to weight.main_grad"):
            wrong(x)
    with torch.no_grad():
        assert torch.equal(vmap(layer)(x), layer(x))
    q, scale = ct.quantize_fp8(torch.randn(SAMPLES, ROWS, 32, device=device))
    product = lambda q, s: ct.scaled_linear(q, q, s, torch.ones(1, device=device)).float()
    if device.type == "cpu" or torch.cuda.get_device_capability() == (9, 0):
        with pytest.raises(ctn.ArgumentError, match="is called as an operator, which has no gradient"):
            grad(lambda s: vmap(product)(q, s).sum())(scale)


@pytest.mark.parametrize("name", ["aot_eager", "catenary"])
def test_compiled(device, same, name):
    backend = ct.backend if name == "catenary" else name
    dims = (0, None, None)
    tensors = samples_of([(ROWS, K), (N, K), (N,)], dims, device)
    for make in (lambda f: vmap(f, dims), lambda f: per_sample(f, dims, tensors), lambda f: of_all(f, dims, tensors)):
        torch._dynamo.reset()
        same(torch.compile(make(our_linear), backend=backend, fullgraph=True), make(linear), *tensors, factor=8)


def test_compiled_chains(device, same):
    dims = (0, None)
    tensors = samples_of([(ROWS, K), (N, K)], dims, device)
    chain = ct.chain(SCALED)
    ours = lambda x, w: chain(x, w, 3.0)
    theirs = lambda x, w: (x @ w.t(), F.silu(x @ w.t()) * 3)
    for make in (lambda f: vmap(f, dims), lambda f: per_sample(f, dims, tensors), lambda f: of_all(f, dims, tensors)):
        torch._dynamo.reset()
        same(torch.compile(make(ours), backend="aot_eager", fullgraph=True), make(theirs), *tensors, factor=8)


def test_compiled_tangents_are_refused(device):
    w, chain = torch.randn(N, K, device=device), ct.chain(SCALED)
    for call in (lambda x: ct.linear(x, w), lambda x: chain(x, w, 1.0)[1]):
        compiled = torch.compile(lambda x, f=call: torch.func.jvp(f, (x,), (x,)), backend="aot_eager")
        with pytest.raises(Exception, match="forward-mode tangent"):
            compiled(torch.randn(ROWS, K, device=device))


def test_compiled_for_any_number_of_samples(device, same):
    dims = (0, None, None)
    tensors = samples_of([(ROWS, K), (N, K), (N,)], dims, device)
    compiled = torch.compile(per_sample(our_linear, dims, tensors), backend="aot_eager", fullgraph=True, dynamic=True)
    for samples in (SAMPLES, 3, 7):
        x = torch.randn(samples, ROWS, K, device=device)
        same(compiled, per_sample(linear, dims, tensors), x, *tensors[1:], factor=8)


def test_compiled_with_autograd_outside(device, near):
    x, w, b = (torch.randn(s, device=device, requires_grad=True) for s in ((SAMPLES, ROWS, K), (N, K), (N,)))
    y = torch.compile(vmap(our_linear, (0, None, None)), backend="aot_eager", fullgraph=True)(x, w, b)
    wide = [t.detach().double().requires_grad_() for t in (x, w, b)]
    wanted = torch.autograd.grad(linear(*wide).sum(), wide)
    for got, z in zip(torch.autograd.grad(y.sum(), (x, w, b)), wanted, strict=True):
        near(got, z, factor=4)


def test_compiled_quantised_and_fp8(device):
    layer = ct.QuantizedLinear.from_linear(torch.nn.Linear(64, 8).bfloat16(), group=32).to(device)
    x = torch.randn(SAMPLES, 2, 64, device=device, dtype=torch.bfloat16)
    for f in (vmap(layer), vmap(grad(lambda x: layer(x).float().sum()))):
        torch._dynamo.reset()
        assert torch.equal(torch.compile(f, backend="aot_eager", fullgraph=True)(x), f(x))
    if device.type == "cpu" or torch.cuda.get_device_capability() == (9, 0):
        q, scale = ct.quantize_fp8(x)
        w, w_scale = ct.quantize_fp8(torch.randn(16, 64, device=device))
        f = vmap(lambda q, s: ct.scaled_linear(q, w, s, w_scale))
        assert torch.equal(torch.compile(f, backend="aot_eager", fullgraph=True)(q, scale), f(q, scale))


CODE = """
import torch, catenary.torch as ct
torch.manual_seed(0)
{}
x, w, b = torch.randn(5, 3, 8), torch.randn(6, 8), torch.randn(6)
ours = lambda x, w, b: ct.linear(x, w, b, "silu").square().sum()
theirs = lambda x, w, b: torch.nn.functional.silu(torch.nn.functional.linear(x, w, b)).square().sum()
for dims, tensors in (((0, None, None), (x, w, b)), ((0, 0, 0), (x, w.expand(5, 6, 8) + 1, b.expand(5, 6) - 1))):
    for f in (lambda g: torch.vmap(g, dims), lambda g: torch.vmap(torch.func.grad(g, (0, 1, 2)), dims)):
        for y, z in zip(f(ours)(*tensors), f(theirs)(*tensors), strict=True):
            assert torch.allclose(y, z, rtol=1e-4, atol=1e-4), (y - z).abs().max()
"""


def test_the_simulator():
    run_python(CODE.format("ct.set_host('simulator')"), CATENARY_DEVICE="sim")


def test_operators_in_python():
    run_python(CODE.format("assert ct.IMPLEMENTATION == 'python'"), CATENARY_TORCH_OPERATORS="python")
