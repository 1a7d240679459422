# SPDX-License-Identifier: Apache-2.0
"""Values of regions: how they are aligned and rounded, what a region may read, and which columns it takes."""

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import catenary.torch as ct
from catenary.torch.graph import CatenaryPass, cost
from catenary.torch.graph.axes import Mismatch
from catenary.torch.graph.lower import lower
from catenary.torch.graph.region import Grower, products_of

aten = torch.ops.aten
ALWAYS = {"catenary.accept": "always", "fx_graph_cache": False, "shape_padding": False}


@pytest.fixture(autouse=True)
def nothing_decided():
    ct.decisions.clear()


def taken():
    return [decision for decision in ct.decisions if decision.taken]


def compiled(function, *tensors):
    with torch.no_grad():
        return ct.compile(function, fullgraph=True, options=ALWAYS)(*tensors)


def passed(function, *tensors):
    """The traced function after the pass."""
    module = make_fx(function, tracing_mode="fake")(*tensors)
    CatenaryPass("always")(module.graph)
    module.recompile()
    return module, [node.target for node in module.graph.nodes]


# name: function, shapes of arguments
SMALLER = {
    "a gate by row": (lambda x, w, r: torch.mm(x, w) * torch.sigmoid(r), [(32, 64), (64, 32), (32, 1)]),
    "a gate by row, transposed": (lambda x, w, r: torch.mm(x, w).t() * torch.tanh(r),
                                  [(32, 64), (64, 32), (1, 32)]),
    "a product by batch": (lambda q, k, m, s: torch.bmm(q, k) + m * s,
                           [(16, 16, 64), (16, 64, 24), (16, 1, 24), (24,)]),
    "an activation by batch": (lambda q, k, m: torch.bmm(q, k) + F.relu(m), [(16, 16, 64), (16, 64, 24), (16, 1, 24)]),
    "one row": (lambda q, k, m, s: torch.bmm(q, k) + m * s, [(8, 1, 64), (8, 64, 96), (8, 1, 96), (96,)]),
}  # fmt: skip


@pytest.mark.parametrize("name", SMALLER)
def test_values_of_lower_rank_are_aligned_by_label(name, near):
    function, shapes = SMALLER[name]
    tensors = [torch.randn(*shape) / 4 for shape in shapes]
    near(compiled(function, *tensors), function(*(t.double() for t in tensors)))
    assert len(taken()) == 1 and any(f" {op}(" in taken()[0].chain for op in ("mul", "add")), taken()[0].chain


COPIES = {
    "stored in both": lambda y: (y, y.bfloat16()),
    "read by another operation": lambda y: (y.sin(), y.bfloat16()),
    "two short copies": lambda y: (y.half(), y.bfloat16()),
}


@pytest.mark.parametrize("name", COPIES)
def test_an_f32_value_is_not_rounded_by_its_copy(name, near):
    function = lambda x, w: COPIES[name](x @ w)
    x, w = torch.randn(16, 64), torch.randn(64, 32) / 8
    for a, b in zip(compiled(function, x, w), COPIES[name](x.double() @ w.double()), strict=True):
        near(a, b, a.dtype)
    assert taken()


def test_what_is_stored_in_bf16_is_read_as_it_is_stored(near):
    x, w = torch.randn(16, 64).bfloat16(), (torch.randn(64, 32) / 8).bfloat16()
    y, z = compiled(lambda x, w: (y := x @ w, (y.float() * 3).sin()), x, w)
    near(z, (y.float() * 3).sin())
    assert len(taken()) == 1


CHAINED = {
    "returned": lambda x, a, b: (h := x @ a, h + F.relu(h) @ b),
    "not returned": lambda x, a, b: ((h := x @ a) + F.relu(h) @ b,),
    "of two ranks": lambda x, a, b: (x @ b + (x @ a) @ b,),
}


@pytest.mark.parametrize("name", CHAINED)
def test_a_product_does_not_join_what_it_reads(name, near):
    function = CHAINED[name]
    tensors = [torch.randn(16, 32), *(torch.randn(32, 32) / 8 for _ in range(2))]
    module, targets = passed(function, *tensors)
    for a, b in zip(module(*tensors), function(*(t.double() for t in tensors)), strict=True):
        near(a, b)
    assert aten.mm.default not in targets
    names = [product for decision in taken() for product in decision.products]
    assert len(names) == len(set(names)), names


