# SPDX-License-Identifier: Apache-2.0
"""torch.vmap and torch.func over layers, chains and operators: values and gradients against eager PyTorch in float64,
and how often an operator is called."""

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F
from torch.func import functional_call, grad, jacrev, stack_module_state, vjp, vmap

import catenary as ctn
import catenary.torch as ct
from catenary.torch import batching
from pytorch.test_layers import experts

leaves = torch.utils._pytree.tree_leaves
SAMPLES, ROWS, K, N = 5, 3, 8, 6


def total(f):
    return lambda *tensors: sum(y.square().sum() for y in leaves(f(*tensors)))


def floats(tensors):
    return tuple(i for i, t in enumerate(tensors) if t.is_floating_point())


def per_sample(f, dims, tensors):
    return vmap(grad(total(f), argnums=floats(tensors)), in_dims=dims)


def of_all(f, dims, tensors):
    return grad(total(vmap(f, in_dims=dims)), argnums=floats(tensors))


def linear(x, w, b):
    return F.silu(F.linear(x, w, b))


def our_linear(x, w, b):
    return ct.linear(x, w, b, "silu")


def glu(x, w, u):
    return F.silu(F.linear(x, w)) * F.linear(x, u)


def packed_glu(x, w, b):
    gate, up = F.linear(x, w, b).chunk(2, -1)
    return F.gelu(gate) * up


def glu_mlp(x, g, u, d):
    return F.linear(glu(x, g, u), d)


def grouped(x, w, b):
    return F.silu(torch.einsum("mgk,gnk->mgn", x, w) + b)


LAYERS = {
    "linear": (our_linear, linear, [(ROWS, K), (N, K), (N,)]),
    "one row": (our_linear, linear, [(K,), (N, K), (N,)]),
    "two dimensions of rows": (our_linear, linear, [(2, ROWS, K), (N, K), (N,)]),
    "glu": (lambda *t: ct.glu(*t), glu, [(ROWS, K), (N, K), (N, K)]),
    "packed glu": (lambda x, w, b: ct.glu(x, w, b=b, activation="gelu"), packed_glu, [(ROWS, K), (N, K), (N,)]),
    "glu_mlp": (ct.glu_mlp, glu_mlp, [(ROWS, K), (N, K), (N, K), (K, N)]),
    "grouped": (lambda *t: ct.grouped_linear(*t, "silu"), grouped, [(ROWS, 4, K), (4, N, K), (4, N)]),
}


def samples_of(shapes, dims, device):
    return [
        torch.randn(shape, device=device)
        if dim is None
        else torch.randn(SAMPLES, *shape, device=device).movedim(0, dim)
        for shape, dim in zip(shapes, dims, strict=True)
    ]


@pytest.mark.parametrize("weights", [None, 0])
@pytest.mark.parametrize("name", LAYERS)
def test_layers(device, same, calls, name, weights):
    """One call for all samples: of more rows, or of a chain with a dimension of samples."""
    ours, theirs, shapes = LAYERS[name]
    dims = (0, *[weights] * (len(shapes) - 1))
    tensors = samples_of(shapes, dims, device)
    for transform, launches in ((lambda f, dims, tensors: vmap(f, dims), 1), (per_sample, 3), (of_all, 3)):
        calls[0] = 0
        same(transform(ours, dims, tensors), transform(theirs, dims, tensors), *tensors, factor=8)
        assert calls[0] == launches


@pytest.mark.parametrize(
    "dims, launches",
    [
        ((1, None, None), 1), ((-1, None, None), 1), ((0, 1, None), 1), ((2, -1, 1), 1), ((None, 0, None), 1),
        ((None, 1, 0), 1), ((None, None, 0), SAMPLES),
    ],
)  # fmt: skip
def test_dimensions(device, same, calls, dims, launches):
    """Without a chain, as for samples of only the bias, each sample has a call."""
    tensors = samples_of([(ROWS, K), (N, K), (N,)], dims, device)
    for out in (0, 1, -1):
        calls[0] = 0
        same(vmap(our_linear, dims, out), vmap(linear, dims, out), *tensors)
        assert calls[0] == launches
    for transform in (per_sample, of_all):
        same(transform(our_linear, dims, tensors), transform(linear, dims, tensors), *tensors, factor=8)


