# SPDX-License-Identifier: Apache-2.0
"""Norms before products as models write them: which ones are parts of regions, and the reasons for others."""

import os
import re

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F
from conftest import run_python
from torch._inductor.decomposition import select_decomp_table
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx

import catenary.torch as ct
from catenary import Chain
from catenary.torch.graph import CatenaryPass
from catenary.torch.graph.axes import Axes
from catenary.torch.graph.region import Grower

WIDTH, COLUMNS = 64, 32
ALWAYS = {"catenary.accept": "always", "fx_graph_cache": False}
BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32


@pytest.fixture(autouse=True)
def nothing_decided():
    ct.decisions.clear()


def taken():
    return [decision for decision in ct.decisions if decision.taken]


def normed():
    """The chains with a norm."""
    return [decision.chain for decision in taken() if ' sum "' in decision.chain]


def wide(x):
    """f32 for tensors of a model; float64 where a test wants the exact result."""
    return x if x.dtype == torch.float64 else x.float()


def narrow(x, dtype):
    return x if x.dtype == torch.float64 else x.to(dtype)


def layer_norm(x, g, b):
    return F.layer_norm(x, x.shape[-1:], g, b)


def layer_norm_without_weights(x, g, b):
    return F.layer_norm(x, x.shape[-1:])


def layer_norm_in_f32(x, g, b):
    return narrow(F.layer_norm(wide(x), x.shape[-1:], g, b), BF16)


def layer_norm_by_means(x, g, b):
    x32 = wide(x)
    mean = x32.mean(-1, keepdim=True)
    variance = (x32 - mean).pow(2).mean(-1, keepdim=True)
    return g * narrow((x32 - mean) / torch.sqrt(variance + 1e-5), x.dtype) + b


def layer_norm_by_variance(x, g, b):
    return g * (x - x.mean(-1, keepdim=True)) * torch.rsqrt(x.var(-1, keepdim=True) + 1e-5) + b


def llama(x, g, b):
    x32 = wide(x)
    return g * narrow(x32 * torch.rsqrt(x32.pow(2).mean(-1, keepdim=True) + 1e-5), x.dtype)


def gemma(x, g, b):
    x32 = wide(x)
    return narrow(x32 * torch.rsqrt(x32.pow(2).mean(-1, keepdim=True) + 1e-6) * (1.0 + wide(g)), x.dtype)


def gemma_by_power(x, g, b):
    x32 = wide(x)
    return narrow(x32 * torch.pow(x32.pow(2).mean(-1, keepdim=True) + 1e-6, -0.5) * wide(g), x.dtype)


def rms_norm(x, g, b):
    return F.rms_norm(x, x.shape[-1:], g, 1e-6)


def rms_norm_in_f32(x, g, b):
    return narrow(rms_norm(wide(x), g, b), BF16)


def unit_rows(x, g, b):
    return x / x.norm(dim=-1, keepdim=True).clamp_min(1e-6)


# norm, dtype of x, of its vectors and of products, and whether the products are scaled, not their rows
FORMS = {
    "LayerNorm": (layer_norm, BF16, BF16, BF16, False),
    "LayerNorm of f16": (layer_norm, F16, F16, F16, False),
    "LayerNorm without weights": (layer_norm_without_weights, BF16, BF16, BF16, False),
    "LayerNorm with weights of f32": (layer_norm_in_f32, BF16, F32, BF16, False),
    "LayerNorm of f32": (layer_norm_in_f32, F32, F32, BF16, False),
    "means": (layer_norm_by_means, BF16, BF16, BF16, False),
    "variance": (layer_norm_by_variance, BF16, BF16, BF16, False),
    "RMSNorm": (rms_norm, BF16, BF16, BF16, True),
    "RMSNorm of f16": (rms_norm, F16, F16, F16, False),
    "RMSNorm of f32": (rms_norm_in_f32, F32, F32, BF16, False),
    "Llama": (llama, BF16, BF16, BF16, True),
    "Gemma": (gemma, BF16, BF16, BF16, True),
    "Gemma by power": (gemma_by_power, BF16, BF16, BF16, True),
    "unit rows": (unit_rows, BF16, BF16, BF16, False),
}


def scaled_after(chain):
    """Whether the scale of the rows is applied after a product."""
    (scale,) = re.findall(r"(t\d+) = rsqrt", chain)
    return f"{scale} @" in chain.split("contract", 1)[1]


def linear_of(norm):
    return lambda x, g, b, w: F.linear(norm(x, g, b), w)


