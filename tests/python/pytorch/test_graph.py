# SPDX-License-Identifier: Apache-2.0
"""torch.compile: layers in graphs, the backend and its regions, dynamic batch, training, export, AOTInductor."""

import math
import os

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F
from conftest import run_python

import catenary.torch as ct
from catenary.torch.graph import CatenaryPass
from catenary.torch.graph.axes import Axes, Mismatch, hint
from catenary.torch.graph.expression import make

# Inductor pads products by a timing of its own: the graph that the pass gets would depend on it.
ALWAYS = {"catenary.accept": "always", "fx_graph_cache": False, "shape_padding": False}


@pytest.fixture(autouse=True)
def nothing_decided():
    ct.decisions.clear()


def compiled(function, **options):
    return ct.compile(function, fullgraph=True, options={**ALWAYS, **options})


def taken():
    return [decision for decision in ct.decisions if decision.taken]


def randn(device, *shape):
    return torch.randn(*shape, device=device)


def swiglu(x, w, u, d):
    return x + F.linear(F.silu(F.linear(x, w)) * F.linear(x, u), d)


def packed(x, w, d):
    gate, up = F.linear(x, w).chunk(2, -1)
    return F.linear(F.silu(gate) * up, d)


# name: function, shapes of arguments, text of the chain that must be in a taken region
REGIONS = {
    "gelu": (lambda x, w, b: F.gelu(F.linear(x, w, b)), [(16, 64), (32, 64), (32,)], " gelu("),
    "gelu by tanh": (lambda x, w, b: F.gelu(F.linear(x, w, b), approximate="tanh"), [(2, 8, 64), (32, 64), (32,)],
                     "gelu_tanh("),
    "swiglu": (swiglu, [(2, 8, 64), (32, 64), (32, 64), (64, 32)], "silu("),
    "swiglu, one row": (swiglu, [(1, 1, 64), (32, 64), (32, 64), (64, 32)], "silu("),
    "packed": (packed, [(2, 8, 64), (64, 64), (64, 32)], "silu("),
    "groups": (lambda x, w, b: F.silu(torch.einsum("bgk,gnk->bgn", x, w) + b), [(6, 4, 64), (4, 32, 64), (4, 32)],
               "silu("),
    "baddbmm": (lambda x, w, b: F.relu(torch.baddbmm(b[:, None], x.transpose(0, 1), w.transpose(1, 2))),
                [(6, 4, 64), (4, 32, 64), (4, 32)], "relu("),
    "residual": (lambda x, w, r: F.linear(x, w) * 0.5 + r.exp(), [(16, 64), (32, 64), (16, 32)], "exp("),
    "sigmoid gate": (lambda x, w, r: torch.sigmoid(F.linear(x, w)) * r, [(16, 64), (32, 64), (16, 32)], "sigmoid("),
    "clamp": (lambda x, w: F.linear(x, w).clamp(-1, 1).square(), [(16, 64), (32, 64)], "clamp("),
    "two outputs": (lambda x, w: (F.linear(x, w), F.linear(x, w).tanh()), [(16, 64), (32, 64)], "tanh("),
}  # fmt: skip


def test_a_backward_region_reads_what_the_forward_saved(device):
    """The slope of silu in f32 is computed again from bf16, and a result with two views is stored once."""
    shapes = [(2, 16, 64), (96, 64), (96, 64), (64, 96)]
    tensors = [(randn(device, *s) / 4).bfloat16().requires_grad_() for s in shapes]
    exact = [t.detach().double().requires_grad_() for t in tensors]
    function = lambda x, w, u, d: F.linear(F.silu(F.linear(x, w)) * F.linear(x, u), d)
    out = randn(device, 2, 16, 64).bfloat16()
    ct.compile(function, options=ALWAYS)(*tensors).backward(out)
    function(*exact).backward(out.double())
    for a, b in zip(tensors, exact, strict=True):
        assert (a.grad - b.grad).abs().max() <= 0.03 * b.grad.abs().max()
    (chain,) = [d.chain for d in taken() if "sigmoid(" in d.chain and "contract" in d.chain]
    assert "f32[" not in chain, chain
    assert chain[chain.index("return") :].count("bf16") == 2, chain