def test_nested(device, same, calls):
    x, w, b = torch.randn(4, SAMPLES, ROWS, K, device=device), torch.randn(N, K, device=device), torch.randn(N)
    b = b.to(device)
    every, many = (0, None, None), torch.randn(SAMPLES, N, K, device=device)
    same(vmap(vmap(our_linear, every), every), vmap(vmap(linear, every), every), x, w, b)
    assert calls[0] == 1
    for inner, outer in (((0, 0, None), every), ((None, 0, None), (1, None, None)), ((0, None, None), (None, 0, None))):
        given = x if inner[0] == outer[0] == 0 else x[0]
        same(vmap(vmap(our_linear, inner), outer), vmap(vmap(linear, inner), outer), given, many, b)
    tensors = (x, w, b)
    same(vmap(per_sample(our_linear, every, tensors), every), vmap(per_sample(linear, every, tensors), every), *tensors,
         factor=8)  # fmt: skip


def test_jacobians(device, same):
    x, w, b = torch.randn(ROWS, K, device=device), torch.randn(N, K, device=device), torch.randn(N, device=device)
    same(jacrev(our_linear, (0, 1, 2)), jacrev(linear, (0, 1, 2)), x, w, b)
    xs = torch.randn(SAMPLES, ROWS, K, device=device)
    same(vmap(jacrev(our_linear, (0, 1)), (0, None, None)), vmap(jacrev(linear, (0, 1)), (0, None, None)), xs, w, b)

    def pulled(f):
        return lambda y, *tensors: vjp(f, *tensors)[1](y)

    same(pulled(our_linear), pulled(linear), torch.randn(ROWS, N, device=device), x, w, b)


def test_autograd_outside_of_vmap(device, near, calls):
    x, w, b = (torch.randn(s, device=device, requires_grad=True) for s in ((SAMPLES, ROWS, K), (N, K), (N,)))
    out = torch.randn(SAMPLES, ROWS, N, device=device)
    got = torch.autograd.grad(vmap(our_linear, (0, None, None))(x, w, b), (x, w, b), out)
    assert calls[0] == 3
    wide = [t.detach().double().requires_grad_() for t in (x, w, b)]
    for y, z in zip(got, torch.autograd.grad(linear(*wide), wide, out.double()), strict=True):
        near(y, z, factor=4)


def test_only_wanted_gradients_are_computed(device, same, calls):
    """The parameters need gradients of autograd, which grad() does not ask for."""
    w, b = torch.randn(N, K, device=device, requires_grad=True), torch.randn(N, device=device, requires_grad=True)
    wide = [t.detach().double() for t in (w, b)]
    x = torch.randn(SAMPLES, ROWS, K, device=device)
    same(vmap(grad(lambda x: our_linear(x, w, b).sum())), vmap(grad(lambda x: linear(x, *wide).sum())), x)
    assert calls[0] == 2  # no gradient of w


def test_no_grad(device, same):
    """As for operations of torch it is of all levels, and not of the innermost one."""
    w, b = torch.randn(N, K, device=device), torch.randn(N, device=device)
    wide = [t.double() for t in (w, b)]

    def without(f, *tensors):
        def g(x):
            with torch.no_grad():
                y = f(x, *tensors)
            return (y.sum() * x).sum()

        return g

    ours, theirs = without(our_linear, w, b), without(linear, *wide)
    twice = lambda f: grad(lambda x: grad(f)(x).sum())
    for transform in (grad, twice, lambda f: vmap(twice(f))):
        same(transform(ours), transform(theirs), torch.randn(2, ROWS, K, device=device), factor=8)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(device, near, dtype):
    x, w, b = (torch.randn(s, device=device, dtype=dtype) for s in ((SAMPLES, ROWS, K), (N, K), (N,)))
    with torch.no_grad():
        ct.linear(x, w, b, "silu")  # direct calls are possible from here on
        got = vmap(our_linear, (0, None, None))(x, w, b)
    wide = [t.double() for t in (x, w, b)]
    near(got, vmap(linear, (0, None, None))(*wide), dtype)
    dims = (0, None, None)
    for y, z in zip(per_sample(our_linear, dims, wide)(x, w, b), per_sample(linear, dims, wide)(*wide), strict=True):
        near(y, z, dtype, 2)


ENDS = [[3, 3, 5, 9], [0, 4, 4, 10], [2, 5, 7, 10], [10, 10, 10, 10], [1, 2, 3, 4]]  # some rows are of no group


def ragged(x, w, b, ends):
    group = torch.searchsorted(ends.contiguous(), torch.arange(10, device=x.device, dtype=ends.dtype), right=True)
    inside, group = (group < 4).unsqueeze(-1), group.clamp(max=3)
    return F.silu((torch.einsum("mk,mnk->mn", x, w[group]) + b[group]) * inside)


