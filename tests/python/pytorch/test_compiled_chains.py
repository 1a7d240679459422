# SPDX-License-Identifier: Apache-2.0
"""Chains under torch.compile(fullgraph=True) with gradients of autograd, against eager calls: one operator per chain,
as the layers."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import catenary as ctn
import catenary.torch as ct

BODY = """  y = contract "mk,nk->mn" f32 (x, w)
  z = scale(silu(y), s)
  return y: f32, z: f32
}"""
EXACT = "chain layer(input x: f32[6, 8], weight w: f32[4, 8], scalar s: f32) {\n" + BODY
SYMBOL = "chain layer[M in 1..64](input x: f32[M, 8], weight w: f32[4, 8], scalar s: f32) {\n" + BODY
# The forward saves more values than an operator returns.
DEEP = (
    "chain deep(input x: f32[6, 8], " + ", ".join(f"weight w{i}: f32[8, 8]" for i in range(5)) + ") {\n"
    + "".join(f'  h{i + 1} = silu(contract "mk,nk->mn" f32 ({f"h{i}" if i else "x"}, w{i}))\n' for i in range(5))
    + "  return h5: f32\n}"
)  # fmt: skip
CASES = {
    "exact": (lambda: ct.chain(EXACT), [(6, 8), (4, 8)], (2.0,)),
    "symbol": (lambda: ct.chain(SYMBOL, exact=False), [(6, 8), (4, 8)], (2.0,)),
    "leading dimensions": (lambda: ct.chain(SYMBOL, exact=False), [(2, 3, 8), (4, 8)], (0.5,)),
    "recomputed": (lambda: ct.chain(SYMBOL, exact=False, recompute="all"), [(6, 8), (4, 8)], (2.0,)),
    "budget": (lambda: ct.chain(EXACT, recompute="budget", save_budget=64), [(6, 8), (4, 8)], (2.0,)),
    "many saved values": (lambda: ct.chain(DEEP), [(6, 8)] + [(8, 8)] * 5, ()),
}


def results(f, tensors):
    """Outputs and gradients."""
    leaves = [t.detach().clone().requires_grad_(t.requires_grad) for t in tensors]
    outputs = f(*leaves)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    sum((i + 1) * y.square().sum() for i, y in enumerate(outputs)).backward()
    return [*(y.detach() for y in outputs), *(leaf.grad for leaf in leaves)]


def check(got, wanted):
    for a, b in zip(got, wanted, strict=True):
        assert (a is None) == (b is None)
        assert a is None or torch.allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", ["aot_eager", "catenary"])
@pytest.mark.parametrize("name", CASES)
def test_gradients(device, name, backend, dynamic, frozen):
    make, shapes, scalars = CASES[name]
    layer = make()
    tensors = [torch.randn(shape, device=device, requires_grad=True) for shape in shapes]
    tensors[0].requires_grad_(not frozen)

    def f(*tensors):
        outputs = layer(*tensors, *scalars)
        return tuple(y.relu() for y in outputs) if isinstance(outputs, tuple) else outputs.relu()

    compiled = torch.compile(
        f, fullgraph=True, dynamic=dynamic, backend=ct.backend if backend == "catenary" else backend
    )
    check(results(compiled, tensors), results(f, tensors))
    with torch.no_grad():
        got, wanted = compiled(*tensors), f(*tensors)
    check(got if isinstance(got, tuple) else [got], wanted if isinstance(wanted, tuple) else [wanted])


def test_one_operator(device):
    """Also where the rows are dynamic, and a scalar is an argument of the function."""
    layer, seen = ct.chain(SYMBOL, exact=False), []

    def backend(graph, inputs):
        seen.extend(node.target for node in graph.graph.nodes if node.op == "call_function")
        return graph

    compiled = torch.compile(lambda x, w, s: layer(x, w, s)[1], fullgraph=True, backend=backend, dynamic=True)
    w = torch.randn(4, 8, device=device, requires_grad=True)
    for rows, s in ((6, 2.0), (9, 3.0)):
        x = torch.randn(rows, 8, device=device)
        check(
            results(lambda x, w, s=s: compiled(x, w, s), (x, w)), results(lambda x, w, s=s: layer(x, w, s)[1], (x, w))
        )
    called = [target for target in seen if "catenary" in str(target)]
    assert called and set(map(str, called)) == {"catenary.train2.default"}


def test_graphs_name_their_gradients():
    """Inductor finds a graph of an earlier process in its cache by what the graph holds, and runs the backward that it
    was traced with: two backwards of one forward must be two graphs."""
    held = []

    def backend(graph, inputs):
        held.append([node.args[1:] for node in graph.graph.nodes if "catenary" in str(node.target)])
        return graph

    tensors = [torch.randn(6, 8), torch.randn(4, 8)]
    for recompute in ("unstored", "all"):
        layer = ct.chain(SYMBOL, exact=False, recompute=recompute)
        for frozen in (True, False):
            x, w = tensors[0].clone().requires_grad_(not frozen), tensors[1].clone().requires_grad_()
            results(torch.compile(lambda x, w, layer=layer: layer(x, w, 2.0), backend=backend), (x, w))
    assert all(len(calls) == 1 for calls in held) and len(held) == 4
    forward, gradients = [calls[0][0] for calls in held], [calls[0][2] for calls in held]
    assert len(set(forward)) == 1 and len(set(gradients)) == 4


def test_wrong_arguments(device):
    layer = torch.compile(ct.chain(EXACT), backend="eager")
    x, w = torch.randn(6, 8, device=device), torch.randn(4, 8, device=device, requires_grad=True)
    with pytest.raises(ctn.ArgumentError, match="'w' is 5, of type int: pass a torch.Tensor"):
        layer(x, 5, 2.0)
    with pytest.raises(Exception, match="takes 2 tensors .x, w. and 1 scalars, got 2 arguments"):
        layer(x, w)


@pytest.mark.parametrize("value", [np.float32(0.5), np.float64(0.5), np.array(0.5), torch.tensor(0.5)], ids=repr)
def test_a_number_of_a_library_ends_the_graph(device, value):
    layer, tensors = ct.chain(SYMBOL, exact=False), [torch.randn(6, 8, device=device), torch.randn(4, 8, device=device)]
    compiled = torch.compile(lambda x, w, s: layer(x, w, s)[1], backend="aot_eager")
    for gradients in (False, True):
        tensors[1].requires_grad_(gradients)
        assert torch.equal(compiled(*tensors, value), layer(*tensors, 0.5)[1])
    whole = torch.compile(lambda x, w, s: layer(x, w, s)[1], backend="aot_eager", fullgraph=True)
    with pytest.raises(Exception, match="a scalar of a chain is a float in a graph, finite in f32: pass one"):
        whole(*tensors, value)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (True, "scalar 0 is True, of type bool: pass a number"),
        (1e300, "scalar 0 is 1e.300, and scalars are f32: pass a number that is finite in f32"),
        (torch.tensor([2.0]), "scalar 0 is tensor.*: pass a number"),
        (torch.tensor(2.0, requires_grad=True), "scalar 0 requires a gradient, .*: declare an input of shape .1,."),
    ],
)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_what_is_no_scalar(device, value, sentence, compiled):
    layer, tensors = ct.chain(EXACT), [torch.randn(6, 8, device=device), torch.randn(4, 8, device=device)]
    call = torch.compile(lambda x, w, s: layer(x, w, s), backend="eager") if compiled else layer
    with pytest.raises(ctn.ArgumentError, match=sentence):
        call(*tensors, value)


def test_a_scalar_without_gradients(device):
    layer, x, w = ct.chain(EXACT), torch.randn(6, 8, device=device), torch.randn(4, 8, device=device)
    s = torch.tensor(2.0, requires_grad=True)
    wanted = layer(x, w, 2.0)[1]
    with torch.no_grad():
        assert torch.equal(layer(x, w, s)[1], wanted)
    assert torch.equal(layer(x, w, s.detach())[1], wanted)
    with pytest.raises(ctn.ArgumentError, match="scalar 0 requires a gradient"):
        torch.func.grad(lambda s: layer(x, w, s)[1].sum())(s.detach())
    scaled = ct.chain("chain s(input x: f32[4], scalar s: f32) { y = scale(x, s) return y: f32 }")
    assert torch.equal(scaled(torch.ones(4, device=device), float("inf")).cpu(), torch.full((4,), float("inf")))
