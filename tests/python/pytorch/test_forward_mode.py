# SPDX-License-Identifier: Apache-2.0
"""Tangents of torch.autograd.forward_ad, which chains do not have: every call that would drop one is refused. Nothing
but the level of forward mode tells of them: no dispatch key, no class."""

import pytest

torch = pytest.importorskip("torch")
from conftest import run_python
from torch.autograd import forward_ad
from torch.func import functionalize, grad, jvp, vmap

import catenary as ctn
import catenary.torch as ct
from catenary.torch import forms, operators

TWO = """chain two(input x: bf16[4, 64], weight w: bf16[16, 64], scalar s: f32) {
  c = contract "mk,nk->mn"(x, w)
  y = scale(c, s)
  return c: bf16, y: f32
}"""
FIVE = """chain five(input x: f32[4, 64]) {
  a = abs(x) b = neg(x) c = square(x) d = exp(x) e = tanh(x)
  return a: f32, b: f32, c: f32, d: f32, e: f32
}"""


class Calls:
    """Functions of x, called once before, so that direct calls are possible."""

    def __init__(self, device):
        self.x, self.w, self.b = (torch.randn(s, device=device).bfloat16() for s in ((4, 64), (16, 64), (16,)))
        self.form = forms.linear("bf16", True, None, False).form
        quantised = ct.QuantizedLinear.from_linear(torch.nn.Linear(64, 8).bfloat16(), group=32).to(device)
        chain, five = ct.chain(TWO), ct.chain(FIVE)
        self.layers = {
            "linear": lambda x: ct.linear(x, self.w, self.b),
            "f32": lambda x: ct.linear(x.float(), self.w.float()),
            "glu": lambda x: ct.glu(x, self.w, self.w),
            "chain": lambda x: chain(x, self.w, 2.0)[1],
            "five outputs": lambda x: five(x.float())[4],
            "quantised": quantised,
            "run": lambda x: operators.run(self.form, (x, self.w, self.b))[0],
            "run_one": lambda x: operators.run_one(self.form.key, (x, self.w, self.b)),
            "run_out": self.run_out,
        }
        with torch.no_grad():
            for call in self.layers.values():
                call(self.x)

    def run_out(self, x):
        out = torch.zeros(4, 16, device=x.device, dtype=x.dtype)
        operators.run_out(self.form, (x, self.w, self.b), (out,))
        return out

    def operator(self, x):
        return torch.ops.catenary.run1([x, self.w, self.b], self.form.key)


NAMES = ["linear", "f32", "glu", "chain", "five outputs", "quantised", "run", "run_one", "run_out"]


@pytest.fixture
def calls_of(device):
    return Calls(device)


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_tangent_is_refused(calls_of, name, gradients):
    call = calls_of.layers[name]
    with torch.set_grad_enabled(gradients), forward_ad.dual_level():
        dual = forward_ad.make_dual(calls_of.x, torch.ones_like(calls_of.x))
        with pytest.raises(ctn.ArgumentError, match="forward-mode tangent .*: use torch.func.vjp, grad or jacrev"):
            call(dual)


@pytest.mark.parametrize("name", NAMES)
def test_other_tensors_of_an_active_level(calls_of, name):
    """A level without a tangent in the call changes nothing."""
    call = calls_of.layers[name]
    with torch.no_grad():
        wanted = call(calls_of.x)
        with forward_ad.dual_level():
            forward_ad.make_dual(torch.ones(1), torch.ones(1))
            y = call(calls_of.x)
            assert forward_ad.unpack_dual(y).tangent is None
        assert torch.equal(y, wanted) and torch.equal(call(calls_of.x), wanted)


def test_a_tangent_of_any_operand(calls_of):
    with torch.no_grad(), forward_ad.dual_level():
        for place in range(3):
            tensors = [calls_of.x, calls_of.w, calls_of.b]
            tensors[place] = forward_ad.make_dual(tensors[place], torch.ones_like(tensors[place]))
            with pytest.raises(ctn.ArgumentError, match="forward-mode tangent"):
                ct.linear(*tensors)
        out = torch.zeros(4, 16, device=calls_of.x.device, dtype=torch.bfloat16)
        dual = forward_ad.make_dual(out, torch.ones_like(out))
        with pytest.raises(ctn.ArgumentError, match="forward-mode tangent"):
            operators.run_out(calls_of.form, (calls_of.x, calls_of.w, calls_of.b), (dual,))


def test_a_tangent_and_gradients(calls_of):
    w = calls_of.w.clone().requires_grad_()
    quantised = calls_of.layers["quantised"]
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(calls_of.x, torch.ones_like(calls_of.x))
        wanting = forward_ad.make_dual(calls_of.x.clone().requires_grad_(), torch.ones_like(calls_of.x))
        for call in (lambda: ct.linear(dual, w), lambda: quantised(wanting), lambda: quantised(wanting.repeat(16, 1))):
            with pytest.raises(ctn.ArgumentError, match="forward-mode tangent"):
                call()


