# SPDX-License-Identifier: Apache-2.0
"""Layers as functions and modules: values and gradients against eager PyTorch in float64."""

import copy
import inspect
import io
import pickle

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F

import catenary as ctn
import catenary.torch as ct

SPLIT = [3, 0, 5, 2]


def both(near, ours, theirs, *tensors, dtype=torch.float32, factor=1.0):
    """Values and gradients of `ours` and of `theirs` in float64, on the same operands."""
    a = [t.detach().clone().to(dtype).requires_grad_() if t.is_floating_point() else t for t in tensors]
    b = [t.detach().double().requires_grad_() if t.is_floating_point() else t for t in a]
    y, z = ours(*a), theirs(*b)
    near(y, z, dtype, factor)
    out = torch.randn_like(z)
    y.backward(out.to(dtype))
    z.backward(out.to(dtype).double())
    for p, q in zip(a, b, strict=False):
        if p.is_floating_point():
            near(p.grad, q.grad, dtype, factor)


def randn(device, *shape):
    return torch.randn(*shape, device=device)


ACTIVATIONS = {
    "silu": F.silu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "relu": F.relu,
    "sigmoid": torch.sigmoid, "tanh": torch.tanh, "softplus": F.softplus, None: lambda x: x,
}  # fmt: skip


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("recompute", ["none", "all"])
def test_linear(device, near, activation, recompute):
    x, w, b = randn(device, 3, 2, 16), randn(device, 40, 16), randn(device, 40)
    act = ACTIVATIONS[activation]
    both(near, lambda x, w, b: ct.linear(x, w, b, activation, recompute=recompute),
         lambda x, w, b: act(F.linear(x, w, b)), x, w, b)  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_linear_in_half_precision(device, near, dtype):
    both(near, lambda x, w: ct.linear(x, w, activation="silu"), lambda x, w: F.silu(F.linear(x, w)),
         randn(device, 6, 16), randn(device, 24, 16), dtype=dtype, factor=2)  # fmt: skip


def test_gradients_of_some(device, near):
    x, w, b = randn(device, 5, 16), randn(device, 8, 16), randn(device, 8)
    for wanted in (x, w, b):
        leaf = wanted.clone().requires_grad_()
        y = ct.linear(*(leaf if t is wanted else t for t in (x, w, b)), "silu")
        reference = wanted.double().requires_grad_()
        z = F.silu(F.linear(*(reference if t is wanted else t.double() for t in (x, w, b))))
        y.sum().backward()
        z.sum().backward()
        near(leaf.grad, reference.grad)


def test_glu(device, near):
    x, w, u = randn(device, 4, 16), randn(device, 24, 16), randn(device, 24, 16)
    both(near, lambda x, w, u: ct.glu(x, w, u), lambda x, w, u: F.silu(F.linear(x, w)) * F.linear(x, u), x, w, u)
    packed = lambda x, w: F.gelu(F.linear(x, w[:12])) * F.linear(x, w[12:])
    both(near, lambda x, w: ct.glu(x, w, activation="gelu"), packed, x, w)
    b = randn(device, 24)
    biased = lambda x, w, b: F.silu(F.linear(x, w, b)[:, :12]) * F.linear(x, w, b)[:, 12:]
    both(near, lambda x, w, b: ct.glu(x, w, b=b), biased, x, w, b)


def test_glu_mlp(device, near):
    both(near, ct.glu_mlp, lambda x, g, u, d: F.linear(F.silu(F.linear(x, g)) * F.linear(x, u), d),
         randn(device, 2, 3, 16), randn(device, 24, 16), randn(device, 24, 16), randn(device, 16, 24),
         factor=4)  # fmt: skip


def test_grouped_linear(device, near):
    x, w, b = randn(device, 5, 4, 8), randn(device, 4, 12, 8), randn(device, 4, 12)
    both(near, lambda x, w, b: ct.grouped_linear(x, w, b, "silu"),
         lambda x, w, b: F.silu(torch.einsum("bgk,gnk->bgn", x, w) + b), x, w, b)  # fmt: skip


def ragged(x, w, b=None):
    parts = []
    for e, rows in enumerate(x.split(SPLIT)):
        y = rows @ w[e].t()
        parts.append(y if b is None else y + b[e])
    return torch.cat(parts)


