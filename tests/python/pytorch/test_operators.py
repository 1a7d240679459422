# SPDX-License-Identifier: Apache-2.0
"""The operators: results, opcheck, errors in one sentence, threads, both implementations, torch's own headers."""

import re
import threading

import pytest

torch = pytest.importorskip("torch")

from conftest import ROOT, run_python

import catenary as ctn
import catenary.torch as ct
from catenary.torch import operators

LINEAR = """chain l[M in 1..64](input x: f32[M, 8], weight w: f32[24, 8], scalar s: f32) {
  c = contract "mk,nk->mn" f32 (x, w)
  y = scale(silu(c), s)
  return y: f32
}"""
TWO = """chain two(input x: f32[4, 8], weight w: f32[6, 8]) {
  c = contract "mk,nk->mn" f32 (x, w)
  y = exp(c)
  return c: f32, y: f32 strides[1, 4]
}"""
ADD = "chain add(input x: f32[4], input y: f32[4]) { z = add(x, y) return z: f32 inplace y }"


def form_of(text, exact=True):
    return operators.add(ctn.Chain.parse(text), exact)


def silu_product(x, w, s=1.0):
    return torch.nn.functional.silu(x.double() @ w.double().t()) * s


def test_exact_layouts(device, near):
    x, w = torch.randn(5, 8, device=device), torch.randn(24, 8, device=device)
    near(torch.ops.catenary.run1([x, w], form_of(LINEAR).key, [2.0]), silu_product(x, w, 2))


@pytest.mark.parametrize("shape", [(3, 16), (2, 3, 16), (2, 1, 3, 16), (0, 16), (1, 16)])
def test_layouts_from_tensors(device, near, shape):
    x, w = torch.randn(shape, device=device), torch.randn(40, 16, device=device)
    y = torch.ops.catenary.run1([x, w], form_of(LINEAR, exact=False).key, [1.0])
    assert y.is_contiguous()
    near(y, silu_product(x, w))


def test_strides_that_do_not_merge(device, near):
    x = torch.randn(3, 2, 16, device=device).transpose(0, 1)
    w = torch.randn(16, 40, device=device).t()
    near(torch.ops.catenary.run1([x, w], form_of(LINEAR, exact=False).key, [1.0]), silu_product(x, w))


def test_a_symbol_that_only_outputs_have_first(device, near):
    """Then no argument has leading dimensions, and the symbol is the size of one dimension."""
    text = """chain last[M in 1..64](input x: f32[3, M] strides[1, 3], weight w: f32[3]) {
      y = contract "jm,j->m" f32 (x, w)
      return y: f32
    }"""
    for rows in (1, 2, 70):
        x, w = torch.randn(rows, 3, device=device).t(), torch.randn(3, device=device)
        y = torch.ops.catenary.run1([x, w], form_of(text, exact=False).key)
        near(y, w.double() @ x.double())
        fake = torch.ops.catenary.run1([x.to("meta"), w.to("meta")], form_of(text, exact=False).key)
        assert fake.shape == y.shape


def test_many_sizes_share_kernels(device, near):
    form = form_of(LINEAR.replace("chain l", "chain many"), exact=False)
    w = torch.randn(32, 8, device=device)
    for m in range(70, 90):
        x = torch.randn(m, 8, device=device)
        near(torch.ops.catenary.run1([x, w], form.key, [1.0]), silu_product(x, w))
    chains = [row["chain"] for row in ct.report() if row["key"] == form.key and "f32[32, 8]" in row["chain"]]
    assert any("[M in 65..128]" in chain for chain in chains)


def test_several_outputs_with_strides(device, near):
    x, w = torch.randn(4, 8, device=device), torch.randn(6, 8, device=device)
    c, y = torch.ops.catenary.run2([x, w], form_of(TWO).key)
    assert y.stride() == (1, 4)
    near(c, x.double() @ w.double().t())
    near(y, (x.double() @ w.double().t()).exp())


def test_run_out_and_in_place(device, near):
    x, y = torch.randn(4, device=device), torch.randn(4, device=device)
    wanted = x.double() + y.double()
    torch.ops.catenary.run_out([x], [y], form_of(ADD).key)
    near(y, wanted)
    out = torch.empty(5, 24, device=device)
    a, w = torch.randn(5, 8, device=device), torch.randn(24, 8, device=device)
    torch.ops.catenary.run_out([a, w], [out], form_of(LINEAR).key, [1.0])
    near(out, silu_product(a, w))


