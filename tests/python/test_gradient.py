# SPDX-License-Identifier: Apache-2.0
"""The chains of a gradient, bound by their table of operands, against finite differences of the reference."""

import numpy as np
import pytest
from conftest import make_linear

import catenary as ctn
from catenary import GradientKind as K


def evaluate(gradient, values, run):
    """Runs all chains; `values`: (kind, index) -> array. Returns the same with all that they made."""
    values = dict(values)
    for part in gradient.chains:
        given = [values[o.kind, o.index] for o in part.operands if not o.is_output]
        made = run(part.chain, given)
        outputs = [o for o in part.operands if o.is_output]
        for operand, array in zip(outputs, made if isinstance(made, tuple) else (made,), strict=True):
            values[operand.kind, operand.index] = array
    return values


def inputs_of(chain, seed=3):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(p.shape).astype(np.float32) for p in chain.parameters]


@pytest.mark.parametrize("recompute", ["none", "unstored", "all"])
@pytest.mark.parametrize("on_device", [False, True])
def test_gradients_are_the_slope_of_the_loss(recompute, on_device, engine):
    chain = make_linear(m=5, n=8, k=12, true_f32=True)
    arrays = inputs_of(chain)
    gradient = chain.gradient(recompute=recompute)
    weight = np.random.default_rng(1).standard_normal(chain.outputs[0].shape).astype(np.float32)
    kinds = [K.input, K.weight, K.weight]
    values = {(kind, i): a for i, (kind, a) in enumerate(zip(kinds, arrays, strict=True))}
    values[K.of_output, 0] = weight
    run = (lambda c, a: engine.prepare(c)(*a)) if on_device else (lambda c, a: c.reference(*a))
    found = evaluate(gradient, values, run)
    step = 1e-2
    for i, kind in enumerate([K.of_input, K.of_weight, K.of_weight]):
        direction = np.random.default_rng(i).standard_normal(arrays[i].shape).astype(np.float32)
        moved = [[*arrays[:i], arrays[i] + sign * step * direction, *arrays[i + 1 :]] for sign in (1, -1)]
        up, down = (float((weight.astype(np.float64) * chain.reference(*m)).sum()) for m in moved)
        slope = float((found[kind, i].astype(np.float64) * direction).sum())
        assert slope == pytest.approx((up - down) / (2 * step), rel=2e-2, abs=2e-2)


def test_options_change_the_chains():
    chain = make_linear(dtype=ctn.bf16)
    assert [c.pass_.name for c in chain.gradient().chains] == ["forward", "dgrad", "wgrad"]
    only = chain.gradient(wanted=["w"])
    assert [c.pass_.name for c in only.chains] == ["forward", "backward"] and only.backward[
        0
    ].pass_ == ctn.Pass.backward
    weights = [o for c in chain.gradient(f32_weights=True).chains for o in c.operands if o.kind == K.of_weight]
    assert weights and all(o.dtype == ctn.f32 for o in weights)
    added = [o for c in chain.gradient(accumulate=True).chains for o in c.operands if o.kind == K.accumulator]
    assert {o.index for o in added} == {1, 2} and all(o.parameter_dims is not None for o in added)
    assert chain.gradient(recompute="all").saved_bytes == 0 < chain.gradient().saved_bytes
    budget = chain.gradient(recompute=ctn.Recompute.budget, save_budget=10)
    assert budget.saved_bytes <= 10


def test_wrong_options_are_typed():
    chain = make_linear()
    with pytest.raises(ctn.ArgumentError, match="'q'"):
        chain.gradient(wanted=["q"])
    with pytest.raises(ctn.ArgumentError, match="recompute is 'some'.*budget"):
        chain.gradient(recompute="some")
