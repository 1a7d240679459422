# SPDX-License-Identifier: Apache-2.0
"""Every public function of catenary.jax with arguments of other kinds: see kinds.py."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")
from conftest import data, make_linear
from kinds import failures, functions_of

import catenary as ctn
import catenary.jax as ctnj

SCALED = "chain scaled(input x: f32[4, 8], scalar s: f32) {\n  y = scale(x, s)\n  return y: f32\n}"


def gradient_of(chain, *arguments, **named):
    return jax.grad(lambda w: ctnj.call(chain, *arguments[:1], w, *arguments[2:], **named).sum())(arguments[1])


def make_call(function):
    def make():
        arguments = dict(zip(("*x", "*w", "*b"), ([a] for a in data(make_linear())), strict=True))
        return function, {"*chain": [make_linear()], **arguments, "recompute": "none", "save_budget": 0}

    return make


CALLS = {
    "call": make_call(ctnj.call),
    "call with a gradient": make_call(gradient_of),
    "call with a scalar": lambda: (ctnj.call, {"*chain": [ctn.Chain.parse(SCALED)], "x": np.ones((4, 8), np.float32),
                                               "s": 2.0}),
    "set_host": lambda: (ctnj.set_host, dict(place="reference")),
}  # fmt: skip


def test_every_function_is_called():
    assert functions_of(ctnj) - set(CALLS) == set()


@pytest.mark.parametrize("name", CALLS)
def test_kinds_of_arguments(name):
    found = failures(name, CALLS[name])
    if name == "call with a gradient":  # what jax itself does not differentiate
        found = [line for line in found if "(*w=" not in line]
    assert not found, "\n".join(found)


def test_sentences():
    x, w, b = data(make_linear())
    with pytest.raises(ctn.ArgumentTypeError, match="the chain is 'layer', of type str: pass a catenary.Chain"):
        ctnj.call("layer", x, w, b)
    with pytest.raises(ctn.ArgumentTypeError, match="argument 'w' is 'w', of type str: pass an array"):
        ctnj.call(make_linear(), x, "w", b)
