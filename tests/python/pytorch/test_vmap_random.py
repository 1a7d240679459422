# SPDX-License-Identifier: Apache-2.0
"""Random chains under torch.vmap against a call per sample: sizes are equal, so that only labels tell dimensions
apart. Values and gradients, one and two dimensions of samples, at any place of a tensor."""

import os
import random

import pytest

torch = pytest.importorskip("torch")
from conftest import run_python
from torch.func import grad, vmap

import catenary as ctn
import catenary.torch as ct
from catenary.torch import direct, operators, transforms

LABELS = "mnkj"
CHAINS = 30


class Maker:
    """Writes the text of a random chain. The library refuses some of them."""

    def __init__(self, chance):
        self.chance, self.symbol = chance, chance.random() < 0.6
        self.values = {}
        self.parameters, self.lines = [], []

    def text(self):
        for i in range(self.chance.randint(2, 3)):
            labels = self.ordered(self.chance.sample(LABELS, self.chance.randint(1, 3)))
            self.values[f"p{i}"] = labels
            sizes = ", ".join("M" if self.symbol and label == "m" else "4" for label in labels)
            self.parameters.append(f"{self.chance.choice(('input', 'weight'))} p{i}: f32[{sizes}]")
        for i in range(self.chance.randint(1, 5)):
            self.chance.choice((self.contract, self.reduce, self.elementwise, self.elementwise))(f"v{i}")
        outputs = [name for name in self.values if name[0] == "v"][-2:]
        head = f"chain random{'[M in 1..64]' if self.symbol else ''}({', '.join(self.parameters)}) {{"
        return "\n  ".join([head, *self.lines, f"return {', '.join(f'{name}: f32' for name in outputs)}"]) + "\n}"

    def ordered(self, labels):
        """The symbol is the first dimension."""
        return "".join(sorted(labels, key=lambda label: label != "m" or not self.symbol))

    def pick(self):
        return self.chance.choice(list(self.values.items()))

    def contract(self, name):
        (a, first), (b, second) = self.pick(), self.pick()
        summed = [l for l in first if l in second and self.chance.random() < 0.6]
        left = [l for l in dict.fromkeys(first + second) if l not in summed]
        self.chance.shuffle(left)
        if left:
            self.values[name] = self.ordered(left) if self.chance.random() < 0.8 else "".join(left)
            self.lines.append(f'{name} = contract "{first},{second}->{self.values[name]}" f32 ({a}, {b})')

    def reduce(self, name):
        a, labels = self.pick()
        gone = self.chance.choice(labels)
        if len(labels) > 1:
            self.values[name] = labels.replace(gone, "")
            op = self.chance.choice(("sum", "reduce_max"))
            self.lines.append(f'{name} = {op} "{labels}->{self.values[name]}"({a})')

    def elementwise(self, name):
        used = [self.pick(), self.pick()]
        whole = max((labels for _, labels in used), key=len)
        if all(set(labels) <= set(whole) for _, labels in used):
            self.values[name] = whole
            written = [f'{a} @ "{labels}"' if self.chance.random() < 0.6 else a for a, labels in used]
            op = self.chance.choice(("add", "mul", "sub", "max"))
            self.lines.append(f"{name} = {op}({', '.join(written)})")


def chains(chance):
    found = []
    while len(found) < CHAINS:
        try:
            found.append(ctn.Chain.parse(Maker(chance).text()))
        except ctn.Error:
            continue
    return found


def add_samples(chance, tensors, count, needed):
    """Tensors with samples at any place, and where. One of them has samples."""
    dims = [chance.randint(0, t.dim()) if chance.random() < 0.5 else None for t in tensors]
    if needed and all(dim is None for dim in dims):
        dims[0] = 0
    shapes = [t.shape if d is None else (*t.shape[:d], count, *t.shape[d:]) for t, d in zip(tensors, dims, strict=True)]
    return [torch.randn(shape, device=tensors[0].device) for shape in shapes], tuple(dims)


