# SPDX-License-Identifier: Apache-2.0
"""Modules over layers that do more than x w^T + b: hooks, a forward of their own, adapters, activations."""

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F

import catenary as ctn
import catenary.torch as ct


class Adapter(torch.nn.Module):
    """A layer with weight and bias of another, as those of LoRA have them."""

    def __init__(self, layer):
        super().__init__()
        self.layer, self.more = layer, torch.nn.Linear(layer.in_features, layer.out_features, bias=False)

    weight = property(lambda self: self.layer.weight)
    bias = property(lambda self: self.layer.bias)

    def forward(self, x):
        return self.layer(x) + self.more(x)


def doubled(layer):
    layer.forward = lambda x: 2 * torch.nn.Linear.forward(layer, x)
    return layer


def hooked(layer):
    layer.register_forward_hook(lambda module, arguments, y: 2 * y)
    return layer


CHANGES = {"adapter": Adapter, "forward": doubled, "hook": hooked, "layer with an activation": None}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_projections_that_do_more_are_called(near, calls, change, compiled):
    x = torch.randn(3, 16)
    for name, bias in (("gate_proj", False), ("up_proj", True), ("down_proj", False)):
        module, before = ct.GLU(16, 24, "gelu_tanh", bias=bias), calls[0]
        module(x)
        assert calls[0] - before == 1 + bias
        layer = getattr(module, name)
        setattr(module, name, CHANGES[change](layer) if CHANGES[change] else ct.Linear.of(layer, "relu"))
        run = torch.compile(module, backend="aot_eager", fullgraph=True) if compiled else module
        got = run(x)
        near(got, module.down_proj(F.gelu(module.gate_proj(x), approximate="tanh") * module.up_proj(x)).double())
        module.fuse_wgrad_accumulation = True
        with pytest.raises(ctn.ArgumentError, match=f"{name} has hooks or a forward of its own"):
            module(x)


class Doubled(torch.nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


class OwnLinear(ct.Linear):
    forward = Doubled.forward


class OwnGLU(ct.GLU):
    def forward(self, x):
        return 2 * super().forward(x)


def weight_norm(layer):
    return torch.nn.utils.parametrizations.weight_norm(layer)


def test_a_shared_layer_keeps_its_activation_and_options(near):
    layer = ct.Linear(16, 24, activation="silu", recompute="all", fuse_wgrad_accumulation=True)
    x = torch.randn(3, 16)
    for same in (ct.Linear.of(layer), ct.Linear.of(ct.Linear.of(layer))):
        assert same.weight is layer.weight and torch.equal(same(x), layer(x))
        assert (same.activation, same.recompute, same.fuse_wgrad_accumulation) == ("silu", "all", True)
    assert ct.Linear.of(layer, "relu").activation == "relu" and ct.Linear.of(layer, None).activation is None
    assert ct.Linear.of(torch.nn.Linear(16, 24)).activation is None
    mlp = ct.GLU(16, 24, "gelu", recompute="all", fuse_wgrad_accumulation=True)
    same = ct.GLU.of(mlp)
    assert (same.activation, same.recompute, same.fuse_wgrad_accumulation) == ("gelu", "all", True)
    mlp = ct.GLU(16, 24)
    mlp.up_proj = weight_norm(hooked(mlp.up_proj))
    near(ct.GLU.of(mlp)(x), mlp(x).double())


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: ct.Linear.of(hooked(torch.nn.Linear(8, 4))), "layer has hooks, which its replacement would not call"),
        (lambda: ct.Linear.of(hooked(ct.Linear(8, 4))), "layer has hooks"),
        (lambda: ct.Linear.of(Doubled(8, 4)), "layer has a forward of its own, which its replacement would not call"),
        (lambda: ct.Linear.of(OwnLinear(8, 4)), "layer has a forward of its own"),
        (lambda: ct.Linear.of(doubled(torch.nn.Linear(8, 4))), "layer has a forward of its own"),
        (lambda: ct.Linear.of(weight_norm(torch.nn.Linear(8, 4))), "layer has parametrizations.*: remove them first"),
        (lambda: ct.GLU.of(hooked(ct.GLU(8, 4))), "mlp has hooks"),
        (lambda: ct.GLU.of(OwnGLU(8, 4)), "mlp has a forward of its own"),
        (lambda: ct.GLU.of(doubled(ct.GLU(8, 4))), "mlp has a forward of its own"),
    ],
)
def test_a_layer_that_does_more_is_not_shared(call, sentence):
    with pytest.raises(ctn.ArgumentError, match=sentence):
        call()