def test_opcheck(device):
    x, w = torch.randn(5, 8, device=device), torch.randn(24, 8, device=device)
    torch.library.opcheck(torch.ops.catenary.run1.default, ([x, w], form_of(LINEAR).key, [1.0]))
    torch.library.opcheck(torch.ops.catenary.run1.default, ([x, w], form_of(LINEAR, exact=False).key, [1.0]))
    torch.library.opcheck(torch.ops.catenary.run2.default, ([x[:4], w[:6]], form_of(TWO).key))
    out = torch.empty(5, 24, device=device)
    torch.library.opcheck(torch.ops.catenary.run_out.default, ([x, w], [out], form_of(LINEAR).key, [1.0]))


@pytest.mark.parametrize(
    "change, sentence",
    [
        (lambda x, w: ([x.double(), w], [1.0]), "dtype that no chain takes"),
        (lambda x, w: ([x.half(), w], [1.0]), "'x' is f16, and the chain takes f32"),
        (lambda x, w: ([x.t().contiguous().t(), w], [1.0]), "has strides"),
        (lambda x, w: ([x[:, :4], w], [1.0]), "has sizes"),
        (lambda x, w: ([x.repeat(20, 1), w], [1.0]), "M = 100"),
        (lambda x, w: ([x], [1.0]), "takes 2 tensors, got 1"),
        (lambda x, w: ([x, w], []), "takes 1 scalar, got 0"),
        (lambda x, w: ([x[0], w], [1.0]), "dimensions"),
    ],
)
def test_wrong_arguments(device, change, sentence):
    inputs, scalars = change(torch.randn(5, 8, device=device), torch.randn(24, 8, device=device))
    with pytest.raises(RuntimeError if ct.IMPLEMENTATION == "shim" else ctn.Error, match=re.escape(sentence)) as caught:
        torch.ops.catenary.run1(inputs, form_of(LINEAR).key, scalars)
    assert str(caught.value).count("\n") == 0 or "\n" in sentence


@pytest.mark.parametrize("on_meta", [0, 1])
def test_meta_tensors_beside_others(device, on_meta):
    tensors = [torch.randn(5, 8, device=device), torch.randn(24, 8, device=device)]
    tensors[on_meta] = tensors[on_meta].to("meta")
    with pytest.raises(Exception, match="on the meta device and on others: load the weights"):
        torch.ops.catenary.run1(tensors, form_of(LINEAR).key, [1.0])
    with pytest.raises(Exception, match="on the meta device and on others"):
        ct.linear(*tensors)
    with pytest.raises(Exception, match="on the meta device and on others"):
        torch.ops.catenary.run_out(tensors, [torch.empty(5, 24, device=device)], form_of(LINEAR).key, [1.0])


def test_an_unknown_key():
    with pytest.raises(Exception, match="no chain has the key 77"):
        torch.ops.catenary.run1([torch.randn(2)], 77)


def test_a_chain_in_place_needs_run_out():
    with pytest.raises(Exception, match="call run_out"):
        torch.ops.catenary.run1([torch.randn(4)], form_of(ADD).key)


def test_two_devices():
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU: the fake library of torch_operators_test covers the sentence")
    x, w = torch.randn(5, 8, device="cuda"), torch.randn(24, 8)
    with pytest.raises(RuntimeError, match="another device"):
        torch.ops.catenary.run1([x, w], form_of(LINEAR).key, [1.0])


def test_threads(device, near):
    form = form_of(LINEAR.replace("chain l", "chain threads").replace("24", "28"), exact=False)
    w = torch.randn(28, 8, device=device)
    inputs = [torch.randn(m, 8, device=device) for m in range(1, 13)]
    results = [None] * len(inputs)

    def work(i):
        for _ in range(5):
            results[i] = torch.ops.catenary.run1([inputs[i], w], form.key, [1.0])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for x, y in zip(inputs, results, strict=False):
        near(y, silu_product(x, w))