def test_ragged_linear(device, near):
    x, w, b = randn(device, 10, 8), randn(device, 4, 12, 8), randn(device, 4, 12)
    offs = torch.tensor(SPLIT, device=device).cumsum(0).int()
    both(near, lambda x, w: ct.grouped_linear(x, w, None, "silu", offs), lambda x, w: F.silu(ragged(x, w)), x, w)
    both(
        near, lambda x, w, b: ct.grouped_linear(x, w, b, "silu", offs), lambda x, w, b: F.silu(ragged(x, w, b)), x, w, b
    )
    with torch.no_grad():
        near(ct.grouped_linear(x, w, b, "silu", offs), F.silu(ragged(x.double(), w.double(), b.double())))


def experts(x, index, weights, gate_up, down):
    out = torch.zeros_like(x)
    for e in range(gate_up.shape[0]):
        gate, up = (x @ gate_up[e].t()).chunk(2, -1)
        out = out + ((F.silu(gate) * up) @ down[e].t()) * (weights * (index == e)).sum(-1, keepdim=True)
    return out


def test_experts(device, near):
    index = torch.tensor([[0, 2], [3, 1], [2, 0], [2, 3], [0, 3]], device=device)
    both(near, lambda *t: ct.experts(t[0], index, *t[1:]), lambda *t: experts(t[0], index, *t[1:]),
         randn(device, 5, 8), torch.rand(5, 2, device=device), randn(device, 4, 12, 8), randn(device, 4, 8, 6),
         factor=4)  # fmt: skip


def experts_with_biases(x, index, weights, gate_up, down, bias, down_bias):
    out = torch.zeros_like(x)
    for e in range(gate_up.shape[0]):
        gate, up = (x @ gate_up[e].t() + bias[e]).chunk(2, -1)
        y = (F.silu(gate) * up) @ down[e].t() + down_bias[e]
        out = out + y * (weights * (index == e)).sum(-1, keepdim=True)
    return out


def test_one_row_without_a_dimension(device, near):
    x, w, u, d = randn(device, 24), randn(device, 40, 24), randn(device, 40, 24), randn(device, 24, 40)
    both(near, lambda x, w: ct.linear(x, w, None, "silu"), lambda x, w: F.silu(F.linear(x, w)), x, w)
    both(near, ct.glu, lambda x, w, u: F.silu(F.linear(x, w)) * F.linear(x, u), x, w, u)
    both(near, ct.glu_mlp, lambda x, w, u, d: F.linear(F.silu(F.linear(x, w)) * F.linear(x, u), d), x, w, u, d)


def test_meta_tensors_have_shapes():
    assert ct.linear(torch.ones(3, 4, device="meta"), torch.ones(2, 4, device="meta")).shape == (3, 2)


@pytest.mark.parametrize(
    ("index", "weights"),
    [
        (torch.zeros(2, 2, dtype=torch.int64), torch.ones(2, 3)),
        (torch.zeros(2, 2), torch.ones(2, 2)),
        (torch.zeros(3, 2, dtype=torch.int64), torch.ones(3, 2)),
        (torch.zeros(2, 2, dtype=torch.bool), torch.ones(2, 2)),
    ],
)
def test_experts_have_a_weight_for_each_index(index, weights):
    with pytest.raises(ctn.ArgumentError, match="top_k_index"):
        ct.experts(torch.ones(2, 8), index, weights, torch.ones(4, 12, 8), torch.ones(4, 8, 6))


def test_an_index_beyond_the_experts_or_below_0_is_no_expert(device, near):
    index = torch.tensor([[0, -1], [3, 4], [-1, -7], [2, 99], [-1, 1]], device=device)
    both(near, lambda *t: ct.experts(t[0], index, *t[1:]), lambda *t: experts(t[0], index, *t[1:]),
         randn(device, 5, 8), torch.rand(5, 2, device=device), randn(device, 4, 12, 8), randn(device, 4, 8, 6),
         factor=4)  # fmt: skip


def test_a_packed_gate_has_two_halves():
    with pytest.raises(ctn.ArgumentError, match="w has 5 rows"):
        ct.glu(torch.ones(3, 4), torch.ones(5, 4))


