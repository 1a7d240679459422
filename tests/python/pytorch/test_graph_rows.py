# SPDX-License-Identifier: Apache-2.0
"""Graphs of whole layers with one row, as Inductor has them on a GPU where it tunes by coordinate descent."""

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F

import catenary.torch as ct
from catenary.torch.graph import CatenaryPass

aten = torch.ops.aten
WIDTH, HIDDEN = 64, 96


@pytest.fixture(autouse=True)
def sums_of_one_row(monkeypatch):
    """Decompositions of mm, bmm and addmm on a GPU (`torch/_inductor/decomposition.py`), for tensors of the CPU."""
    from torch._decomp.decompositions import pw_cast_for_opmath
    from torch._inductor import decomposition

    @pw_cast_for_opmath
    def mm(a, b, out_dtype=None):
        return (a.unsqueeze(2) * b.unsqueeze(0)).sum(dim=1) if 1 in (a.shape[0], b.shape[1]) else NotImplemented

    @pw_cast_for_opmath
    def bmm(a, b, out_dtype=None):
        return (a.unsqueeze(-1) * b.unsqueeze(1)).sum(dim=2) if 1 in (a.shape[1], b.shape[2]) else NotImplemented

    table = {**decomposition.fast_random_decomps(), aten.mm.default: mm, aten.bmm.default: bmm}
    del table[aten.addmm.default]
    monkeypatch.setattr(decomposition, "fast_random_decomps", lambda: table)
    ct.decisions.clear()


def run(function, *tensors, accept="always", dynamic=None):
    """The compiled function's results, and the targets of its graph before and after the pass."""
    graphs = []
    inner = CatenaryPass(accept=accept)

    class Recorded(CatenaryPass):
        def __call__(self, graph):
            graphs.append([node.target for node in graph.nodes])
            inner(graph)
            graph.lint()
            graphs.append([node.target for node in graph.nodes])

    with torch.no_grad(), torch._inductor.config.patch(post_grad_custom_pre_pass=Recorded(), fx_graph_cache=False):
        return torch.compile(function, fullgraph=True, dynamic=dynamic)(*tensors), graphs


def weights(*shapes):
    return [(torch.randn(*shape) / (8 if len(shape) == 2 else 1)).bfloat16() for shape in shapes]


def results(decision):
    """How many values a chain returns."""
    return decision.chain.split("return ")[1].count(":")


def taken():
    return [decision for decision in ct.decisions if decision.taken]