@pytest.mark.skipif(operators.IMPLEMENTATION != "shim", reason="Python's kernels raise ArgumentError")
def test_operators_refuse_a_tangent(calls_of):
    """The same in graphs of torch.compile and torch.export, which call the operators."""
    compiled = torch.compile(lambda x: ct.linear(x, calls_of.w, calls_of.b), backend="aot_eager", fullgraph=True)
    out = torch.zeros(4, 16, device=calls_of.x.device, dtype=torch.bfloat16)
    operator, form = torch.ops.catenary.run_out.default, calls_of.form
    written = lambda x: operator([x, calls_of.w, calls_of.b], [out], form.key)
    for call in (calls_of.operator, written, compiled):
        with torch.no_grad(), forward_ad.dual_level():
            call(calls_of.x)
            dual = forward_ad.make_dual(calls_of.x, torch.ones_like(calls_of.x))
            with pytest.raises(RuntimeError, match="a tensor of chain 'linear' has a forward-mode tangent, and chains"):
                call(dual)


def test_operators_in_transforms(calls_of):
    """torch gives an operator without a formula tangents and gradients of 0 there."""
    x, one = calls_of.x, calls_of.x.unsqueeze(0)
    exported = torch.export.export(ct.Linear(64, 16).bfloat16().to(x.device), (x,)).module()
    for f in (calls_of.operator, calls_of.run_out, exported):
        for wrong in (lambda f=f: jvp(f, (x,), (x,)), lambda f=f: vmap(lambda x: jvp(f, (x,), (x,)))(one)):
            with pytest.raises(ctn.ArgumentError, match="forward-mode tangent"):
                wrong()
        total = lambda x, f=f: f(x).float().sum()
        for wrong in (lambda t=total: grad(t)(x), lambda t=total: vmap(grad(t))(one)):
            with pytest.raises(ctn.ArgumentError, match="is called as an operator, which has no gradient"):
                wrong()
        # what needs neither goes on
        assert torch.equal(grad(lambda s, f=f: (f(x).float() * s).sum())(torch.ones(4, 16, device=x.device)), f(x))
    for f in (calls_of.operator, exported):
        assert torch.equal(vmap(f)(one)[0], f(x))


def test_gradients_of_what_run_out_overwrites(calls_of):
    def f(scale):
        out = torch.ones(4, 16, device=calls_of.x.device, dtype=torch.bfloat16) * scale
        operators.run_out(calls_of.form, (calls_of.x, calls_of.w, calls_of.b), (out,))
        return out.float().sum()

    with pytest.raises(ctn.ArgumentError, match="is called as an operator, which has no gradient"):
        grad(f)(torch.ones(1, device=calls_of.x.device))


def test_no_grad_and_tangents(calls_of):
    """torch.no_grad() is of reverse mode only."""

    for f in (calls_of.layers["linear"], calls_of.layers["chain"], calls_of.operator):
        wrong = torch.no_grad()(f)
        for call in (lambda: jvp(wrong, (calls_of.x,), (calls_of.x,)), lambda: torch.func.jacfwd(wrong)(calls_of.x)):
            with pytest.raises(ctn.ArgumentError, match="forward-mode tangent"):
                call()


def test_operators_with_another_number_of_outputs(calls_of):
    run2 = lambda x: torch.ops.catenary.run2([x, calls_of.w, calls_of.b], calls_of.form.key)
    with pytest.raises(ctn.ArgumentError, match="has 1 outputs, and run2 returns 2: call run1, or run_out"):
        vmap(run2)(calls_of.x.unsqueeze(0))


def test_functionalize(calls_of):
    x, one, layer = calls_of.x, calls_of.x.unsqueeze(0), calls_of.layers["linear"]
    wanted = calls_of.operator(x)
    for f in (layer, calls_of.operator):
        assert torch.equal(functionalize(f)(x), wanted)
        for nested in (functionalize(vmap(f)), vmap(functionalize(f))):
            assert torch.equal(nested(one)[0], wanted)
    total = lambda x: layer(x).float().sum()
    assert torch.equal(grad(functionalize(total))(x), grad(total)(x))
    for wrong in (functionalize(grad(total)), lambda x: functionalize(vmap(grad(total)))(x.unsqueeze(0))):
        with pytest.raises(ctn.ArgumentError, match="is differentiated inside of functionalize"):
            wrong(x)
    with pytest.raises(ctn.ArgumentError, match="writes tensors of the caller, which functionalize does not follow"):
        functionalize(calls_of.run_out)(x)


def test_operators_in_python():
    code = """
import torch, catenary as ctn, catenary.torch as ct
from torch.autograd import forward_ad
from catenary.torch import forms, operators
assert ct.IMPLEMENTATION == "python"
x, w = torch.randn(4, 8), torch.randn(6, 8)
key = forms.linear("f32", False, None, True).form.key
out = torch.zeros(4, 6)
calls = (lambda x: ct.linear(x, w), lambda x: torch.ops.catenary.run1([x, w], key),
         lambda x: torch.ops.catenary.run_out([x, w], [out], key))
with forward_ad.dual_level():
    dual = forward_ad.make_dual(x, x)
    for call in calls:
        call(x)
        try:
            call(dual)
        except ctn.ArgumentError as error:
            assert "forward-mode tangent" in str(error)
        else:
            assert False
"""
    run_python(code, CATENARY_TORCH_OPERATORS="python")
