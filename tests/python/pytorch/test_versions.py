# SPDX-License-Identifier: Apache-2.0
"""Calls that overwrite a tensor count a version of it, so that autograd refuses a backward that reads what it saved
before; results are those of tensors without versions too."""

import pytest

torch = pytest.importorskip("torch")
from conftest import run_python

import catenary as ctn
import catenary.torch as ct
from catenary.torch import operators

LINEAR = """chain layer(input x: f32[2, 4], weight w: f32[3, 4]) {
  y = contract "mk,nk->mn" f32 (x, w)
  return y: f32
}"""
ADD = "chain add(input a: f32[4], input b: f32[4]) {\n  c = add(a, b)\n  return c: f32 inplace b\n}"


def executed(text, out, tensors, in_place):
    ctn.Engine().prepare(ctn.Chain.parse(text))(*tensors, *([out] if in_place else []), out=None if in_place else out)


def by_samples(form, out, tensors):
    shared = lambda out, *tensors: (operators.run_out(form, tensors, (out,)), out)[1]
    torch.vmap(shared, (0, *(None for _ in tensors)))(out.unsqueeze(0), *tensors)


# Each writes `out` from `tensors`.
WAYS = {
    "run_out": lambda form, out, tensors: operators.run_out(form, tensors, [out]),
    "operator": lambda form, out, tensors: torch.ops.catenary.run_out([*tensors], [out], form.key),
    "vmap": by_samples,
    "executable": lambda form, out, tensors: executed(form.text, out, tensors, form.in_place),
}


def backward_after(write, out, first):
    """A backward that reads `out` as it was before the write, or after it."""
    w = torch.ones_like(out, requires_grad=True)
    if first:
        write()
    y = (w * out).sum()
    if not first:
        write()
    y.backward()
    return w.grad


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("text", [LINEAR, ADD], ids=["output", "in place"])
def test_versions(device, text, way):
    if way == "executable" and device.type == "cpu" and torch.cuda.is_available():
        pytest.skip("CPU tensors are copied to the GPU, as the simulator's are not")
    form = operators.add(ctn.Chain.parse(text))
    torch.manual_seed(0)
    shapes = [p.sizes for p in form.inputs if p.overwritten_by < 0]
    tensors = tuple(torch.randn(shape, device=device) for shape in shapes)
    for _ in range(3):  # from the second call on without the dispatcher
        out = torch.zeros(form.outputs[0].sizes, device=device)
        write = lambda out=out: WAYS[way](form, out, tensors)
        before = [t._version for t in (out, *tensors)]
        after_it = backward_after(write, out, first=True)
        assert out._version > before[0] and [t._version for t in tensors] == before[1:]
        wanted = tensors[0] @ tensors[1].t() if text == LINEAR else tensors[0]
        assert torch.allclose(out, wanted, atol=1e-5) and torch.equal(after_it, out)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            backward_after(write, out, first=False)


def test_views_and_copies(device):
    """A view has the version of its base, and tensors of inference mode have none."""
    form = operators.add(ctn.Chain.parse(LINEAR))
    x, w = torch.randn(2, 4, device=device), torch.randn(3, 4, device=device)
    base = torch.zeros(5, 8, device=device)
    view = base[1, :6].view(2, 3)  # at a multiple of 16 bytes
    for write in (operators.run_out, lambda f, i, o: torch.ops.catenary.run_out([*i], [*o], f.key)):
        before = base._version
        write(form, (x, w), (view,))
        assert base._version > before and torch.allclose(view, x @ w.t(), atol=1e-5)
        with torch.inference_mode():
            out = torch.zeros(2, 3, device=device)
            write(form, (x, w), (out,))
            assert torch.equal(out, view)


def test_accumulated_gradients(device):
    """main_grad is overwritten in the backward."""
    layer = ct.Linear(4, 3, bias=False, fuse_wgrad_accumulation=True, device=device)
    layer.weight.main_grad = torch.zeros_like(layer.weight)
    y = (torch.ones_like(layer.weight, requires_grad=True) * layer.weight.main_grad).sum()
    layer(torch.randn(2, 4, device=device)).sum().backward()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_operators_in_python():
    code = f"""
import torch, catenary as ctn, catenary.torch as ct
from catenary.torch import operators
assert ct.IMPLEMENTATION == "python"
form = operators.add(ctn.Chain.parse({ADD!r}))
a, b, w = torch.ones(4), torch.zeros(4), torch.ones(4, requires_grad=True)
for write in (lambda: operators.run_out(form, (a,), (b,)), lambda: torch.ops.catenary.run_out([a], [b], form.key)):
    y = (w * b).sum()
    write()
    try:
        y.backward()
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)
    else:
        raise SystemExit("no error")
assert torch.equal(b, 2 * a)
"""
    run_python(code, CATENARY_TORCH_OPERATORS="python")
