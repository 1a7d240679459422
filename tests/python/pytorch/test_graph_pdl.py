# SPDX-License-Identifier: Apache-2.0
"""Which operators of a graph may start before the stream's previous kernel has ended."""

import os

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F
from conftest import run_python

import catenary.torch as ct
from catenary.torch import operators
from catenary.torch.graph import CatenaryPass

WIDTH = 64


@pytest.fixture(autouse=True)
def nothing_decided():
    ct.decisions.clear()


def first(x, w, v):
    return F.silu(F.linear(x, w))


def after_a_kernel(x, w, v):
    return F.silu(F.linear(x.sin(), w))


def after_our_operator(x, w, v):
    return F.linear(F.silu(F.linear(x, w)).view(2, -1, WIDTH), v)


def after_both(x, w, v):
    return F.linear(F.linear(x, w).softmax(-1), v)


def after_a_conversion(x, w, v):
    return F.linear(x.bfloat16().to(w.dtype), w)


def after_constants(x, w, v):
    return F.linear(torch.ones(4, WIDTH).sin(), w)


def after_an_added_product(x, w, v):
    """Inductor makes the product and the sum one call of the library."""
    return F.linear((x[:, :1] @ w[:1]) + x, v)


def written(x, w, v):
    y = F.silu(F.linear(x.sin(), w))
    w.mul_(0.5)
    return y


def part_is_written(x, w, v):
    y = F.silu(F.linear(x.sin(), w))
    w[1:3].add_(1)
    return y


def another_is_written(x, w, v):
    y = F.silu(F.linear(x.sin(), w))
    v.add_(1)
    return y


RULE = {
    first: [False],
    after_a_kernel: [True],
    after_our_operator: [False, False],
    after_both: [False, True],
    after_a_conversion: [False],
    after_constants: [False],
    after_an_added_product: [False],
    written: [False],
    part_is_written: [False],
    another_is_written: [True],
}


@pytest.mark.parametrize("function", RULE, ids=lambda function: function.__name__)
def test_rule(function, near):
    x, w, v = (torch.randn(n, WIDTH) / 8 for n in (4, WIDTH, WIDTH))
    wanted = function(*(t.double() for t in (x, w, v))) if function is not after_constants else function(x, w, v)
    with torch.no_grad():
        options = {"catenary.accept": "always", "fx_graph_cache": False}
        rounded = torch.bfloat16 if function is after_a_conversion else torch.float32  # Inductor may drop it
        near(ct.compile(function, fullgraph=True, options=options)(x, w, v), wanted, rounded)
    taken = [d for d in ct.decisions if d.taken]
    assert [d.pdl for d in taken] == RULE[function], [str(d) for d in ct.decisions]
    assert [", with PDL" in str(d) for d in taken] == RULE[function]


@pytest.mark.parametrize("config", [{"catenary.pdl": "never"}, {"triton.enable_pdl": True},
                                    {"post_grad_custom_post_pass": CatenaryPass("never")}])  # fmt: skip
def test_no_operator_starts_early_where_kernels_may(config):
    """With these, kernels of the graph may start early themselves; "never" asks for it."""
    x, w, v = (torch.randn(n, WIDTH) for n in (4, WIDTH, WIDTH))
    options = {"catenary.accept": "always", "fx_graph_cache": False, **config}
    with torch.no_grad():
        ct.compile(after_a_kernel, options=options)(x, w, v)
    assert [(d.taken, d.pdl) for d in ct.decisions] == [(True, False)]


def test_options():
    assert CatenaryPass().uuid() != CatenaryPass(pdl="never").uuid()
    with pytest.raises(Exception, match="pdl is 'always': use one of auto, never"):
        CatenaryPass(pdl="always")


def test_writes_by_operators_that_the_rule_does_not_know(monkeypatch):
    """An operator without a schema may write all that it is given; one with a schema what that says."""
    from catenary.torch.graph.early_start import _written

    graph = torch.fx.Graph()
    a, b = graph.placeholder("a"), graph.placeholder("b")
    for node in (a, b):
        node.meta["val"] = torch.ones(1)
    aten = torch.ops.aten
    add = graph.call_function(aten._foreach_add_.List, ([a], [b]))
    copy = graph.call_function(aten.copy_.default, (a, b))
    other = graph.call_function(torch.ops.higher_order.auto_functionalized, (aten.copy_.default,), {"self": a})
    plain = graph.call_function(aten.add.Tensor, (a, b))
    assert [_written(node) for node in (add, copy, other, plain)] == [[a], [a], [a], []]


CACHED = """
import torch, catenary.torch as ct
from catenary.torch.operators import form_of
torch.manual_seed(0)
x, w = torch.randn(4, 8), torch.randn(16, 8)
f = lambda x, w: torch.nn.functional.silu(torch.nn.functional.linear(x.sin(), w))
with torch.no_grad():
    y = ct.compile(f, options={'catenary.accept': 'always'})(x, w)
    assert torch.allclose(y, f(x, w), atol=1e-5)
print(len(ct.decisions), *[form_of(row['key']).pdl for row in ct.report()])
"""


@pytest.mark.parametrize("implementation", ["shim", "python"])
def test_a_kept_chain_starts_early_too(implementation, tmp_path):
    places = {"TORCHINDUCTOR_CACHE_DIR": os.fspath(tmp_path), "TORCHINDUCTOR_AUTOGRAD_CACHE": "0"}
    if implementation == "python":
        places["CATENARY_TORCH_OPERATORS"] = "python"
    outputs = [run_python(CACHED, **places).split() for _ in range(2)]
    assert outputs == [["1", "True"], ["0", "True"]]


def test_keys():
    chain = ct.chain("chain c(input x: f32[4, 8], weight w: f32[8, 8]) {\n"
                     '  y = contract "mk,nk->mn"(x, w)\n  return y: f32\n}\n').chain  # fmt: skip
    forms = [operators.add(chain, exact=exact, pdl=pdl) for exact in (True, False) for pdl in (True, False)]
    assert len({form.key for form in forms}) == 4
    assert [(form.exact, form.pdl) for form in forms] == [(e, p) for e in (True, False) for p in (True, False)]


PACKAGE = """
import sys, torch, catenary.torch as ct
from catenary.torch.graph import CatenaryPass
from catenary.torch.operators import form_of
torch.manual_seed(0)
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 16)
    def forward(self, x):
        return torch.nn.functional.silu(self.layer(x.sin()))
model, x, first = Model(), torch.randn(4, 8), CatenaryPass("always")
with torch.no_grad():
    if sys.argv[1] == "make":
        program = torch.export.export(model, (x,))
        torch._inductor.aoti_compile_and_package(program, package_path=PATH,
                                                 inductor_configs={"post_grad_custom_pre_pass": first})
    package = torch._inductor.aoti_load_package(PATH)
    assert torch.allclose(package(x), model(x), atol=1e-5)
print(len(ct.decisions), *[form_of(row['key']).pdl for row in ct.report()])
"""


def test_a_package_starts_early_too(tmp_path):
    code = PACKAGE.replace("PATH", repr(os.fspath(tmp_path / "model.pt2")))
    places = {"TORCHINDUCTOR_CACHE_DIR": os.fspath(tmp_path)}
    outputs = [run_python(code.replace("sys.argv[1]", repr(how)), **places).split() for how in ("make", "load")]
    assert outputs == [["1", "True"], ["0", "True"]]