def test_experts_train_in_a_compiled_graph():
    model = ct.Experts(2, 32, 32).bfloat16()
    x = torch.randn(8, 32, dtype=torch.bfloat16, requires_grad=True)
    chosen, weights = torch.randint(0, 2, (8, 2)), torch.rand(8, 2, dtype=torch.bfloat16)
    results = []
    for call in (model, torch.compile(model, backend="aot_eager")):
        y = call(x, chosen, weights)
        results.append((y.detach(), *torch.autograd.grad(y.float().sum(), [x, *model.parameters()])))
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)


def test_what_is_computed_from_more_bytes_is_read(device):
    shapes = [(16, 64), (32, 64), (16, 32), (16, 32)]
    tensors = [randn(device, *s) for s in shapes]

    def function(x, w, a, b):
        c = a * b
        return F.linear(x, w) * c, c.sum()

    with torch.no_grad():
        compiled(function)(*tensors)
    (chain,) = [d.chain for d in taken()]
    assert chain.count("input p") == 2, chain


@pytest.mark.parametrize("name", REGIONS)
def test_regions(device, near, name):
    function, shapes, part = REGIONS[name]
    tensors = [randn(device, *shape) / 4 for shape in shapes]
    with torch.no_grad():
        got = compiled(function)(*tensors)
        wanted = function(*(t.double() for t in tensors))
    pairs = zip(got, wanted, strict=False) if isinstance(got, tuple) else [(got, wanted)]
    for a, b in pairs:
        near(a, b)
    assert any(part in decision.chain for decision in taken()), [str(d) for d in ct.decisions]


def test_a_gated_layer_is_one_region():
    with torch.no_grad():
        compiled(swiglu)(*(randn("cpu", *s) for s in [(2, 8, 64), (32, 64), (32, 64), (64, 32)]))
    assert [len(d.products) for d in taken()] == [2, 1]
    assert taken()[0].chain.count("input p0") == 1 and taken()[0].predicted_us < taken()[0].replaced_us


def qkv(x, q, k, v, b):
    return F.linear(x, q, b), F.linear(x, k), F.linear(x, v)


def test_products_of_one_operand_are_one_region(near):
    shapes = [(2, 8, 64), (64, 64), (32, 64), (32, 64), (64,)]
    tensors = [randn("cpu", *shape) / 4 for shape in shapes]
    with torch.no_grad():
        for got, wanted in zip(compiled(qkv)(*tensors), qkv(*(t.double() for t in tensors)), strict=True):
            near(got, wanted)
    assert [len(d.products) for d in taken()] == [3], [str(d) for d in ct.decisions]
    assert taken()[0].chain.count("input p0") == 1


def test_products_of_one_operand_are_joined_where_that_gains_more(monkeypatch):
    """Each product by itself gains 2 us, so joined they must gain more than 6."""
    from catenary.torch.graph import cost, graph_pass

    tensors = [randn("cpu", *shape) for shape in [(8, 64), (64, 64), (32, 64), (32, 64), (64,)]]
    monkeypatch.setattr(cost, "peer_ratio", lambda rows: 1.2)
    monkeypatch.setattr(graph_pass, "_on_host", lambda device: False)
    for joined, count in ((29.0, [3]), (30.5, [1, 1, 1])):
        times = {1: 10.0, 2: 20.5, 3: joined}
        monkeypatch.setattr(cost, "predicted_us", lambda text, target, t=times: t[text.count("contract")])
        ct.decisions.clear()
        torch._dynamo.reset()
        with torch.no_grad():
            ct.compile(qkv, options={"fx_graph_cache": False})(*tensors)
        assert [len(d.products) for d in taken()] == count, [str(d) for d in ct.decisions]


def test_grouped_mm(device, near):
    if device.type == "cuda" and torch.cuda.get_device_capability() < (8, 0):
        pytest.skip("grouped_mm needs sm_80")
    offs = torch.tensor([4, 8, 8, 16], dtype=torch.int32, device=device)
    x, w = randn(device, 16, 64).bfloat16(), (randn(device, 4, 32, 64) / 8).bfloat16()
    function = lambda x, w, o: F.silu(F.grouped_mm(x, w.transpose(1, 2), offs=o))
    with torch.no_grad():
        near(compiled(function)(x, w, offs), function(x, w, offs), torch.bfloat16)
    assert "ragged" in taken()[0].chain


def test_a_product_that_nothing_reads_after_all(near):
    def f(x, w):
        return (x @ w).sigmoid() * 0 + x[:, :16]

    x, w = torch.randn(5, 24), torch.randn(24, 16)
    near(compiled(f)(x, w), f(x, w))
    assert [d.reason for d in ct.decisions if "mm" in d.products] == ["its results are not used"]