@pytest.mark.parametrize("name", FORMS)
def test_forms(name, near):
    """Rows of one dimension and of two; both are one dimension of the chain."""
    norm, of, vectors, product, after = FORMS[name]
    layer = linear_of(norm)
    both = lambda x, y, *w: (layer(x, *w), layer(y, *w))
    given = [(torch.randn(*shape, WIDTH) * 2 + 1).to(of) for shape in [(4, 1), (2, 3)]]
    given += [t.to(vectors) for t in (torch.rand(WIDTH) + 0.5, torch.randn(WIDTH))]
    given += [(torch.randn(COLUMNS, WIDTH) / 8).to(product)]
    with torch.no_grad():
        got = ct.compile(both, fullgraph=True, options=ALWAYS)(*given)
        for y, wanted in zip(got, both(*(t.double() for t in given)), strict=True):
            near(y, wanted, product, factor=2)
    chains = normed()
    assert [re.search(rf"p0: \w+\[(\d+), {WIDTH}\]", chain).group(1) for chain in chains] == ["4", "6"]
    if "rsqrt" in chains[0]:
        assert [scaled_after(chain) for chain in chains] == [after] * 2
    assert [d.norm for d in taken()] == ["the norm before it is part of the chain"] * 2


def test_divisors_and_epsilon():
    """1/K of a mean, 1/(K - 1) of an unbiased variance; what is added to the variance, not to its root."""
    for norm, divisor in ((layer_norm, WIDTH), (layer_norm_by_variance, WIDTH - 1)):
        ct.decisions.clear()
        shapes = (6, WIDTH), (WIDTH,), (WIDTH,), (COLUMNS, WIDTH)
        CatenaryPass("always")(graph_of(linear_of(norm), *(empty(*shape) for shape in shapes)))
        numbers = [float(number) for number in re.findall(r"constant\((\S+)\)", normed()[0])]
        assert numbers == pytest.approx([1 / WIDTH, 1 / divisor, 1e-5])


def test_rows_that_are_not_one_dimension(near):
    """A result with its rows apart, and an x with gaps after the rows of a batch entry: right, with two dimensions."""

    def heads(x, g, b, w):
        y = F.linear(layer_norm(x, g, b), w)
        return y.view(*x.shape[:-1], 4, -1).transpose(1, 2) * 2

    w = [t.bfloat16() for t in (torch.rand(WIDTH) + 0.5, torch.randn(WIDTH), torch.randn(COLUMNS, WIDTH) / 8)]
    gaps = torch.randn(2, 5, WIDTH).bfloat16()[:, :3]
    for function, x in ((heads, gaps.contiguous()), (linear_of(layer_norm_by_means), gaps)):
        ct.decisions.clear()
        torch._dynamo.reset()
        with torch.no_grad():
            got = ct.compile(function, fullgraph=True, options=ALWAYS)(x, *w)
            near(got, function(x.double(), *(t.double() for t in w)), BF16, factor=2)
        assert f"p0: bf16[2, 3, {WIDTH}]" in normed()[0]


@pytest.mark.parametrize("bound, count", [(16, 1), (65, 0)])
def test_rows_with_a_bound(bound, count, near):
    """A dynamic batch is a symbol of the chain; with the norm where there are never more rows than kernels form."""
    layer = linear_of(layer_norm)
    w = [t.bfloat16() for t in (torch.rand(WIDTH) + 0.5, torch.randn(WIDTH), torch.randn(COLUMNS, WIDTH) / 8)]
    function = ct.compile(layer, fullgraph=True, options=ALWAYS)
    for batch in (3, 5):
        x = torch.randn(batch, 2, WIDTH).bfloat16()
        torch._dynamo.mark_dynamic(x, 0, min=2, max=bound)
        with torch.no_grad():
            near(function(x, *w), layer(x.double(), *(t.double() for t in w)), BF16, factor=2)
    (decision,) = taken()
    assert len(normed()) == count and "[M in " in decision.chain
    assert count or decision.norm.endswith("at most 64 rows, and their number is dynamic without such a bound")


def gpt_layer(x, g, b, q, k, v, o, up, down):
    h = layer_norm(x, g, b)
    mixed = F.linear(h, q).cumsum(-1) * F.linear(h, k).cumsum(-1) + F.linear(h, v).cumsum(-1)
    x = x + F.linear(mixed, o)
    return x + F.linear(F.gelu(F.linear(layer_norm(x, g, b), up)), down)


def bert_layer(x, g, b, q, k, v, o, up, down):
    mixed = F.linear(x, q).cumsum(-1) * F.linear(x, k).cumsum(-1) + F.linear(x, v).cumsum(-1)
    x = layer_norm(x + F.linear(mixed, o), g, b)
    return layer_norm(x + F.linear(F.gelu(F.linear(x, up)), down), g, b)


