# SPDX-License-Identifier: Apache-2.0
"""Regions with the RMS norm before products, and with the residual after them."""

import re

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F

import catenary.torch as ct
from catenary.torch.graph import cost, graph_pass

WIDTH, NARROW, HIDDEN = 64, 32, 96
SHAPES = [(WIDTH, WIDTH), (NARROW, WIDTH), (NARROW, WIDTH), (WIDTH, WIDTH), *[(HIDDEN, WIDTH)] * 2, (WIDTH, HIDDEN)]
ALWAYS = {"catenary.accept": "always", "fx_graph_cache": False}


@pytest.fixture(autouse=True)
def nothing_decided():
    ct.decisions.clear()


def taken():
    return [decision for decision in ct.decisions if decision.taken]


def normed():
    """How many products each region with a norm has."""
    return [len(decision.products) for decision in taken() if ' sum "' in decision.chain]


def scaled_after(chain):
    """Whether the scale of the rows is applied after a product."""
    (scale,) = re.findall(r"(t\d+) = rsqrt", chain)
    return f"{scale} @" in chain.split("contract", 1)[1]


def no_gain(x, g):
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def gain_after(x, g):
    return g * no_gain(x, g)


def gain_inside(x, g):
    return F.rms_norm(x, (x.shape[-1],), g, 1e-6)


def gain_plus_one(x, g):
    wide = x.float()
    total = (wide * wide).sum(-1, keepdim=True)
    return (torch.rsqrt(total / x.shape[-1] + 1e-6) * wide * (1 + g.float())).to(x.dtype)


BLOCKS = [
    *((rows, gain_after, torch.bfloat16) for rows in (1, 4, 16)),
    *((4, norm, torch.bfloat16) for norm in (no_gain, gain_inside, gain_plus_one)),
    *((16, norm, torch.float16) for norm in (no_gain, gain_after)),
]


def block(norm):
    def layer(x, g, q, k, v, o, gate, up, down):
        h = norm(x, g)
        q, k, v = F.linear(h, q), F.linear(h, k), F.linear(h, v)
        a = (q.float().softmax(-1) * torch.cat([k, v], -1)).to(x.dtype)
        x = x + F.linear(a, o)
        h = norm(x, g)
        return x + F.linear(F.silu(F.linear(h, gate)) * F.linear(h, up), down)

    return layer


def tensors(rows, dtype=torch.bfloat16, middle=1):
    x = torch.randn(rows, middle, WIDTH).to(dtype)
    return [x, torch.rand(WIDTH).to(dtype) + 0.5, *((torch.randn(*shape) / 8).to(dtype) for shape in SHAPES)]


@pytest.mark.parametrize("rows, norm, dtype", BLOCKS, ids=lambda value: getattr(value, "__name__", str(value)))
def test_block(rows, norm, dtype, near):
    given = tensors(rows, dtype)
    with torch.no_grad():
        got = ct.compile(block(norm), fullgraph=True, options=ALWAYS)(*given)
        near(got, block(norm)(*(t.double() for t in given)), dtype, factor=2)
    assert [len(d.products) for d in taken()] == [3, 1, 2, 1], [str(d) for d in ct.decisions]
    assert normed() == [3, 2]
    # Rows are scaled after the product, but a gain may put values of f16 out of range.
    formed = dtype == torch.float16 and norm is not no_gain
    assert all(scaled_after(d.chain) is not formed for d in taken()[::2])
    assert all(" add(" in d.chain for d in taken()[1::2])  # the residual


def test_rows_of_two_dimensions(near):
    given = tensors(2, middle=3)
    with torch.no_grad():
        got = ct.compile(block(gain_after), options=ALWAYS)(*given)
        near(got, block(gain_after)(*(t.double() for t in given)), torch.bfloat16, factor=2)
    assert normed() == [3, 2]


def linear_of(norm):
    return lambda x, g, w: F.linear(norm(x, g), w)


def read_twice(x, g, w):
    h = gain_after(x, g)
    return F.linear(h, w), h.sin()