def rms_norm(x, gain):
    wide = x.float()
    return gain * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def attention(q, k, v):
    """Of one position to itself and to what two rolled heads hold."""
    heads = [t.view(t.shape[0], -1, 4, WIDTH // 4).transpose(1, 2) for t in (q, k, v)]
    q, k, v = heads[0], *(torch.cat([t, t.roll(1, -1)], 2) for t in heads[1:])
    scores = (q.float() @ k.float().transpose(2, 3)).softmax(-1).to(v.dtype)
    return (scores @ v).transpose(1, 2).reshape(q.shape[0], -1, WIDTH)


def llama_layer(x, n, q, k, v, o, m, gate, up, down):
    h = rms_norm(x, n)
    x = x + F.linear(attention(F.linear(h, q), F.linear(h, k), F.linear(h, v)), o)
    h = rms_norm(x, m)
    return x + F.linear(F.silu(F.linear(h, gate)) * F.linear(h, up), down)


def bert_layer(x, q, k, v, o, n, m, up, down, r, s, b, c):
    x = F.layer_norm(
        x + F.linear(attention(F.linear(x, q, b), F.linear(x, k, b), F.linear(x, v, b)), o, b), (WIDTH,), n, m
    )
    return F.layer_norm(x + F.linear(F.gelu(F.linear(x, up, c)), down, b), (WIDTH,), r, s)


def gpt_layer(x, q, k, v, o, n, m, up, down, r, s, b, c):
    h = F.layer_norm(x, (WIDTH,), n, m)
    x = x + F.linear(attention(F.linear(h, q), F.linear(h, k), F.linear(h, v)), o)
    h = F.layer_norm(x, (WIDTH,), r, s)
    return x + F.linear(F.gelu(F.linear(h, up), approximate="tanh"), down)


SQUARES, VECTORS = [(WIDTH, WIDTH)] * 4, [(WIDTH,)] * 2
NORMED = [*SQUARES, *VECTORS, (HIDDEN, WIDTH), (WIDTH, HIDDEN), *VECTORS, (WIDTH,), (HIDDEN,)]
LAYERS = {
    "llama": (llama_layer, [(WIDTH,), *SQUARES, (WIDTH,), *[(HIDDEN, WIDTH)] * 2, (WIDTH, HIDDEN)]),
    "bert": (bert_layer, NORMED),
    "gpt": (gpt_layer, NORMED),
}


def stack(name, count=2):
    layer, shapes = LAYERS[name]

    def model(x, *w):
        for i in range(count):
            x = layer(x, *w[i * len(shapes) : (i + 1) * len(shapes)])
        return x

    return model, weights(*shapes * count)


@pytest.mark.parametrize("name", LAYERS)
def test_layers_of_one_row(name, near):
    model, w = stack(name)
    x = torch.randn(1, 1, WIDTH).bfloat16()
    y, (before, after) = run(model, x, *w)
    near(y, model(x, *w), torch.bfloat16, factor=2)  # of two layers
    products = sum(len(decision.products) for decision in taken())
    assert products >= 2 * len([s for s in LAYERS[name][1] if len(s) == 2])
    assert any(len(decision.products) == 3 for decision in taken()), [str(d) for d in ct.decisions]
    normed = [len(decision.products) for decision in taken() if ' sum "' in decision.chain]
    assert normed == {"llama": [3, 2] * 2, "gpt": [3, 1] * 2, "bert": []}[name]
    assert not {aten.mm.default, aten.addmm.default} & set(after)
    assert before.count(aten.sum.dim_IntList) > after.count(aten.sum.dim_IntList)


def test_a_region_does_not_read_what_depends_on_it(near):
    """The first region has the product of `g`; its other result's user stands before it in the code."""

    def function(x, y, a, b, c):
        q = F.linear(x, a)
        shifted = q.cumsum(-1)
        p = F.linear(y, b)
        z = shifted + p
        g = F.linear(p.softmax(-1), c)
        return z, q + g

    tensors = [torch.randn(4, WIDTH), torch.randn(4, WIDTH), *(torch.randn(WIDTH, WIDTH) / 8 for _ in range(3))]
    got, _ = run(function, *tensors)
    for a, b in zip(got, function(*(t.double() for t in tensors)), strict=True):
        near(a, b)
    assert [len(decision.products) for decision in taken()] == [2, 1], [str(d) for d in ct.decisions]


def test_widths_that_are_symbols(near):
    """A region that needs a reshape to two symbolic sizes is left."""
    model, w = stack("llama", 1)
    x = torch.randn(1, 1, WIDTH).bfloat16()
    near(run(model, x, *w, dynamic=True)[0], model(x, *w), torch.bfloat16)
    assert taken()


def test_a_dynamic_batch_of_one(near):
    model, w = stack("llama", 1)
    w = [torch.nn.Parameter(t, requires_grad=False) for t in w]
    function = lambda x: model(x, *w)
    for batch in (2, 5, 1):
        x = torch.randn(batch, 1, WIDTH).bfloat16()
        near(run(function, x, dynamic=True)[0], function(x), torch.bfloat16)
    assert "[M in " in taken()[0].chain and "[M in " not in taken()[-1].chain


@pytest.mark.parametrize("rows", [1, 2])
def test_sums_are_left_where_they_are_faster(rows, monkeypatch, near):
    """A product of one row against Inductor's sum, one of two rows against the library."""
    from catenary.torch.graph import cost, graph_pass

    monkeypatch.setattr(graph_pass, "_on_host", lambda device: False)
    monkeypatch.setattr(cost, "predicted_us", lambda text, target: 10.0)
    x, w = weights((rows, WIDTH), (WIDTH, WIDTH))
    got, (_, after) = run(F.linear, x, w, accept="faster")
    near(got, F.linear(x, w), torch.bfloat16)
    assert [d.taken for d in ct.decisions] == [rows == 2]
    assert ct.decisions[0].replaced_us == pytest.approx(10 * (cost.ROW_SUM if rows == 1 else cost.peer_ratio(2)))
    assert (aten.sum.dim_IntList in after) == (rows == 1)


@pytest.mark.parametrize("shape", [(1,), (1, 1)])
def test_operands_of_sums_are_no_outputs(shape, near):
    """A gated layer after a norm: two products of one operand; each region has one result, which no sum reads too."""

    def function(x, gain, gate, up, down):
        h = F.layer_norm(x, (WIDTH,), gain)
        return F.linear(F.silu(F.linear(h, gate)) * F.linear(h, up), down).sin()

    x, *w = weights((*shape, WIDTH), (WIDTH,), (HIDDEN, WIDTH), (HIDDEN, WIDTH), (WIDTH, HIDDEN))
    near(run(function, x, *w)[0], function(x, *w), torch.bfloat16)
    assert [(len(d.products), results(d)) for d in taken()] == [(2, 1), (1, 1)], [d.chain for d in taken()]


def test_a_sum_is_put_back_between_regions(near):
    """Four columns are left to Inductor: it has the sum, of a region's result and for a region's operand."""

    def function(x, a, b, c):
        h = F.linear(x, a).relu()
        y = F.linear(h, b)
        return y, F.linear(h, c) * y.repeat(1, 16)

    x, *w = weights((1, WIDTH), (WIDTH, WIDTH), (4, WIDTH), (WIDTH, WIDTH))
    got, (_, after) = run(function, x, *w)
    for a, b in zip(got, function(x, *w), strict=True):
        near(a, b, torch.bfloat16)
    assert after.count(aten.sum.dim_IntList) == 1 and aten.mm.default not in after and len(taken()) == 2


PRODUCTS = {
    "one row": (lambda x, w: x @ w.t(), [(1, 64), (32, 64)]),
    "one row of groups": (lambda x, w: x @ w.transpose(1, 2), [(4, 1, 64), (4, 32, 64)]),
}


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("dropped", [False, True])
def test_sums_of_one_row_are_products(name, dropped, near):
    """`dropped`: Inductor drops the rounding of the left operand, which it widens at once."""
    product, shapes = PRODUCTS[name]
    x, w = (torch.randn(*shape).bfloat16() for shape in shapes)
    x = x.float() if dropped else x
    function = lambda x, w: F.silu(product((x * 2).to(w.dtype), w).float())
    near(run(function, x, w)[0], function(x, w), torch.bfloat16)
    assert len(taken()) == 1 and " silu(" in taken()[0].chain and "bf16[" in taken()[0].chain


@pytest.mark.parametrize("name", PRODUCTS)
def test_sums_that_no_region_takes_are_put_back(name):
    product, shapes = PRODUCTS[name]
    _, (before, after) = run(product, *(torch.randn(*shape).bfloat16() for shape in shapes), accept="faster")
    assert len(ct.decisions) == 1 and not taken()
    assert sorted(map(str, before)) == sorted(map(str, after)) and aten.sum.dim_IntList in after


def written_out(x, w):
    return (x.unsqueeze(2) * w.float().unsqueeze(0)).sum(1)


SUMS = {
    "x is f32": (written_out, [torch.float32, torch.bfloat16], 0),
    "the result is f32": (written_out, [torch.bfloat16, torch.bfloat16], 0),
    "both are f32": (written_out, [torch.float32, torch.float32], 0),
    "a product of f32": (lambda x, w: x @ w.float(), [torch.float32, torch.bfloat16], 0),
    "a product of f32 that was widened": (lambda x, w: x.float() @ w.float(), [torch.bfloat16, torch.bfloat16], 0),
    "a product of two f32": (lambda x, w: x @ w, [torch.float32, torch.float32], 1),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_of_f32_are_not_rounded(name, near):
    """The second sum reads the first one's result, which a region of each would store."""
    function, (of_x, of_w), products = SUMS[name]
    x, w, v = torch.randn(1, WIDTH).to(of_x), *((torch.randn(WIDTH, WIDTH) / 8).to(of_w) for _ in range(2))
    got, _ = run(lambda x, w, v: (y := function(x, w), function(x, v) + y.cumsum(-1)), x, w, v)
    first, second = (x.double() @ t.double() for t in (w, v))
    for a, b in zip(got, (first, second + first.cumsum(-1)), strict=True):
        near(a, b)
    assert bool(taken()) == bool(products), [str(d) for d in ct.decisions]


def test_a_weight_of_products_in_bf16_and_in_f32(near):
    """In a graph for training, both read one widened weight."""
    x, y, w = torch.randn(1, WIDTH).bfloat16(), torch.randn(1, WIDTH), torch.randn(WIDTH, WIDTH).bfloat16()
    function = lambda x, y, w: (x @ w, y @ w.float())
    before = CatenaryPass(accept="always")
    with torch._inductor.config.patch(post_grad_custom_pre_pass=before, fx_graph_cache=False):
        got = torch.compile(function, fullgraph=True)(x, y, w.requires_grad_())
    near(got[0], x.double() @ w.double(), torch.bfloat16)
    near(got[1], y.double() @ w.double())
    assert len(taken()) == 1, [str(d) for d in ct.decisions]
