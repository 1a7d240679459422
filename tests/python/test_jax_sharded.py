# SPDX-License-Identifier: Apache-2.0
"""catenary.jax under jit on a mesh of two virtual CPU devices: results and gradients are those of one device, parts
stay where they are, and a sum over devices is one all-reduce."""

import numpy as np
import pytest
from conftest import run_python

import catenary as ctn

pytest.importorskip("jax")

PRELUDE = """
import numpy as np, jax, jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import catenary as ctn, catenary.jax as ctnj
assert len(jax.devices()) == 2
mesh = Mesh(np.array(jax.devices()), ("i",))
rng = np.random.default_rng(0)
def randn(*shape): return jnp.asarray(rng.standard_normal(shape), jnp.float32)
def put(a, *spec): return jax.device_put(a, NamedSharding(mesh, P(*spec)))
def product(activation, m=8, n=12, k=16, symbol=False):
    chain = ctn.Chain("layer")
    rows = chain.symbol("M", 1, 64) if symbol else m
    x, w = chain.input("x", "f32", (rows, k)), chain.weight("w", "f32", (n, k))
    y = ctn.contract("mk,nk->mn", x, w, true_f32=True)
    chain.output(ctn.silu(y) if activation else y, "f32")
    return chain
def layer(x, w): return jnp.dot(x, w.T, precision="highest")
def run(f, *a):
    compiled = jax.jit(f).lower(*a).compile()
    return compiled(*a), compiled.as_text()
def close(a, b): np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-4)
x, w = randn(8, 16), randn(12, 16)
"""


def sharded(code):
    run_python(PRELUDE + code, XLA_FLAGS="--xla_force_host_platform_device_count=2", JAX_PLATFORMS="cpu")


def test_the_batch_and_columns_of_the_weight_need_no_exchange():
    sharded("""
for symbol in (False, True):
    y, text = run(lambda x, w: ctnj.call(product(True, symbol=symbol), x, w), put(x, "i"), put(w))
    close(y, jax.nn.silu(layer(x, w)))
    assert y.sharding.spec[0] == "i" and "all-gather" not in text and "all-reduce" not in text, text
y, text = run(lambda x, w: ctnj.call(product(True), x, w), put(x), put(w, "i"))
close(y, jax.nn.silu(layer(x, w)))
assert y.sharding.spec[1] == "i" and "all-gather" not in text and "all-reduce" not in text, text
""")


def test_a_sum_over_devices_is_one_all_reduce_and_what_follows_it_gathers():
    sharded("""
y, text = run(lambda x, w: ctnj.call(product(False), x, w), put(x, None, "i"), put(w, None, "i"))
close(y, layer(x, w))
assert text.count(" all-reduce(") == 1 and "all-gather" not in text, text
y, text = run(lambda x, w: ctnj.call(product(True), x, w), put(x, None, "i"), put(w, None, "i"))
close(y, jax.nn.silu(layer(x, w)))
assert " all-reduce(" not in text and "all-gather" in text, text
""")


def test_a_gated_mlp_by_columns_then_rows():
    sharded("""
chain = ctn.Chain("mlp")
a = chain.input("x", "f32", (8, 16))
g, u, d = (chain.weight(n, "f32", s) for n, s in (("g", (12, 16)), ("u", (12, 16)), ("d", (16, 12))))
p = lambda e, a, b: ctn.contract(e, a, b, true_f32=True)
chain.output(p("mk,nk->mn", ctn.silu(p("mk,nk->mn", a, g)) * p("mk,nk->mn", a, u), d), "f32")
wu, wd = randn(12, 16), randn(16, 12)
y, text = run(lambda *t: ctnj.call(chain, *t), put(x), put(w, "i"), put(wu, "i"), put(wd, None, "i"))
close(y, layer(jax.nn.silu(layer(x, w)) * layer(x, wu), wd))
assert text.count(" all-reduce(") == 1 and "all-gather" not in text, text
""")


def test_gradients():
    sharded("""
out = randn(8, 12)
loss = lambda f: jax.grad(lambda x, w: (f(x, w) * out).sum(), argnums=(0, 1))
want = loss(lambda x, w: jax.nn.silu(layer(x, w)))(x, w)
for places in ((put(x, "i"), put(w)), (put(x), put(w, "i")), (put(x, None, "i"), put(w, None, "i"))):
    got, _ = run(loss(lambda x, w: ctnj.call(product(True), x, w)), *places)
    for a, b in zip(got, want):
        close(a, b)
""")


def test_sizes_without_equal_parts_stay_whole():
    sharded("""
x = randn(7, 16)
divided = lambda x: jax.lax.with_sharding_constraint(x * 1, NamedSharding(mesh, P("i")))
y, _ = run(lambda x, w: ctnj.call(product(True, m=7), divided(x), w), x, put(w))
close(y, jax.nn.silu(layer(x, w)))
""")