def llama_layer(x, g, b, q, k, v, o, up, down):
    h = llama(x, g, b)
    mixed = F.linear(h, q).cumsum(-1) * F.linear(h, k).cumsum(-1) + F.linear(h, v).cumsum(-1)
    x = x + F.linear(mixed, o)
    h = llama(x, g, b)
    return x + F.linear(F.silu(F.linear(h, up)) * F.linear(h, up + 1), down)


def layer_tensors(rows, width, hidden, make):
    shapes = [(*rows, width), (width,), (width,), *[(width, width)] * 4, (hidden, width), (width, hidden)]
    return [make(*shape) for shape in shapes]


def test_training(near):
    """The backward graph reads mean, scale and rows of each norm, so that Inductor computes them."""
    make = lambda *shape: (torch.randn(*shape) / (8 if len(shape) == 2 else 1)).bfloat16().requires_grad_()
    given = layer_tensors((2, 3), WIDTH, 2 * WIDTH, make)
    exact = [t.detach().double().requires_grad_() for t in given]
    y, wanted = ct.compile(gpt_layer, fullgraph=True, options=ALWAYS)(*given), gpt_layer(*exact)
    near(y, wanted, BF16, factor=2)
    out = torch.randn_like(y)
    y.backward(out)
    wanted.backward(out.double())
    for a, b in zip(given, exact, strict=True):
        near(a.grad, b.grad, BF16, factor=3)
    assert len(taken()) > 4 and not normed()
    told = [d.norm for d in taken() if d.norm]
    assert len(told) == 2 and all("for the caller or for a backward graph" in norm for norm in told)


def graph_of(function, *tensors):
    """The graph that Inductor would have, of tensors without data: they are those of a GPU for the pass. torchao turns
    coordinate descent on, which decomposes products of one row."""
    with torch._inductor.config.patch(coordinate_descent_tuning=False):
        graph = make_fx(
            functionalize(function, remove="mutations"), tracing_mode="fake", decomposition_table=select_decomp_table()
        )(*tensors).graph
    graph.eliminate_dead_code()
    return graph


def empty(*shape, dtype=BF16):
    return torch.empty(*shape, dtype=dtype, device="meta")


LAYERS = {"gpt": gpt_layer, "bert": bert_layer, "llama": llama_layer}