def test_a_grouped_product_alone_stays_with_the_library():
    """Its time is not measured by rows: a chain of it must save a kernel."""
    from torch.fx.experimental.proxy_tensor import make_fx

    from catenary.torch.graph import CatenaryPass

    x = torch.empty(32, 1024, dtype=torch.bfloat16, device="meta")
    w = torch.empty(8, 2048, 1024, dtype=torch.bfloat16, device="meta")
    ends = torch.empty(8, dtype=torch.int32, device="meta")
    product = lambda x, w, o: torch.ops.aten._grouped_mm.default(x, w.transpose(1, 2), o)
    for function, count in ((product, 0), (lambda x, w, o: F.relu(product(x, w, o)) * 2, 1)):
        ct.decisions.clear()
        CatenaryPass("faster")(make_fx(function, tracing_mode="fake")(x, w, ends).graph)
        assert len(taken()) == count, [str(d) for d in ct.decisions]


def test_training(device, near):
    for function, shapes in ((lambda x, w, b: F.gelu(F.linear(x, w, b)), [(16, 64), (32, 64), (32,)]),
                             (swiglu, [(16, 64), (32, 64), (32, 64), (64, 32)])):  # fmt: skip
        torch._dynamo.reset()
        a = [(randn(device, *shape) / 4).requires_grad_() for shape in shapes]
        b = [t.detach().double().requires_grad_() for t in a]
        y, z = compiled(function)(*a), function(*b)
        near(y, z)
        out = torch.randn_like(y)
        y.backward(out)
        z.backward(out.double())
        for p, q in zip(a, b, strict=False):
            near(p.grad, q.grad, factor=2)
    assert len(taken()) >= 6


def test_dynamic_batch(device, near):
    layer = torch.nn.Linear(64, 32).to(device)
    function = lambda x: F.gelu(layer(x)) * 2
    fast = compiled(function)
    with torch.no_grad():
        for batch in (2, 3, 5, 17):
            x = randn(device, batch, 8, 64)
            torch._dynamo.mark_dynamic(x, 0)
            near(fast(x), F.gelu(F.linear(x.double(), layer.weight.double(), layer.bias.double())) * 2)
    assert len(ct.decisions) == 1 and "[M in " in taken()[0].chain


def test_the_cpu_is_left_to_inductor(near):
    x, w = randn("cpu", 16, 64), randn("cpu", 32, 64)
    with torch.no_grad():
        near(ct.compile(lambda x, w: F.silu(F.linear(x, w)), options={"fx_graph_cache": False})(x, w),
             F.silu(F.linear(x.double(), w.double())))  # fmt: skip
    assert not taken() and "reference" in ct.decisions[0].reason and str(ct.decisions[0]).startswith("left: ")


def test_what_no_chain_has_is_left(near):
    x, w = randn("cpu", 16, 64).double(), randn("cpu", 32, 64).double()
    with torch.no_grad():
        near(compiled(lambda x, w: F.linear(x, w))(x, w), F.linear(x, w))
    assert not taken() and ct.decisions


def test_a_pass_that_is_installed_runs_too():
    seen = []

    class Other(CatenaryPass):
        def __call__(self, graph):
            seen.append(len(graph.nodes))

    with torch._inductor.config.patch(post_grad_custom_pre_pass=Other()), torch.no_grad():
        compiled(lambda x, w: F.silu(F.linear(x, w)))(randn("cpu", 4, 8), randn("cpu", 16, 8))
    assert seen and taken()


def test_uuid_depends_on_the_options():
    assert CatenaryPass("always").uuid() != CatenaryPass("faster").uuid() == CatenaryPass("faster").uuid()
    with pytest.raises(Exception, match="accept is 'maybe'"):
        CatenaryPass("maybe")


@pytest.mark.parametrize("margin", ["x", None, -1, 0, float("nan"), float("inf"), True])
def test_a_margin_that_is_no_factor(margin):
    with pytest.raises(Exception, match="use a finite number above 0"):
        CatenaryPass(margin=margin)


def test_an_unknown_option():
    with pytest.raises(Exception, match="'catenary.acept' is no option: use catenary.accept"):
        ct.backend(torch.fx.symbolic_trace(torch.nn.ReLU()), [], options={"catenary.acept": "always"})