def test_experts_with_biases(device, near):
    index = torch.tensor([[0, 2], [3, 5], [2, 0], [2, 3], [0, 3]], device=device)  # none of 1, an unknown one
    both(near, lambda *t: ct.experts(t[0], index, *t[1:4], gate_up_bias=t[4], down_bias=t[5]),
         lambda *t: experts_with_biases(t[0], index, *t[1:]), randn(device, 5, 8), torch.rand(5, 2, device=device),
         randn(device, 4, 12, 8), randn(device, 4, 8, 6), randn(device, 4, 12), randn(device, 4, 8),
         factor=4)  # fmt: skip
    with pytest.raises(ctn.ArgumentError, match="only some of b_gate, b_up and b_down"):
        ct.experts(randn(device, 5, 8), index, torch.rand(5, 2, device=device), randn(device, 4, 12, 8),
                   randn(device, 4, 8, 6), gate_up_bias=randn(device, 4, 12))  # fmt: skip


def test_experts_of_transformers(device):
    hf = pytest.importorskip("transformers")
    ct.register_with_transformers()
    config = hf.MixtralConfig(hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2,
                              num_key_value_heads=2, num_local_experts=4, vocab_size=64)  # fmt: skip
    model = hf.MixtralForCausalLM(config).to(device)
    ids = torch.randint(0, 64, (2, 5), device=device)
    model.set_experts_implementation("grouped_mm")
    wanted = model(ids).logits
    model.set_experts_implementation("catenary")
    assert torch.allclose(model(ids).logits, wanted, atol=1e-5)


def own_gate(self, gate_up):
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate) * (up + 1)


own_gate.__module__ = "models.moe.gates"


@pytest.mark.parametrize(
    ("options", "members", "reason"),
    [
        ({}, {}, None),
        ({"has_post_expert_norm": True}, {"post_expert_norm": lambda self, y: F.rms_norm(y, y.shape[-1:])}, "norm"),
        ({}, {"_apply_gate": own_gate}, "a gate of their own"),
        ({"is_concatenated": False}, {}, "interleaved"),
    ],
)
def test_what_no_chain_of_experts_has_is_computed_by_transformers(options, members, reason, caplog, near):
    moe = pytest.importorskip("transformers.integrations.moe")
    if not options.keys() <= inspect.signature(moe.use_experts_implementation).parameters.keys():
        pytest.skip(f"this version of transformers has no {', '.join(options)}")
    ct.register_with_transformers()

    def init(self, config):
        torch.nn.Module.__init__(self)
        self.num_experts, self.act_fn = 4, torch.nn.SiLU()
        self.gate_up_proj, self.down_proj = randn("cpu", 4, 16, 8), randn("cpu", 4, 8, 8)

    made = type("Experts", (torch.nn.Module,), {"__init__": init, "forward": None, **members})
    config = type("Config", (), {"_experts_implementation": "catenary"})
    module = moe.use_experts_implementation(**options)(made)(config)
    tensors = randn("cpu", 5, 8), torch.randint(0, 4, (5, 2)), torch.rand(5, 2)
    with caplog.at_level("INFO", "catenary.torch"):
        y = module(*tensors)
    near(y, moe.grouped_mm_experts_forward(module, *tensors), factor=4)
    assert reason in caplog.text if reason else not caplog.text


def test_any_chain_with_scalars(device, near):
    text = """chain scaled(input x: f32[4, 8], weight w: f32[6, 8], scalar s: f32) {
      c = contract "mk,nk->mn" f32 (x, w)
      y = scale(silu(c), s)
      return c: f32, y: f32
    }"""
    function = ct.chain(text)
    x, w = randn(device, 4, 8).requires_grad_(), randn(device, 6, 8).requires_grad_()
    c, y = function(x, w, 3.0)
    a, b = x.detach().double().requires_grad_(), w.detach().double().requires_grad_()
    wanted = a @ b.t()
    near(c, wanted)
    near(y, F.silu(wanted) * 3)
    (c.sum() + y.sum()).backward()
    (wanted.sum() + (F.silu(wanted) * 3).sum()).backward()
    near(x.grad, a.grad)
    near(w.grad, b.grad)
    with pytest.raises(ctn.ArgumentError, match="got 2 arguments"):
        function(x, w)