@pytest.mark.parametrize("rows", [(1, 1), (2, 8), (2, 32), (2, 40)], ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_no_layer_is_slower_by_prediction(name, rows, monkeypatch):
    """What regions gain with norms in them is no less than without."""
    gains = []
    for norms in (True, False):
        if not norms:
            monkeypatch.setattr(Grower, "norms", {})
        ct.decisions.clear()
        CatenaryPass()(graph_of(LAYERS[name], *layer_tensors(rows, 1024, 4096, empty)))
        gains.append(sum(d.replaced_us - d.predicted_us for d in taken()))
        assert norms or not normed()
        if norms:
            found = [len(d.products) for d in taken() if ' sum "' in d.chain]
    assert gains[0] >= gains[1] - 1e-3
    if rows in ((1, 1), (2, 8)):
        assert found == {"gpt": [], "bert": [], "llama": [3, 2]}[name]


@pytest.mark.parametrize("norm", [llama, gemma], ids=lambda norm: norm.__name__)
def test_one_kernel(norm):
    """The planner forms the rows in the product's kernel, also those of two dimensions."""
    CatenaryPass()(graph_of(linear_of(norm), empty(1, 2, 1024), empty(1024), empty(1024), empty(4096, 1024)))
    (chain,) = normed()
    plan = Chain.parse(chain).explain("h200").data
    assert [kernel["family"] for kernel in plan["buckets"][0]["kernels"]] == ["skinny"]


def rows_are_read(x, g, b, w):
    h = layer_norm(x, g, b)
    return F.linear(h, w), h.sin()


def mean_is_returned(x, g, b, w):
    y, mean, _ = torch.ops.aten.native_layer_norm(x, [x.shape[-1]], g, b, 1e-5)
    return F.linear(y, w), mean


def rows_are_the_right_operand(x, g, b, w):
    h = layer_norm(x, g, b).view(-1, x.shape[-1])
    return h @ w.t(), w @ h.t()


def mean_of_columns(x, g, b, w):
    return F.linear(x - x.mean(-1, keepdim=True) - x.mean(1, keepdim=True), w)


def five_products(x, g, b, w):
    h = layer_norm(x, g, b)
    return [F.linear(h, w[i : i + 512]) for i in range(0, 2560, 512)]


def gated(x, g, b, w):
    return F.linear(layer_norm(x.cumsum(-1), g, b) * F.silu(x.cumsum(0)), w)


def computed_gain(x, g, b, w):
    return F.linear(layer_norm(x, g.cumsum(-1), b), w)


def power(x, g, b, w):
    return F.linear(x * torch.pow(x.pow(2).mean(-1, keepdim=True), -0.25), w)


OTHERS = {
    rows_are_read: "'sin' reads its rows",
    mean_is_returned: "the graph returns its part 'getitem_1' too, for the caller or for a backward graph",
    rows_are_the_right_operand: "reads its rows",
    mean_of_columns: "'mean_1' is neither by row nor by column",
    five_products: "5 products read it, and a region has at most 4",
    gated: "'cumsum_1' is one of several tensors that it is computed from",
    computed_gain: "Inductor would compute 'cumsum' by a kernel of its own",
    power: "no chain has 'pow_2'",
}


@pytest.mark.parametrize("function", OTHERS, ids=lambda function: function.__name__)
def test_left(function):
    CatenaryPass("always")(graph_of(function, empty(2, 8, 1024), empty(1024), empty(1024), empty(4096, 1024)))
    assert not normed()
    told = {d.norm for d in ct.decisions}
    assert any(OTHERS[function] in norm for norm in told), [str(d) for d in ct.decisions]


@pytest.mark.parametrize("rows, width, dtype, why", [
    ((2, 1024), 1024, BF16, "kernels form it for at most 64 rows, and there are 2048"),
    ((2, 8), 1024, F32, "only kernels of bf16 and f16 form it"),
    ((2, 32), 4096, BF16, r"\d+\.\d us are predicted with it, for \d+\.\d us; with the norm inside \S+ us are"),
])  # fmt: skip
def test_left_for_what_it_costs(rows, width, dtype, why):
    tensors = [empty(*shape, dtype=dtype) for shape in [(*rows, width), (width,), (width,), (6144, width)]]
    CatenaryPass()(graph_of(linear_of(layer_norm), *tensors))
    (decision,) = ct.decisions
    assert ' sum "' not in decision.chain
    assert re.search(why, decision.norm), str(decision)
    assert decision.norm.startswith("the norm before it stays with Inductor: ")
    assert str(decision).endswith(f"; {decision.norm}")


def mean_of_all(x, w):
    return F.linear(x * torch.rsqrt(x.pow(2).mean((0, 1), keepdim=True)), w)


def silu(x, w):
    return F.linear(F.silu(x), w)


@pytest.mark.parametrize("function", [F.linear, mean_of_all, silu], ids=lambda function: function.__name__)
def test_nothing_is_said_where_there_is_no_norm(function):
    CatenaryPass("always")(graph_of(function, empty(16, 1024), empty(4096, 1024)))
    assert [d.norm for d in ct.decisions] == [""] and not normed()


def test_joined_axes():
    axes = Axes()
    rows, k, n = (axes.add(size) for size in (6, 64, 32))
    (b,), (t,) = axes.reshape([(rows,)], [2, 3])
    copy = axes.copy()
    copy.join(b, t)
    (joined,) = copy.flat((rows,))
    assert copy.size(joined) == 6 and copy.dims([(b,), (), (t,), (k,)]) == [(), (), (joined,), (k,)]
    assert copy.dims([(t,), (b,), (n,)]) == [(t,), (b,), (n,)]
    assert axes.dims([(b,), (t,)]) == [(b,), (t,)] and axes.flat((rows,)) == (b, t)


def run_kernels():
    """In a process whose device is the simulator: a LayerNorm, and a norm that may scale the products."""
    ct.set_host("simulator")
    torch.manual_seed(0)
    x, g, b, w = torch.randn(2, 3, 256) + 1, torch.rand(256) + 0.5, torch.randn(256), torch.randn(64, 256) / 16
    given = [t.bfloat16() for t in (x, g, b, w)]
    with torch.no_grad():
        for norm in (layer_norm, llama):
            got = ct.compile(linear_of(norm), fullgraph=True, options=ALWAYS)(*given)
            wanted = linear_of(norm)(*(t.double() for t in given))
            assert (got - wanted).abs().max() <= 4e-2 * wanted.abs().max()
    assert [row["place"] for row in ct.report()] == ["device"] * 2
    for chain in normed():
        kernels = Chain.parse(chain).explain("sm_90a").data["buckets"][0]["kernels"]
        # Whether the product's kernel forms the norm is a prediction.
        assert [kernel["family"] for kernel in kernels if kernel["family"] not in ("reduce", "pointwise")] == ["skinny"]


def test_kernels():
    folder = os.path.dirname(os.path.abspath(__file__))
    folders = [os.path.dirname(folder), folder]
    code = f"import sys; sys.path[:0] = {folders!r}\nimport test_graph_norm_forms as forms; forms.run_kernels()\n"
    run_python(code, CATENARY_DEVICE="sim")