@pytest.mark.parametrize(
    "dims, launches", [((0, None, None, 0), 1), ((0, None, None, None), 1), ((0, 0, 0, 0), SAMPLES)]
)
def test_ragged_groups(device, same, calls, dims, launches):
    ends = torch.tensor(ENDS, dtype=torch.int32, device=device)
    tensors = [*samples_of([(10, K), (4, N, K), (4, N)], dims[:3], device), ends if dims[3] == 0 else ends[0]]

    def ours(x, w, b, ends):
        return ct.grouped_linear(x, w, b, "silu", ends)

    same(vmap(ours, dims), vmap(ragged, dims), *tensors)
    assert calls[0] == launches
    for transform in (per_sample, of_all):
        same(transform(ours, dims, tensors), transform(ragged, dims, tensors), *tensors, factor=8)


@pytest.mark.parametrize("wrong", [[5, 3, 9, 10], [-1, 3, 9, 10], [1, 3, 9, 11]])
def test_wrong_ends_of_one_sample(wrong):
    """The sum over samples must not hide them from the check that the reference makes."""
    x, w = torch.randn(2, 10, K), torch.randn(4, N, K)
    call = lambda x, ends: ct.grouped_linear(x, w, offs=ends)
    for ends in ([wrong, [0, 4, 4, 4]], [[0, 4, 4, 4], wrong]):
        with pytest.raises(RuntimeError, match="ends must ascend and be in"):
            vmap(call)(x, torch.tensor(ends, dtype=torch.int32))


def test_experts(device, same, calls):
    dims = (0, 0, 0, None, None)
    index = torch.randint(0, 4, (SAMPLES, 5, 2), device=device)
    tensors = [torch.randn(SAMPLES, 5, K, device=device), index, torch.rand(SAMPLES, 5, 2, device=device),
               torch.randn(4, 12, K, device=device), torch.randn(4, K, N, device=device)]  # fmt: skip

    same(vmap(ct.experts, dims), vmap(experts, dims), *tensors)
    assert calls[0] == 1
    for transform in (per_sample, of_all):
        same(transform(ct.experts, dims, tensors), transform(experts, dims, tensors), *tensors, factor=8)


SCALED = """chain scaled[M in 1..64](input x: f32[M, 8], weight w: f32[6, 8], scalar s: f32) {
  c = contract "mk,nk->mn" f32 (x, w)
  y = scale(silu(c), s)
  return c: f32, y: f32
}"""
NORM = """chain norm[M in 1..64](input x: f32[M, 8], weight g: f32[8], weight w: f32[6, 8]) {
  r = rsqrt(add(sum "mk->m"(square(x)), 0.5))
  h = mul(mul(x @ "mk", r @ "m"), g)
  y = contract "mk,nk->mn" f32 (cast(h, f32), w)
  return y: f32, r: f32
}"""


def norm(x, g, w):
    r = (x.square().sum(-1) + 0.5).rsqrt()
    return (x * r.unsqueeze(-1) * g) @ w.t(), r


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("dims", [(0, None), (1, None), (0, 0), (None, 1)])
def test_chains(device, same, calls, exact, dims):
    """Samples need not have the strides of an exact chain: vmap chooses these."""
    fixed = SCALED.replace("[M in 1..64]", "").replace("[M,", "[3,")
    tensors = samples_of([(ROWS, K), (N, K)], dims, device)
    theirs = lambda x, w: (x @ w.t(), F.silu(x @ w.t()) * 3)
    for text in (SCALED, fixed) if exact else (SCALED,):
        function = ct.chain(text, exact=exact)
        ours = lambda x, w, function=function: function(x, w, 3.0)
        calls[0] = 0
        same(vmap(ours, dims), vmap(theirs, dims), *tensors)
        assert calls[0] == 1
        for transform in (per_sample, of_all):
            same(transform(ours, dims, tensors), transform(theirs, dims, tensors), *tensors, factor=8)
        one = [lambda x, w, f=f: f(x, w)[1] for f in (ours, theirs)]  # the other output has no gradient
        same(per_sample(one[0], dims, tensors), per_sample(one[1], dims, tensors), *tensors, factor=8)


@pytest.mark.parametrize("dims", [(0, None, None), (0, 0, 0), (0, 0, None), (None, 0, 0)])
def test_norms(device, same, dims):
    tensors = samples_of([(ROWS, K), (K,), (N, K)], dims, device)
    ours = ct.chain(NORM, exact=False)
    same(vmap(ours, dims), vmap(norm, dims), *tensors)
    for transform in (per_sample, of_all):
        same(transform(ours, dims, tensors), transform(norm, dims, tensors), *tensors, factor=8)


@pytest.mark.parametrize("shape", [(65, K), (ROWS, 2 * K)])
def test_exact_chains_take_their_sizes(device, shape):
    function, w = ct.chain(SCALED), torch.randn(N, K, device=device)
    with pytest.raises(ctn.ArgumentError, match=r"'x' has sizes .* in each sample of vmap, and the chain takes"):
        vmap(lambda x: function(x, w, 1.0))(torch.randn(2, *shape, device=device))