def test_gradcheck(device):
    """Numerical gradients by the function itself: f32 in, so steps and tolerances are those of f32."""
    x, w = randn(device, 3, 4).requires_grad_(), randn(device, 5, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, w: ct.linear(x, w, activation="tanh"), (x, w), eps=1e-2, atol=2e-2,
                                    rtol=2e-2, fast_mode=True)  # fmt: skip


@pytest.mark.parametrize("hook", [True, False])
def test_main_grad(device, near, hook):
    w = torch.nn.Parameter(randn(device, 24, 16))
    w.main_grad = torch.ones(24, 16, device=device)
    if hook:
        w.grad_added_to_main_grad = False
    x, b = randn(device, 6, 16), randn(device, 24).requires_grad_()
    for _ in range(2):
        ct.linear(x, w, b, "silu", fuse_wgrad_accumulation=True).sum().backward()
    v, c = w.detach().double().requires_grad_(), b.detach().double().requires_grad_()
    F.silu(F.linear(x.double(), v, c)).sum().backward()
    near(w.main_grad, 1 + 2 * v.grad)
    near(b.grad, 2 * c.grad)
    assert w.grad_added_to_main_grad if hook else w.grad is None
    w.overwrite_main_grad = True
    ct.linear(x, w, b, "silu", fuse_wgrad_accumulation=True).sum().backward()
    near(w.main_grad, v.grad)


def test_main_grad_under_autocast(device, near):
    w = torch.nn.Parameter(randn(device, 24, 16))
    w.main_grad = torch.zeros(24, 16, device=device)
    x = randn(device, 6, 16)
    with torch.autocast(device.type, torch.bfloat16):
        y = ct.linear(x, w, fuse_wgrad_accumulation=True)
    y.sum().backward()
    near(w.main_grad, x.double().sum(0).expand(24, 16), torch.bfloat16)


def test_one_weight_twice_has_no_main_grad(device):
    w = torch.nn.Parameter(randn(device, 24, 16))
    w.main_grad = torch.zeros(24, 16, device=device)
    with pytest.raises(ctn.ArgumentError, match="wg, wu are one tensor"):
        ct.glu(randn(device, 6, 16), w, w, fuse_wgrad_accumulation=True)


@pytest.mark.parametrize("frozen", [0, 1])
def test_a_frozen_weight_beside_others_in_a_graph(device, near, frozen):
    """Layers of one shape have one forward; each keeps the gradients that it wants."""
    weights = [randn(device, 16, 16).requires_grad_(i != frozen) for i in range(2)]

    def f(x, h):
        return ct.linear(h, weights[0]) + ct.linear(x, weights[1])

    x, h = randn(device, 4, 16).requires_grad_(), randn(device, 4, 16).requires_grad_()
    got = torch.autograd.grad(f(x, h).sum(), [x, h, weights[1 - frozen]])
    compiled = torch.compile(f, backend="aot_eager", fullgraph=True)
    for one, other in zip(torch.autograd.grad(compiled(x, h).sum(), [x, h, weights[1 - frozen]]), got, strict=True):
        near(one, other)


def test_a_layer_that_trains_with_a_dynamic_size_is_traced_once(device):
    w = randn(device, 16, 8).requires_grad_()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(lambda x: ct.linear(x, w, None, "silu"), backend="aot_eager", fullgraph=True, dynamic=True)
    for rows in (3, 4, 5, 6):
        x = randn(device, rows, 8)
        torch._dynamo.mark_dynamic(x, 0)
        compiled(x).sum().backward()
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_a_bias_of_one_element(device, near):
    x, w, b = randn(device, 4, 8), randn(device, 6, 8), randn(device, 1).requires_grad_()
    ct.linear(x, w, b).sum().backward()
    near(b.grad, torch.full((1,), 24.0, device=device))


def test_sizes_of_1_give_no_result_of_another_size(device):
    x, b = randn(device, 1, 8), randn(device, 6)
    with pytest.raises(Exception, match="dimension 1 of the result has size 6, and 1 in 'w'"):
        ct.linear(x, randn(device, 1, 8), b)
    with pytest.raises(Exception, match="pass tensors of equal sizes there"):
        ct.glu(x, randn(device, 1, 8), randn(device, 6, 8))