def by_sample(f, tensors, dims, count):
    """f of each sample, which is contiguous and aligned."""
    copy = lambda t: t.clone(memory_format=torch.contiguous_format)
    samples = [
        f(*(t if d is None else copy(t.select(d, i)) for t, d in zip(tensors, dims, strict=True))) for i in range(count)
    ]
    return tuple(torch.stack(parts) for parts in zip(*samples, strict=True))


def check_chains(device, near, seed, gradients):
    """Random chains by vmap and by nested vmap against a call per sample."""
    chance, checked = random.Random(seed), 0
    for chain in chains(chance):
        function = ct.chain(chain, exact=chance.random() < 0.3)
        rows = chance.choice((1, 3, 4))
        shapes = [[rows if size is None else size for size in p.sizes] for p in function.form.inputs]
        samples, outer = chance.choice((1, 3, 4)), 2
        tensors = [torch.randn(shape, device=device) for shape in shapes]

        def values(*tensors, function=function):
            outputs = function(*tensors)
            return outputs if isinstance(outputs, tuple) else (outputs,)

        def of_tensors(*tensors, values=values):
            total = lambda *tensors: sum(y.square().sum() for y in values(*tensors))
            return grad(total, argnums=tuple(range(len(tensors))))(*tensors)

        f = of_tensors if gradients else values
        inner, dims = add_samples(chance, tensors, samples, needed=True)
        try:
            wanted = by_sample(f, inner, dims, samples)
        except (ctn.Error, RuntimeError) as error:  # reduce_max with the slope of a comparison, or no kernel
            assert not isinstance(error, ctn.InternalError)
            assert isinstance(error, ctn.Error) or "[catenary unsupported]" in str(error)
            continue
        for got, y in zip(vmap(f, dims)(*inner), wanted, strict=True):
            near(got, y, factor=8)
        both, outer_dims = add_samples(chance, inner, outer, needed=True)
        nested = vmap(vmap(f, dims), outer_dims)(*both)
        wanted = by_sample(lambda *t, f=f, dims=dims, n=samples: by_sample(f, t, dims, n), both, outer_dims, outer)
        for got, y in zip(nested, wanted, strict=True):
            near(got, y, factor=8)
        checked += 1
    assert checked > CHAINS // 2


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_random_chains(device, near, seed, gradients):
    check_chains(device, near, seed, gradients)


def compiled():
    return {row["chain"] for row in ct.report()}


def run_planned():
    """In a process of its own: the reference takes every chain, so each call is planned for a GPU as well, and refused
    as a GPU does."""
    real, planner, found, refused = operators.dispatch, ctn.Engine(device="sim"), {}, []

    def dispatch(form, inputs, scalars):
        layout = (form.key, *((t.shape, t.stride(), t.data_ptr() % 16) for t in inputs))
        before = compiled() if layout not in found else set()
        outputs = real(form, inputs, scalars)
        for chain in found.setdefault(layout, compiled() - before):
            try:
                planner.explain(ctn.Chain.parse(chain))
            except ctn.UnsupportedError as error:
                refused.append(chain)
                raise RuntimeError(f"{error} [catenary unsupported]") from None
        return outputs

    def near(got, wanted, factor):
        assert torch.allclose(got, wanted, rtol=0, atol=2e-5 * factor * max(wanted.abs().max().item(), 1e-6))

    operators.dispatch, operators._direct = dispatch, direct.none
    torch.manual_seed(0)
    for seed in range(4):
        check_chains(torch.device("cpu"), near, seed, gradients=True)
    assert refused


def test_random_chains_that_a_gpu_refuses():
    folder = os.path.dirname(os.path.abspath(__file__))
    folders = [os.path.dirname(folder), folder]
    code = f"import sys; sys.path[:0] = {folders!r}\nimport test_vmap_random as vmaps; vmaps.run_planned()\n"
    run_python(code, CATENARY_DEVICE="sim")