class Net(torch.nn.Module):
    def __init__(self, of_torch):
        super().__init__()
        self.first = torch.nn.Linear(K, 12) if of_torch else ct.Linear(K, 12, activation="silu")
        self.second = ct.GLU(12, 16, bias=True)
        self.of_torch = of_torch

    def forward(self, x):
        if not self.of_torch:
            return self.second(self.first(x))
        g, u, d = self.second.gate_proj, self.second.up_proj, self.second.down_proj
        x = F.silu(self.first(x))
        return d(F.silu(g(x)) * u(x))


def nets(device, count=1):
    ours = [Net(False).to(device) for _ in range(count)]
    theirs = [Net(True).to(device) for _ in range(count)]
    for net, other in zip(ours, theirs, strict=True):
        other.load_state_dict(net.state_dict())
    return ours, [net.double() for net in theirs]


def test_gradients_of_each_sample(device, near):
    (ours,), (theirs,) = nets(device)
    x = torch.randn(SAMPLES, K, device=device)
    found = []
    for net, given in ((ours, x), (theirs, x.double())):
        parameters = {name: p.detach() for name, p in net.named_parameters()}
        loss = lambda parameters, x, net=net: functional_call(net, parameters, (x,)).square().sum()
        found.append(vmap(grad(loss), in_dims=(None, 0))(parameters, given))
    assert found[0].keys() == found[1].keys()
    for name, gradient in found[0].items():
        near(gradient, found[1][name], factor=8)


def test_ensembles(device, near):
    ours, theirs = nets(device, 3)
    x, y = torch.randn(ROWS, K, device=device), torch.randn(3, ROWS, K, device=device)
    for dim, given in ((None, x), (0, y)):
        results = []
        for models, data in ((ours, given), (theirs, given.double())):
            parameters, _ = stack_module_state(models)
            call = lambda parameters, x, model=models[0]: functional_call(model, parameters, (x,))
            out = vmap(call, in_dims=(0, dim))(parameters, data)
            results.append((out, *torch.autograd.grad(out.square().sum(), list(parameters.values()))))
        for got, wanted in zip(*results, strict=True):
            near(got, wanted, factor=8)


def test_no_samples_and_parts(device, near):
    w, b = torch.randn(N, K, device=device), torch.randn(N, device=device)
    for dims, samples in (((0, None, None), w), ((0, 0, None), w.expand(0, N, K))):
        x = torch.randn(0, ROWS, K, device=device)
        assert vmap(our_linear, dims)(x, samples, b).shape == (0, ROWS, N)
    x = torch.randn(SAMPLES, ROWS, K, device=device)
    near(vmap(our_linear, (0, None, None), chunk_size=2)(x, w, b), linear(x.double(), w.double(), b.double()))


def test_chains_with_samples():
    made = batching.with_samples(NORM_TEXT := ctn.Chain.parse(NORM).text, (True, True, False))
    assert made.outputs == (1, 1)
    assert "input x: f32[M, 6, 8]" in made.text and "weight g: f32[6, 8]" in made.text
    assert 'sum "mzk->mz"' in made.text and '"mzk,nk->mzn" f32 ' in made.text
    plain = batching.with_samples(NORM_TEXT, (False, False, False))
    assert plain.text == NORM_TEXT and plain.outputs == (None, None)


@pytest.mark.parametrize(
    "text, batched",
    [
        ("chain a(input x: f32[4], input y: f32[4]) { z = add(x, y) return z: f32 inplace y }", (True, True)),
        ("chain a(input x: f32[4, 4], input y: f32[4]) { z = add(x, y) return z: f32 }", (False, True)),
        ('chain a(input x: f32[4, 4], input y: f32[4, 4]) { z = add(x @ "mn", y @ "nm") return z: f32 }',
         (False, True)),
        ("chain a(input x: bf16[4, 32], weight q: i8[8, 32], weight s: f32[8, 1]) "
         '{ y = contract "mk,nk->mn"(x, dequant(q, s) block (1, 32)) return y: bf16 }', (True, False, True)),
        ('chain a(input x: f32[8, 4], weight w: f32[2, 6, 4], input e: i32[2]) '
         '{ y = contract "mk,enk->mn"(x, w) ragged m by e over e return y: f32 }', (True, True, False)),
    ],
)  # fmt: skip
def test_chains_without_a_form_for_samples(text, batched):
    assert batching.with_samples(ctn.Chain.parse(text).text, batched) is None