def test_layers_in_a_graph(device, near):
    x, w, b = (randn(device, *s).requires_grad_() for s in [(3, 2, 16), (40, 16), (40,)])
    y = torch.compile(lambda x, w, b: ct.linear(x, w, b, "silu").sin(), fullgraph=True, backend="aot_eager")(x, w, b)
    a = [t.detach().double().requires_grad_() for t in (x, w, b)]
    z = F.silu(F.linear(*a)).sin()
    near(y, z)
    y.sum().backward()
    z.sum().backward()
    for p, q in zip((x, w, b), a, strict=False):
        near(p.grad, q.grad)


def test_main_grad_in_a_graph(near):
    """A layer that accumulates runs between graphs; one graph of all is refused."""
    layers = [ct.Linear(16, 16, activation="silu", fuse_wgrad_accumulation=True), ct.Linear(16, 8)]
    first = layers[0]
    first.weight.main_grad = torch.ones(16, 16)
    model = torch.nn.Sequential(*layers)
    x = randn("cpu", 4, 16)
    torch.compile(model, backend="aot_eager")(x).square().sum().backward()
    assert first.weight.grad is None
    w, b = (t.detach().double().requires_grad_() for t in (first.weight, first.bias))
    F.linear(
        F.silu(F.linear(x.double(), w, b)), *(t.detach().double() for t in layers[1].parameters())
    ).square().sum().backward()
    near(first.weight.main_grad, w.grad + 1, factor=2)
    near(first.bias.grad, b.grad, factor=2)
    torch._dynamo.reset()
    with pytest.raises(Exception, match="fuse_wgrad_accumulation changes weight.main_grad"):
        torch.compile(model, backend="aot_eager", fullgraph=True)(x)


def test_modules_in_a_graph_with_dynamic_batch(device, near):
    module = ct.SwiGLU(16, 24).to(device)
    fast = torch.compile(module, fullgraph=True, dynamic=True, backend="aot_eager")
    for batch in (2, 3, 7):
        x = randn(device, batch, 16)
        near(fast(x), module(x), factor=2)


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = ct.Linear(16, 8, activation="silu")

    def forward(self, x):
        return self.layer(x) + 1


def test_export(near):
    module = Layer()
    batch = torch.export.Dim("batch", min=2, max=64)
    with torch.no_grad():
        program = torch.export.export(module, (torch.randn(4, 16),), dynamic_shapes={"x": {0: batch}})
        for n in (4, 9):
            x = torch.randn(n, 16)
            near(program.module()(x), module(x))
    assert any("catenary" in str(node.target) for node in program.graph.nodes)


def test_aot_inductor(near, tmp_path):
    module = Layer()
    batch = torch.export.Dim("batch", min=2, max=64)
    with torch.no_grad():
        program = torch.export.export(module, (torch.randn(4, 16),), dynamic_shapes={"x": {0: batch}})
        path = torch._inductor.aoti_compile_and_package(program, package_path=os.fspath(tmp_path / "layer.pt2"))
        package = torch._inductor.aoti_load_package(path)
        for n in (4, 9):
            x = torch.randn(n, 16)
            near(package(x), module(x))


PACKED = """chain packed[M in 1..16](input x: f32[M, 32], weight w: f32[16, 32]) {
  y = contract "mk,nk->mn"(x, w)
  z = silu(y)
  return z: f32
}
"""


class Packed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = ct.chain(PACKED)
        self.weight = torch.nn.Parameter(torch.randn(16, 32) / 8)

    def forward(self, x):
        return self.layer(x, self.weight) + 1