@pytest.fixture
def kernels(device):
    """Kernels compute the tensors of the device: on the CPU in the simulator."""
    if device.type == "cuda":
        yield
        return
    if torch.cuda.is_available():
        pytest.skip("the GPU is the device of this process, and not the simulator")
    ct.set_host("simulator")
    yield
    ct.set_host("reference")


SUM_OF_THREE = """chain c(input x: f32[2, 3, 2, 4], weight w: f32[4, 4]) {
  y = contract "abck,nk->abcn" f32 (x, w)
  return y: f32
}"""


@pytest.mark.parametrize("exact", [False, True])
def test_gradients_that_no_kernel_sums(device, near, kernels, calls, exact):
    """Samples lie between the dimensions that the gradient of w sums over: no kernel has three loops of a sum."""
    function = ct.chain(SUM_OF_THREE, exact=exact)
    x = torch.randn(2, 2, 3, 3, 2, 4, device=device)  # samples are dimensions 1 and 3
    w = torch.randn(4, 4, device=device)
    of_w = lambda f: grad(lambda x, w: f(x, w).square().sum(), argnums=1)
    dims = ((2, None), (1, None))
    got = vmap(vmap(of_w(function), dims[0]), dims[1])(x, w)
    assert calls[0] == 1 + 2  # a sum for each index of dimension 1
    wanted = vmap(vmap(of_w(lambda x, w: x @ w.t()), dims[0]), dims[1])(x.double(), w.double())
    near(got, wanted, factor=8)


@pytest.mark.parametrize("symbol", [False, True])
def test_gradients_of_all_samples_that_no_kernel_sums(device, near, kernels, monkeypatch, symbol):
    """The gradient of a vmap, by autograd and by grad: the forward has one call, the backward one per sample. With a
    symbol the samples are after the rows."""
    by_sample, asked = transforms._program_by_sample, [0]

    def count(*arguments):
        asked[0] += 1
        return by_sample(*arguments)

    monkeypatch.setattr(transforms, "_program_by_sample", count)
    text = SUM_OF_THREE.replace("return y: f32", "z = silu(y)\n  return z: f32")
    if symbol:
        text = text.replace("chain c(", "chain c[M in 1..64](").replace("x: f32[2", "x: f32[M")
        x, w = torch.randn(2, 3, 5, 2, 4, device=device), torch.randn(5, 4, 4, device=device)
        x, dims = x.transpose(1, 2), (1, 0)  # samples are between the other dimensions in memory
    else:
        x, w, dims = torch.randn(2, 5, 3, 2, 4, device=device), torch.randn(4, 4, device=device), (1, None)
    function, plain = ct.chain(text, exact=False), lambda x, w: torch.nn.functional.silu(x @ w.t())
    found = []
    for f, tensors in ((function, (x, w)), (plain, (x.double(), w.double()))):
        total = lambda *tensors, f=f: vmap(f, dims, 2)(*tensors).square().sum()
        leaves = [t.detach().requires_grad_() for t in tensors]
        total(*leaves).backward()
        found.append([*(leaf.grad for leaf in leaves), *grad(total, argnums=(0, 1))(*tensors)])
    assert asked[0] == 2
    for got, wanted in zip(*found, strict=True):
        near(got, wanted, factor=8)


def test_other_failures_are_not_repeated_by_sample(device, monkeypatch):
    """Only a chain that no kernel supports is computed by sample."""
    function, seen = ct.chain(SUM_OF_THREE, exact=False), []

    def fail(form, inputs, scalars):
        seen.append(form.name)
        raise RuntimeError("out of memory: the call may be repeated [catenary out_of_memory]")

    monkeypatch.setattr(operators, "dispatch", fail)
    with pytest.raises(RuntimeError, match="out_of_memory"):
        vmap(function, (0, None))(torch.randn(5, 2, 3, 2, 4, device=device), torch.randn(4, 4, device=device))
    assert len(seen) == 1