@pytest.mark.parametrize("rows", [1, 16])
@pytest.mark.parametrize("columns", [slice(-32, None), slice(-96, -32), slice(64, 200), slice(-500, 40)])
def test_columns_from_the_end(rows, columns, near):
    x, w = torch.randn(rows, 64), torch.randn(96, 64) / 8
    function = lambda x, w: torch.sigmoid(F.linear(x, w)[:, columns]) * 2
    near(compiled(function, x, w), function(x.double(), w.double()))
    assert "sigmoid" in taken()[0].chain


def test_columns_up_to_a_symbol(near):
    x, w, m = torch.randn(16, 64), torch.randn(96, 64) / 8, torch.zeros(40)
    torch._dynamo.mark_dynamic(m, 0)
    function = lambda x, w, m: torch.sigmoid(F.linear(x, w)[:, : m.shape[0]]) * 2
    near(compiled(function, x, w, m), function(x.double(), w.double(), m))


def test_parts_of_a_symbolic_size(near):
    x, w, m = torch.randn(16, 64), torch.randn(96, 64) / 8, torch.zeros(40)
    torch._dynamo.mark_dynamic(m, 0)

    def function(x, w, m):
        first, second = F.linear(x, w).split([m.shape[0], 96 - m.shape[0]], -1)
        return torch.sigmoid(first), second

    for a, b in zip(compiled(function, x, w, m), function(x.double(), w.double(), m), strict=True):
        near(a, b)


def normed(x, r, n):
    return torch.add(x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5), r[0], alpha=n)


# name: function of x, w, r and a symbolic number
NUMBERS = {
    "alpha of add": lambda x, w, r, n: torch.add(x @ w, r, alpha=n),
    "alpha of sub": lambda x, w, r, n: F.silu(torch.sub(r, x @ w, alpha=n)),
    "alpha of addmm": lambda x, w, r, n: F.relu(torch.addmm(r, x, w, alpha=n)),
    "beta of addmm": lambda x, w, r, n: torch.addmm(r, x, w, beta=1 / n),
    "alpha of baddbmm": lambda x, w, r, n: torch.baddbmm(r[None], x[None], w[None], alpha=1 / n),
    "beta of baddbmm": lambda x, w, r, n: torch.baddbmm(r[None], x[None], w[None], beta=n),
    "work before it": lambda x, w, r, n: F.silu(x @ w) * torch.add(r, r.sin(), alpha=n),
    "a norm": lambda x, w, r, n: F.silu(normed(x, r, n) @ w),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_symbolic_number_is_no_part_of_a_region(name, near):
    function = lambda x, w, r: NUMBERS[name](x, w, r, x.shape[0])
    dtype = torch.bfloat16 if name == "a norm" else torch.float32
    x, w, r = (t.to(dtype) for t in (torch.randn(8, 32), torch.randn(32, 32) / 8, torch.randn(8, 32)))
    for tensor in (x, r):
        torch._dynamo.mark_dynamic(tensor, 0, min=2, max=64)
    near(compiled(function, x, w, r), function(x.double(), w.double(), r.double()), dtype)
    assert ct.decisions


def test_an_output_of_another_size_is_refused():
    """Such a region is left: its operator would fail in the user's compile."""
    graph = make_fx(torch.mm, tracing_mode="fake")(torch.empty(16, 64), torch.empty(64, 32)).graph
    (product,) = products_of(graph)
    (region,) = Grower(graph).grow(product)
    assert lower(region, [product]).chain.text
    product.meta["val"] = torch.empty(16, 64, device="meta")
    with pytest.raises(Mismatch):
        lower(region, [product])


def test_a_number_on_the_cpu_is_not_read(monkeypatch):
    """Operators take tensors of one device."""
    monkeypatch.setattr(cost, "target_of", lambda device: "h200")
    with FakeTensorMode():
        x, w, s = torch.empty(16, 64, device="cuda"), torch.empty(64, 32, device="cuda"), torch.empty(())
        graph = make_fx(lambda x, w, s: F.silu(torch.mm(x, w) * s))(x, w, s).graph
        CatenaryPass("always")(graph)
    (call,) = [node for node in graph.nodes if "catenary" in str(node.target)]
    assert {node.meta["val"].device.type for node in call.args[0]} == {"cuda"}