def test_aot_inductor_with_a_pack(near, tmp_path):
    """A process that loads the package and the pack compiles nothing and registers no chain of its own."""
    module, batch = Packed(), torch.export.Dim("batch", min=2, max=16)
    inputs = [torch.randn(n, 32) for n in (4, 9)]
    with torch.no_grad():
        program = torch.export.export(module, (inputs[0],), dynamic_shapes={"x": {0: batch}})
        torch._inductor.aoti_compile_and_package(program, package_path=os.fspath(tmp_path / "layer.pt2"))
        torch.save([(x, module(x)) for x in inputs], tmp_path / "wanted.pt")
    make_pack = (
        "import catenary as ctn\n"
        f"writer = ctn.PackWriter(); writer.add(ctn.Engine().compile(ctn.Chain.parse({PACKED!r})))\n"
        f"writer.finish({os.fspath(tmp_path / 'layer.ctnpack')!r})\n"
    )
    run_python(make_pack, CATENARY_DEVICE="sim")
    load = (
        "import torch, catenary as ctn, catenary.torch as ct\n"
        f"package = torch._inductor.aoti_load_package({os.fspath(tmp_path / 'layer.pt2')!r})\n"
        f"pairs = torch.load({os.fspath(tmp_path / 'wanted.pt')!r})\n"
        "ct.set_host('simulator')\n"
        "try:\n"
        "    package(pairs[0][0])\n"
        "    raise SystemExit('the chain is known without its pack')\n"
        "except RuntimeError:\n"
        "    pass\n"
        f"assert ct.add_pack(ctn.Pack({os.fspath(tmp_path / 'layer.ctnpack')!r})) == 1\n"
        "for x, wanted in pairs:\n"
        "    assert torch.allclose(package(x), wanted, atol=1e-3), (package(x) - wanted).abs().max()\n"
        "assert [row['place'] for row in ct.report()] == ['device'] * 2\n"
    )
    run_python(load, CATENARY_DEVICE="sim", CATENARY_JIT="off", CATENARY_CXX="/no/compiler",
               CATENARY_CACHE_DIR=os.fspath(tmp_path / "cache"))  # fmt: skip


def test_a_graph_from_the_cache_of_inductor(tmp_path):
    code = (
        "import torch, catenary.torch as ct\n"
        "torch.manual_seed(0)\n"
        "x, w = torch.randn(4, 8), torch.randn(16, 8)\n"
        "f = lambda x, w: torch.nn.functional.silu(torch.nn.functional.linear(x, w))\n"
        "with torch.no_grad():\n"
        "    y = ct.compile(f, options={'catenary.accept': 'always'})(x, w)\n"
        "    assert torch.allclose(y, f(x, w), atol=1e-5)\n"
        "print(torch._dynamo.utils.counters['inductor']['fxgraph_cache_hit'], len(ct.decisions))\n"
    )
    places = {"TORCHINDUCTOR_CACHE_DIR": os.fspath(tmp_path), "TORCHINDUCTOR_AUTOGRAD_CACHE": "0"}
    outputs = [run_python(code, **places).split() for _ in range(2)]
    assert outputs == [["0", "1"], ["1", "0"]]


def test_expressions():
    x = make("product", 0)
    assert make("div", x, make("add", make("exp", make("neg", x)), 1)) is make("silu", x)
    assert make("mul", make("sigmoid", x), x) is make("silu", x)
    half, root = make("mul", x, 0.5), make("mul", x, 0.7071067811865476)
    assert make("mul", half, make("add", make("erf", root), 1)) is make("gelu", x)
    assert make("div", x, make("add", make("exp", x), 1))[0] == "div"
    assert math.copysign(1, make("div", x, 0.0)[2]) == 1
    assert math.copysign(1, make("div", x, -0.0)[2]) == -1


def test_a_size_that_depends_on_data_has_no_hint():
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    with pytest.raises(Mismatch):
        hint(ShapeEnv().create_unbacked_symint())


@pytest.mark.parametrize("rows", [True, False])
@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
def test_a_product_of_a_size_that_depends_on_data_is_left(near, rows):
    def f(x, mask, w):
        picked = x[mask]
        return torch.relu(picked @ w) if rows else x[:4] @ picked.t()

    x, mask, w = torch.randn(40, 64), torch.arange(40) % 3 > 0, torch.randn(64, 96)
    near(compiled(f)(x, mask, w), f(x, mask, w))
    assert [d.reason for d in ct.decisions] == ["a size depends on data"]


def test_axes():
    axes = Axes()
    rows, width = axes.add(12), axes.add(5)
    dims = axes.reshape([(rows,), (width,)], [3, 4, 5])
    assert [len(d) for d in dims] == [1, 1, 1] and [axes.size(d[0]) for d in dims] == [3, 4, 5]
    assert axes.reshape(dims, [12, 5]) == [axes.flat((rows,)), (width,)]
    other = axes.add(12)
    axes.unify((other,), (rows,))
    assert axes.flat((other,)) == axes.flat((rows,))
    with pytest.raises(Mismatch):
        axes.unify((axes.add(7),), (width,))
    with pytest.raises(Mismatch):
        axes.reshape([(width,)], [2, 3])