def test_autocast(device, near):
    x, w = randn(device, 4, 16), randn(device, 8, 16)
    with torch.autocast(device.type, torch.bfloat16):
        y = ct.linear(x, w)
    assert y.dtype == torch.bfloat16
    near(y, F.linear(x.double(), w.double()), torch.bfloat16)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_autocast_leaves_float64(device, compiled):
    call = torch.compile(ct.linear, backend="aot_eager", fullgraph=True) if compiled else ct.linear
    with torch.autocast(device.type, torch.bfloat16):
        with pytest.raises(Exception, match="x is torch.float64: use bfloat16, float16 or float32"):
            call(randn(device, 4, 16).double(), randn(device, 8, 16).double())


@pytest.mark.parametrize("wrong, sentence", [
    (lambda: ct.linear(torch.randn(2, 4).double(), torch.randn(3, 4).double()), "use bfloat16, float16 or float32"),
    (lambda: ct.linear(torch.randn(2, 4), torch.randn(3, 5)), "4"),
    (lambda: ct.linear(torch.randn(2, 4), torch.randn(3, 4), activation="mish"), "activation is 'mish'"),
    (lambda: ct.glu(torch.randn(2, 4), torch.randn(3, 4), torch.randn(3, 4), b=torch.randn(3)), "pass both or none"),
])  # fmt: skip
def test_refusals(wrong, sentence):
    with pytest.raises(Exception, match=sentence):
        wrong()


MODULES = {
    "linear": (lambda: ct.Linear(16, 24), lambda: torch.nn.Linear(16, 24), (4, 16)),
    "linear with silu": (lambda: ct.Linear(16, 24, activation="silu"), None, (4, 16)),
    "glu": (lambda: ct.SwiGLU(16, 24), None, (4, 16)),
    "glu with biases": (lambda: ct.GLU(16, 24, "gelu", bias=True), None, (4, 16)),
    "grouped": (lambda: ct.GroupedLinear(3, 16, 24), None, (4, 3, 16)),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules_are_stored(device, near, name):
    make, counterpart, shape = MODULES[name]
    module = make().to(device)
    x = randn(device, *shape)
    wanted = module(x)
    if counterpart:
        other = counterpart().to(device)
        other.load_state_dict(module.state_dict())
        near(wanted, other(x))
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    fresh = make().to(device)
    fresh.load_state_dict(module.state_dict())
    for same in (copy.deepcopy(module), pickle.loads(pickle.dumps(module)), loaded, fresh):
        assert torch.equal(same(x), wanted)


def test_modules_of_transformers(near):
    hf = pytest.importorskip("transformers")
    from transformers.models.llama.modeling_llama import LlamaMLP

    mlp = LlamaMLP(hf.LlamaConfig(hidden_size=16, intermediate_size=24, num_attention_heads=2, num_key_value_heads=2))
    ours = ct.GLU.of(mlp)
    assert set(ours.state_dict()) == set(mlp.state_dict())
    x = torch.randn(2, 16)
    wanted = copy.deepcopy(mlp).double()(x.double())
    near(ours(x), wanted, factor=4)


def test_a_chain_function_is_stored():
    function = ct.chain("chain f(input x: f32[4]) { y = exp(x) return y: f32 }")
    x = torch.randn(4)
    for same in (pickle.loads(pickle.dumps(function)), copy.deepcopy(function)):
        assert torch.equal(same(x), function(x))


def test_calls_that_want_other_gradients_of_the_same_layer(device, near):
    """Forward and backward are found again by the tensors that want gradients."""
    given = [torch.randn(*shape, device=device).bfloat16() for shape in ((6, 32), (16, 32), (16,))]
    out = torch.randn(6, 16, device=device).bfloat16()
    for _ in range(2):
        for wanted in ((True, True, True), (False, True, False), (True, False, False), (False, False, False)):
            tensors = [t.clone().requires_grad_(want) for t, want in zip(given, wanted, strict=True)]
            exact = [t.detach().double().requires_grad_(want) for t, want in zip(given, wanted, strict=True)]
            y, z = ct.linear(*tensors, "silu"), F.silu(F.linear(*exact))
            near(y, z, torch.bfloat16)
            assert y.requires_grad == any(wanted)
            if any(wanted):
                y.backward(out)
                z.backward(out.double())
            for got, want in zip(tensors, exact, strict=True):
                assert (got.grad is None) == (want.grad is None)
                if want.grad is not None:
                    near(got.grad, want.grad, torch.bfloat16)