def test_factors():
    chain = ctn.Chain.parse(
        'chain c(input x: f32[8, 4], weight w: f32[6, 4]) { y = contract "mk,nk->mn" f32(x, w) return y: f32 }'
    )
    factors = chain.factors
    assert factors.operands == [[0, 1], [2, 1], [0, 2]] and factors.divides == [True] * 3 and factors.sums == [[1]]
    part = chain.shard([2, 1, 3])
    assert [p.shape for p in part.operands] == [(4, 4), (2, 4), (4, 2)]
    a, b = (np.random.default_rng(i).standard_normal(s).astype("f4") for i, s in ((0, (4, 4)), (1, (2, 4))))
    np.testing.assert_allclose(part.reference(a, b), a @ b.T, rtol=1e-5, atol=1e-5)
    with pytest.raises(ctn.ArgumentError, match="a dimension of 8 has no 3 equal parts"):
        chain.shard([3, 1, 1])


def test_quantised_weights_are_whole_and_rows_divide():
    sharded("""
chain = ctn.Chain("quantised")
x, s = chain.input("x", "bf16", (8, 64)), chain.weight("s", "f32", (32, 1))
q = chain.weight("q", "i4", (32, 64), packed=True)
chain.output(ctn.linear(x, ctn.dequant(q, s, 1, 64)), "bf16")
values = rng.integers(-8, 8, (32, 64))
packed = ctn.repack((values[:, 0::2] & 15 | (values[:, 1::2] & 15) << 4).astype(np.uint8), "plain", "i4")
a = jnp.asarray(rng.integers(-2, 3, (8, 64)), jnp.bfloat16)
y, text = run(lambda *t: ctnj.call(chain, *t), put(a, "i"), put(jnp.ones((32, 1))), put(jnp.asarray(packed)))
assert y.sharding.spec[0] == "i" and "all-gather" not in text, text
np.testing.assert_allclose(np.asarray(y).astype(float), np.asarray(a).astype(float) @ values.T, rtol=2**-8, atol=1)
""")


def test_a_factor_that_a_tensor_has_twice():
    """A square weight and its input make one factor of n and k, and x x^T one of its rows and columns."""
    sharded("""
square, gram = ctn.Chain("square"), ctn.Chain("gram")
a, b = square.input("x", "f32", (8, 16)), square.weight("w", "f32", (16, 16))
square.output(ctn.contract("mk,nk->mn", a, b, true_f32=True) + a, "f32")
a = gram.input("x", "f32", (8, 16))
gram.output(ctn.contract("mk,nk->mn", a, a, true_f32=True), "f32")
v = randn(16, 16)
for spec in ((), ("i",), (None, "i")):
    y, _ = run(lambda x, w: ctnj.call(square, x, w), put(x, *spec), put(v, *spec))
    close(y, layer(x, v) + x)
    assert spec != ("i",) or y.sharding.spec[0] == "i"
    g, _ = run(jax.grad(lambda x: (ctnj.call(square, x, v) ** 2).sum()), put(x, *spec))
    close(g, jax.grad(lambda x: ((layer(x, v) + x) ** 2).sum())(x))
    close(run(lambda x: ctnj.call(gram, x), put(x, *spec))[0], layer(x, x))
""")


def test_shard_map():
    """Results vary along the axes of the arguments: sums over devices are where JAX has them."""
    sharded("""
out = randn(12, 3)
def loss(f):
    part = lambda x, w, out: jax.lax.psum((f(x, w) @ out).sum(), "i")
    return jax.shard_map(part, mesh=mesh, in_specs=(P("i"), P(), P()), out_specs=P())
ours, theirs = lambda x, w: ctnj.call(product(True, m=4), x, w), lambda x, w: jax.nn.silu(layer(x, w))
for i in range(3):
    close(jax.jit(jax.grad(loss(ours), i))(x, w, out), jax.grad(loss(theirs), i)(x, w, out))
y = jax.jit(jax.shard_map(ours, mesh=mesh, in_specs=(P("i"), P()), out_specs=P("i")))(x, w)
close(y, theirs(x, w))
try:
    jax.jit(jax.shard_map(ours, mesh=mesh, in_specs=(P("i"), P()), out_specs=P()))(x, w)
    raise AssertionError("rows that differ were taken as equal")
except ValueError as error:
    assert "out_specs" in str(error)
""")


def test_explicit_axes():
    """Types have shardings (`jax.make_mesh`): those of results and gradients follow from the arguments'."""
    sharded("""
jax.set_mesh(jax.make_mesh((2,), ("i",), axis_types=(jax.sharding.AxisType.Explicit,)))
ours = lambda x, w: ctnj.call(product(True), x, w)
theirs = lambda x, w: jax.nn.silu(layer(x, w))
want = jax.grad(lambda x, w: theirs(x, w).sum(), (0, 1))(x, w)
a, b = (jax.device_put(t, P(None, "i")) for t in (x, w))
y, text = run(lambda x, w: ctnj.call(product(False), x, w), a, b)
close(y, layer(x, w))
assert text.count(" all-reduce(") == 1 and "all-gather" not in text, text
for sx, sw, sy in ((P("i"), P(), P("i", None)), (P(), P("i"), P(None, "i"))):
    a, b = jax.device_put(x, sx), jax.device_put(w, sw)
    y, text = run(ours, a, b)
    close(y, theirs(x, w))
    assert jax.typeof(y).sharding.spec == sy and "all-gather" not in text
    assert jax.typeof(ours(a, b)).sharding.spec == sy
    got = jax.jit(jax.grad(lambda x, w: ours(x, w).sum(), (0, 1)))(a, b)
    for g, t, v in zip(got, want, (a, b)):
        close(g, t)
        assert jax.typeof(g) == jax.typeof(v)
""")