def is_right_operand(x, g, w):
    h = gain_after(x, g).view(-1, WIDTH)
    return h @ w.t(), w @ h.t()


def scale_is_read(x, g, w):
    wide = x.float()
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return F.linear((wide * scale).to(x.dtype), w), scale


def another_mean(x, g, w):
    wide = x.float()
    return F.linear((wide * torch.rsqrt(wide.pow(2).mean(0, keepdim=True) + 1e-6)).to(x.dtype), w)


def computed_gain(x, g, w):
    return F.linear(gain_after(x, g.cumsum(-1)), w)


LEFT = [read_twice, is_right_operand, scale_is_read, another_mean, computed_gain]


@pytest.mark.parametrize("function", LEFT, ids=lambda function: function.__name__)
def test_left(function, near):
    given = tensors(4)[:3]
    with torch.no_grad():
        got, wanted = ct.compile(function, options=ALWAYS)(*given), function(*(t.double() for t in given))
    for a, b in zip(*((r if isinstance(r, tuple) else (r,)) for r in (got, wanted)), strict=True):
        near(a, b, torch.bfloat16, factor=2)
    assert taken() and normed() == [], [d.chain for d in taken()]


@pytest.mark.parametrize("rows, count", [(64, [1]), (65, []), ("dynamic", [])])
def test_rows(rows, count, near):
    x, g, w = tensors(8 if rows == "dynamic" else rows)[:3]
    if rows == "dynamic":
        torch._dynamo.mark_dynamic(x, 0)
    with torch.no_grad():
        near(ct.compile(linear_of(gain_after), options=ALWAYS)(x, g, w),
             linear_of(gain_after)(*(t.double() for t in (x, g, w))), torch.bfloat16)  # fmt: skip
    assert taken() and normed() == count


def test_training(near):
    given = [t.requires_grad_() for t in tensors(4)]
    wanted = [t.detach().double().requires_grad_() for t in given]
    y, z = ct.compile(block(gain_after), options=ALWAYS)(*given), block(gain_after)(*wanted)
    near(y, z, torch.bfloat16, factor=2)
    out = torch.randn_like(y)
    y.backward(out)
    z.backward(out.double())
    for a, b in zip(given, wanted, strict=True):
        near(a.grad, b.grad, torch.bfloat16, factor=3)
    assert len(taken()) > 4 and normed() == []  # the scales of the rows are saved


@pytest.fixture
def costs(monkeypatch):
    """10 us a product, 1 us a sum, 0.5 us an addition, 3 us a chain without products; the library is as fast."""

    def predicted_us(text, target):
        products = text.count("contract ")
        return 10 * products + (' sum "' in text) + 0.5 * (" add(" in text) if products else 3.0

    monkeypatch.setattr(graph_pass, "_on_host", lambda device: False)
    monkeypatch.setattr(cost, "predicted_us", predicted_us)
    monkeypatch.setattr(cost, "peer_ratio", lambda rows: 1.0)


def decide(function, *given):
    with torch.no_grad():
        ct.compile(function, options={"fx_graph_cache": False})(*given)
    return [(d.taken, d.predicted_us, d.replaced_us) for d in ct.decisions]


def test_the_kernel_of_a_norm_is_counted_where_it_disappears(costs):
    x, g, w = tensors(4)[:3]
    assert decide(linear_of(gain_after), x, g, w) == [(True, 11.5, 13.0)]
    ct.decisions.clear()
    torch._dynamo.reset()
    assert decide(lambda x, g, w: (F.linear(gain_after(y := x.sin(), g), w), y), x, g, w) == [(False, 10.0, 10.0)]


def test_a_residual_is_taken_for_the_norm_after_it(costs):
    assert decide(block(gain_after), *tensors(4)) == [
        (True, 31.5, 33.0),  # QKV, whose norm is of an input
        (True, 10.5, 10.0),
        (True, 21.5, 26.0),  # the norm, and the kernel of the gate
        (True, 10.5, 13.0),  # the residual is a result
    ]
    assert taken()[1].reason == "predicted to be faster with the norm after it"
