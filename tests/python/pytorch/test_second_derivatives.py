# SPDX-License-Identifier: Apache-2.0
"""Gradients with create_graph: they are those without, and their own gradient is refused, also where it would come by
a value that only the forward has saved."""

import pytest

torch = pytest.importorskip("torch")
from torch.autograd import functional

import catenary as ctn
import catenary.torch as ct

TWO = """chain two(input x: f32[4, 8], weight w: f32[6, 8]) {
  c = contract "mk,nk->mn" f32 (x, w)
  y = silu(c)
  z = tanh(c)
  return y: f32, z: f32
}"""
two = ct.chain(TWO)
CALLS = {
    "linear": lambda x, w: ct.linear(x, w, None, "silu"),
    "glu": lambda x, w: ct.glu(x, w, w),
    "all again": lambda x, w: ct.linear(x, w, None, "silu", recompute="all"),
    "two": lambda x, w: two(x, w)[0],
}


@pytest.mark.parametrize("frozen", [None, 0, 1])
@pytest.mark.parametrize("name", CALLS)
def test_refused(device, name, frozen):
    tensors = [torch.randn(shape, device=device) for shape in ((4, 8), (6, 8))]
    wanted = [t.requires_grad_() for i, t in enumerate(tensors) if i != frozen]
    y = CALLS[name](*tensors)
    plain = torch.autograd.grad(y.sum(), wanted, retain_graph=True)
    found = torch.autograd.grad(y.sum(), wanted, create_graph=True)
    for gradient, other in zip(found, plain, strict=True):
        assert torch.equal(gradient, other) and gradient.requires_grad and not other.requires_grad
        with pytest.raises(ctn.ArgumentError, match="has no second derivative: differentiate it once, or compute"):
            torch.autograd.grad(gradient.square().sum(), wanted, retain_graph=True, allow_unused=True)


def test_a_penalty_is_not_lost(device):
    """The loss has another path to x, so that autograd itself finds nothing wrong."""
    x, w = torch.randn(4, 8, device=device, requires_grad=True), torch.randn(6, 8, device=device)
    (gradient,) = torch.autograd.grad(CALLS["linear"](x, w).sum(), x, create_graph=True)
    with pytest.raises(ctn.ArgumentError, match="has no second derivative"):
        (x.sum() + gradient.norm()).backward()


def test_products_with_the_jacobian(device):
    x, w = torch.randn(4, 8, device=device), torch.randn(6, 8, device=device)
    f = lambda x: CALLS["linear"](x, w)
    for wrong in (lambda: functional.jvp(f, x, x), lambda: functional.hvp(lambda x: f(x).sum(), x, x),
                  lambda: functional.hessian(lambda x: f(x).sum(), x)):  # fmt: skip
        with pytest.raises(ctn.ArgumentError, match="has no second derivative"):
            wrong()
    with pytest.raises(ctn.ArgumentError, match="for samples of torch.autograd .*: use torch.func.jacrev, or torch.vm"):
        functional.jacobian(f, x, vectorize=True)
    assert torch.allclose(functional.jacobian(f, x), torch.func.jacrev(f)(x), atol=1e-5)


def test_a_gradient_that_depends_on_nothing(device):
    """x w^T has the gradient g w, which needs none where w needs none."""
    x, w = torch.randn(4, 8, device=device, requires_grad=True), torch.randn(6, 8, device=device)
    (gradient,) = torch.autograd.grad(ct.linear(x, w).sum(), x, create_graph=True)
    assert not gradient.requires_grad


def test_results_without_a_gradient(device):
    x, w = torch.randn(4, 8, device=device, requires_grad=True), torch.randn(6, 8, device=device)
    y, z = two(x, w)
    wide = x.detach().double().requires_grad_()
    for result, wanted in ((y, torch.nn.functional.silu), (z, torch.tanh)):
        other = torch.autograd.grad(wanted(wide @ w.double().t()).sum(), wide)[0]
        got = torch.autograd.grad(result.sum(), x, retain_graph=True)[0]
        assert torch.allclose(got.double(), other, atol=1e-5)


@pytest.mark.parametrize("create_graph", [False, True])
def test_fused_gradients(device, create_graph):
    layer = ct.Linear(8, 6, bias=False, activation="silu", fuse_wgrad_accumulation=True, device=device)
    layer.weight.main_grad = torch.ones(6, 8, device=device)
    x = torch.randn(4, 8, device=device)
    layer(x).sum().backward(create_graph=create_graph)
    wide = layer.weight.detach().double().requires_grad_()
    torch.nn.functional.silu(x.double() @ wide.t()).sum().backward()
    assert torch.allclose(layer.weight.main_grad.double(), wide.grad + 1, atol=1e-5) and layer.weight.grad is None