def test_capture():
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    form = form_of(LINEAR.replace("24", "88"), exact=False)
    x, w = torch.randn(4, 8, device="cuda"), torch.randn(88, 8, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="captur"), torch.cuda.graph(graph):
        torch.ops.catenary.run1([x, w], form.key, [1.0])
    torch.cuda.synchronize()
    torch.ops.catenary.run1([x, w], form.key, [1.0])  # the first call compiles
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = torch.ops.catenary.run1([x, w], form.key, [1.0])
    x.copy_(torch.randn(4, 8))
    graph.replay()
    assert torch.allclose(y.double(), silu_product(x, w), atol=1e-4)


def test_the_python_implementation():
    code = (
        "import torch, catenary.torch as ct\n"
        "assert ct.IMPLEMENTATION == 'python'\n"
        "x, w, b = torch.randn(2, 3, 8, requires_grad=True), torch.randn(16, 8, requires_grad=True), torch.randn(16)\n"
        "y = ct.linear(x.transpose(0, 1), w, b, 'silu')\n"
        "z = torch.nn.functional.silu(torch.nn.functional.linear(x.transpose(0, 1), w, b))\n"
        "assert torch.allclose(y, z, atol=1e-5)\n"
        "assert torch.allclose(torch.autograd.grad(y.sum(), w)[0], torch.autograd.grad(z.sum(), w)[0], atol=1e-4)\n"
    )
    run_python(code, CATENARY_TORCH_OPERATORS="python")


def test_the_simulator_computes_the_same():
    code = (
        "import torch, catenary.torch as ct\n"
        "torch.manual_seed(0)\n"
        "x, w, b = torch.randn(3, 32), torch.randn(16, 32), torch.randn(16)\n"
        "wanted = ct.linear(x, w, b, 'silu')\n"
        "ct.set_host('simulator')\n"
        "got = ct.linear(x, w, b, 'silu')\n"
        "assert torch.allclose(got, wanted, atol=1e-4), (got - wanted).abs().max()\n"
        "assert any(row['place'] == 'device' for row in ct.report())\n"
    )
    run_python(code, CATENARY_DEVICE="sim")


def test_prototypes_match_the_headers():
    """Every row of shim.def against the declaration in torch's headers, with handles as pointers."""
    folder = torch.utils.cpp_extension.include_paths()[0] if hasattr(torch.utils, "cpp_extension") else None
    if folder is None:
        from torch.utils.cpp_extension import include_paths

        folder = include_paths()[0]
    headers = ""
    for name in ("torch/csrc/inductor/aoti_torch/c/shim.h", "torch/csrc/stable/c/shim.h"):
        with open(f"{folder}/{name}") as file:
            headers += re.sub(r"//[^\n]*", "", file.read())
    rows = (ROOT / "adapters/torch/shim.def").read_text()
    rows = re.sub(r"//[^\n]*", "", rows)
    found = re.findall(r"CATENARY_TORCH\((\w+),\s*(\w+),\s*(\w+),\s*\(([^()]*)\)\)", rows)
    assert len(found) > 20
    for name, _, result, parameters in found:
        declared = re.search(rf"(\w+)\s+{name}\(((?:[^()]|\([^()]*\))*)\);", headers)
        assert declared, name
        assert _type(result) == _type(declared[1]), name
        assert _types(parameters) == _types(declared[2]), name


_SAME = {
    "AOTITorchError": "int32", "Status": "int32", "int32_t": "int32", "uint32_t": "uint32", "int64_t": "int64",
    "uint64_t": "uint64", "size_t": "size", "StableIValue": "uint64", "Boxed": "uint64", "AtenTensorHandle": "tensor",
    "TensorHandle": "tensor", "StableListHandle": "list", "ListHandle": "list", "TorchLibraryHandle": "library",
    "LibraryHandle": "library", "char": "char", "void": "void", "bool": "bool", "BoxedKernel": "kernel",
}  # fmt: skip


def _type(text):
    text = text.replace("const", "").strip()
    stars = text.count("*")
    return _SAME[re.findall(r"\w+", text)[0]] + "*" * stars


def _types(parameters):
    parameters = re.sub(r"void\s*\(\s*\*\s*\w*\)\s*\([^()]*\)", "BoxedKernel kernel", parameters)
    return [
        _type(p.rsplit(None, 1)[0] + "*" * p.rsplit(None, 1)[1].count("*")) for p in parameters.split(",") if p.strip()
    ]
