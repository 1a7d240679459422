# SPDX-License-Identifier: Apache-2.0
"""Calls without the dispatcher: where they are made, what they leave to the dispatcher, with the same results."""

import re
import sys
import threading
import weakref

import pytest

torch = pytest.importorskip("torch")

from conftest import ROOT, run_python
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import catenary as ctn
import catenary.torch as ct
from catenary.torch import direct, forms, functional, operators

TWO = """chain two(input x: f32[4, 8], weight w: f32[6, 8], scalar s: f32) {
  c = contract "mk,nk->mn" f32 (x, w)
  y = scale(c, s)
  return c: f32, y: f32
}"""
ADD = "chain add(input x: f32[4], input y: f32[4]) { z = add(x, y) return z: f32 inplace y }"

pytestmark = pytest.mark.skipif(operators._direct is direct.none, reason="this torch has no direct calls")


class Linear:
    """A layer, its tensors, and results of the operator itself."""

    def __init__(self, device, dtype=torch.bfloat16):
        self.key = forms.linear(operators.NAMES[dtype], True, None, False).form.key
        self.x, self.w, self.b = (torch.randn(s, device=device, dtype=dtype) for s in ((4, 8), (16, 8), (16,)))
        self.tensors = (self.x, self.w, self.b)
        self.wanted = self.by_dispatcher(*self.tensors)
        with torch.no_grad():
            ct.linear(*self.tensors)
            assert torch.equal(self.direct(), self.wanted)

    def by_dispatcher(self, *tensors):
        return torch.ops.catenary.run1.default(list(tensors), self.key)

    def direct(self, *tensors):
        return operators._direct(self.key, tensors or self.tensors)


@pytest.fixture
def layer(device):
    return Linear(device)


@pytest.fixture
def made(monkeypatch):
    """How many direct calls were made."""
    real, count = operators._direct, [0]

    def counting(*arguments):
        result = real(*arguments)
        count[0] += result is not None
        return result

    monkeypatch.setattr(operators, "_direct", counting)
    monkeypatch.setattr(functional, "_direct", counting)
    return count


def test_made_without_gradients(layer, made):
    with torch.no_grad():
        assert torch.equal(ct.linear(*layer.tensors), layer.wanted)
        weight = torch.nn.Parameter(layer.w)
        assert torch.equal(ct.linear(layer.x, weight, layer.b), layer.wanted)
    with torch.inference_mode():
        y = ct.linear(*layer.tensors)
        assert y.is_inference() and torch.equal(y, layer.wanted)
        assert torch.equal(ct.linear(layer.x.clone(), layer.w, layer.b), layer.wanted)
    assert torch.equal(ct.linear(*layer.tensors), layer.wanted)  # no tensor requires a gradient
    assert made[0] == 5


def test_made_inside_of_a_function_with_gradients(layer, made):
    tensors = [tensor.clone().requires_grad_() for tensor in layer.tensors]
    for _ in range(3):
        y = ct.linear(*tensors)
    forward = made[0]
    assert forward >= 2 and y.requires_grad and torch.equal(y, layer.wanted)
    y.float().sum().backward()
    x, w, b = (tensor.detach().double().requires_grad_() for tensor in tensors)
    torch.nn.functional.linear(x, w, b).sum().backward()
    for tensor, wanted in zip(tensors, (x, w, b), strict=True):
        assert torch.allclose(tensor.grad.double(), wanted.grad, rtol=2e-2, atol=2e-2)


def test_several_outputs_scalars_and_given_outputs(device, made):
    form = operators.add(ctn.Chain.parse(TWO))
    x, w = torch.randn(4, 8, device=device), torch.randn(6, 8, device=device)
    wanted = torch.ops.catenary.run2.default([x, w], form.key, [2.5])
    for got, want in zip(operators.run(form, (x, w), (2.5,)), wanted, strict=True):
        assert torch.equal(got, want)
    outs = [torch.zeros(4, 6, device=device) for _ in range(2)]
    operators.run_out(form, (x, w), outs, (2.5,))
    assert all(map(torch.equal, outs, wanted))
    add = operators.add(ctn.Chain.parse(ADD))
    a, b = torch.randn(4, device=device), torch.randn(4, device=device)
    c = b.clone()
    torch.ops.catenary.run_out.default([a], [c], add.key)
    assert torch.equal(c, a + b)
    operators.run_out(add, (a,), (b,))
    assert torch.equal(b, c) and made[0] == 3


@pytest.mark.parametrize("shape", [(1, 8), (2, 3, 8), (0, 8)])
def test_shapes(layer, shape):
    x = torch.randn(shape, device=layer.x.device, dtype=torch.bfloat16)
    wanted = layer.by_dispatcher(x, layer.w, layer.b)
    got = layer.direct(x, layer.w, layer.b)
    assert got.shape == wanted.shape and got.stride() == wanted.stride() and torch.equal(got, wanted)


def test_keeps_no_reference(layer):
    outs = (torch.empty_like(layer.wanted),)
    before = [sys.getrefcount(t) for t in (*layer.tensors, outs, outs[0], torch.bfloat16)]
    for _ in range(100):
        layer.direct()
        layer.direct(layer.x, layer.x, layer.x)
        operators._direct(layer.key, layer.tensors, (), outs)
    assert [sys.getrefcount(t) for t in (*layer.tensors, outs, outs[0], torch.bfloat16)] == before
    output = weakref.ref(layer.direct())
    assert output() is None


# What the dispatcher, or torch before it, does beside the kernel. Each test fails for a direct call.


def test_dispatch_mode_sees_the_operator(layer):
    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), named=None):
            seen.append(function)
            return function(*arguments, **(named or {}))

    seen = []
    with torch.no_grad(), Log():
        ct.linear(*layer.tensors)
    assert torch.ops.catenary.run1.default in seen


def test_function_mode_sees_the_operator(layer):
    class Log(TorchFunctionMode):
        def __torch_function__(self, function, types, arguments=(), named=None):
            seen.append(str(function))
            return function(*arguments, **(named or {}))

    seen = []
    with torch.no_grad(), Log():
        ct.linear(*layer.tensors)
    assert any("run1" in name for name in seen)


def test_observer_sees_the_operator(layer, tmp_path):
    """By the callbacks that a profiler has too. Where there is a GPU, torch.profiler attaches CUPTI to the process,
    for its CPU activities too: it has a process of its own."""
    observer = torch.profiler.ExecutionTraceObserver()
    observer.register_callback(str(tmp_path / "trace.json"))
    with torch.no_grad():
        observer.start()
        ct.linear(*layer.tensors)
        observer.stop()
    observer.unregister_callback()
    assert '"catenary::run1"' in (tmp_path / "trace.json").read_text()


def test_profiler_sees_the_operator():
    code = """
import torch, catenary.torch as ct
from torch.profiler import ProfilerActivity, profile
tensors = [torch.randn(s, dtype=torch.bfloat16) for s in ((4, 8), (16, 8), (16,))]
with torch.no_grad():
    for _ in range(2):
        ct.linear(*tensors)
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        ct.linear(*tensors)
assert any(event.key == "catenary::run1" for event in seen.key_averages())
"""
    run_python(code, CUDA_VISIBLE_DEVICES="")


class Logged(torch.Tensor):
    seen = 0

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), named=None):
        Logged.seen += "run1" in str(function)
        return super().__torch_function__(function, types, arguments, named or {})


@pytest.mark.parametrize("place", [0, 1, 2])
def test_subclass_sees_the_operator(layer, place):
    tensors = list(layer.tensors)
    tensors[place] = tensors[place].as_subclass(Logged)
    Logged.seen = 0
    with torch.no_grad():
        y = ct.linear(*tensors)
    assert Logged.seen == 1 and type(y) is Logged and torch.equal(y.as_subclass(torch.Tensor), layer.wanted)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_negative_views(layer, place):
    tensors = list(layer.tensors)
    tensors[place] = -tensors[place]
    wanted = layer.by_dispatcher(*tensors)
    tensors[place] = torch._neg_view(layer.tensors[place])
    with torch.no_grad():
        assert torch.equal(ct.linear(*tensors), wanted)


def test_tensors_of_zeros_without_memory(layer):
    x = torch._efficientzerotensor(layer.x.shape, dtype=layer.x.dtype, device=layer.x.device)
    with torch.no_grad():
        assert layer.direct(x, layer.w, layer.b) is None
        assert torch.equal(ct.linear(x, layer.w, layer.b), layer.b.expand(4, 16))


def test_outputs_that_are_copied_when_written(layer):
    base, form = torch.zeros_like(layer.wanted), operators.form_of(layer.key)
    for _ in range(3):
        out = torch._lazy_clone(base)
        operators.run_out(form, layer.tensors, (out,))
        assert torch.equal(out, layer.wanted) and not base.any()


def test_negative_view_as_output_is_refused(layer):
    form = operators.form_of(layer.key)
    with pytest.raises(RuntimeError, match="negation inputs"):
        operators.run_out(form, layer.tensors, (torch._neg_view(torch.zeros_like(layer.wanted)),))


@pytest.mark.filterwarnings("ignore:Named tensors")
def test_names_are_refused(layer):
    with torch.no_grad(), pytest.raises(RuntimeError, match="named tensors"):
        ct.linear(layer.x.rename("m", "k"), layer.w, layer.b)


def test_gradients_of_an_operator_are_not_lost(layer):
    x = layer.x.clone().requires_grad_()
    form = operators.form_of(layer.key)
    assert operators.run(form, (x, layer.w, layer.b))[0].requires_grad  # the dispatcher's, which has no formula
    assert operators.run_one(layer.key, (x, layer.w, layer.b)).requires_grad
    out, leaf = torch.zeros_like(layer.wanted), torch.zeros_like(layer.wanted).requires_grad_()
    for tensors, outs in (((x, layer.w, layer.b), (out,)), (layer.tensors, (leaf,))):
        with pytest.raises(ctn.ArgumentError, match="is called as an operator, which has no gradient"):
            operators.run_out(form, tensors, outs)
        with torch.no_grad():
            operators.run_out(form, tensors, outs)
            assert torch.equal(outs[0], layer.wanted)
    assert ct.linear(x, layer.w, layer.b).grad_fn is not None


def test_autocast_gives_its_dtype(device):
    layer = Linear(device, torch.float16)
    with torch.no_grad(), torch.autocast(device.type, dtype=torch.bfloat16):
        assert ct.linear(*layer.tensors).dtype == torch.bfloat16


def test_vmap_calls_once_for_all_samples(layer, made):
    xs = torch.randn(3, 4, 8, device=layer.x.device, dtype=torch.bfloat16)
    wanted = layer.by_dispatcher(xs, layer.w, layer.b)
    with torch.no_grad():
        y = torch.vmap(lambda x: ct.linear(x, layer.w, layer.b))(xs)
    assert torch.equal(y, wanted) and made[0] == 1


def test_other_transforms_of_functorch(layer):
    def f(x):
        seen.append(layer.direct())  # plain tensors inside of a transform
        return x.sum()

    seen = []
    torch.func.grad(f)(layer.x.float())
    assert seen == [None]


def test_fake_tensors(layer):
    from torch._subclasses import FakeTensorMode

    with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True) as mode:
        x = mode.from_tensor(layer.x)
        assert type(ct.linear(x, layer.w, layer.b)).__name__ == "FakeTensor"


def test_traces_and_graphs_have_the_operator(layer):
    from torch.fx.experimental.proxy_tensor import make_fx

    def f(x):
        return ct.linear(x, layer.w, layer.b)

    class Model(torch.nn.Module):
        def forward(self, x):
            return f(x)

    compiled = torch.compile(f, fullgraph=True, backend="eager")
    with torch.no_grad():
        assert torch.equal(compiled(layer.x), layer.wanted)
        graphs = [make_fx(f)(layer.x).graph]
        graphs += [torch.export.export(Model(), (layer.x,), strict=strict).graph for strict in (True, False)]
        traced = torch.jit.trace(f, layer.x)
    assert all("catenary.run1" in str(graph) for graph in graphs)
    assert "catenary::run1" in str(traced.graph) and torch.equal(traced(-layer.x), f(-layer.x))


def test_rows_that_do_not_merge_are_copied(layer):
    x = torch.randn(3, 2, 8, device=layer.x.device, dtype=torch.bfloat16).transpose(0, 1)
    wanted = layer.by_dispatcher(x.contiguous(), layer.w, layer.b)
    with torch.no_grad():
        for _ in range(2):
            assert torch.equal(ct.linear(x, layer.w, layer.b), wanted)


def test_errors_are_those_of_the_operators(layer):
    form = operators.form_of(layer.key)
    x, w, b = layer.tensors
    out = torch.empty_like(layer.wanted)
    inputs = [(x, w), (x, w, b, b), (x, w.view(torch.int16), b), (x.double(), w, b), (x, w[:, :4], b)]
    calls = [(tensors, (out,)) for tensors in inputs]
    calls += [(layer.tensors, (out[:2],)), (layer.tensors, (out.float(),)), (layer.tensors, ())]
    if x.is_cuda:  # a launch refuses what the reference computes
        calls += [(layer.tensors, (w[:8].view(4, 16),)), ((x.cpu(), w, b), (out,))]
    for tensors, outs in calls:
        sentences = []
        for _ in range(2):
            with pytest.raises((RuntimeError, NotImplementedError)) as caught:
                torch.ops.catenary.run_out.default(list(tensors), list(outs), layer.key)
            sentences.append(str(caught.value))
            with pytest.raises((RuntimeError, NotImplementedError)) as caught:
                operators.run_out(form, tensors, outs)
            sentences.append(str(caught.value))
        assert len(set(sentences)) == 1, sentences


def test_threads(layer):
    def work():
        for _ in range(50):
            results.append(torch.equal(layer.direct(), layer.wanted))

    layer.direct()
    results = []
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 200 and all(results)


def test_other_threads_run_meanwhile():
    """The reference takes long for this product; the GIL is released."""
    layer = Linear(torch.device("cpu"))
    x, w, b = (torch.randn(s, dtype=torch.bfloat16) for s in ((512, 512), (512, 512), (512,)))
    layer.by_dispatcher(x, w, b)
    started, ended, seen = threading.Event(), threading.Event(), []

    def call():
        started.set()
        seen.append(layer.direct(x, w, b) is not None)
        ended.set()

    thread = threading.Thread(target=call)
    thread.start()
    started.wait()
    seen.append(ended.wait(0.001))
    thread.join()
    assert seen == [False, True]


def test_thread_that_outlives_the_interpreter():
    """When the call ends, Python ends its thread, which then has no GIL to give references up with."""
    code = """
import sys, threading, time, torch
from catenary.torch import forms, operators
key = forms.linear("bf16", True, None, False).form.key
tensors = tuple(torch.randn(s, dtype=torch.bfloat16) for s in ((2048, 1024), (1024, 1024), (1024,)))
torch.ops.catenary.run1.default(list(tensors), key)
outputs, started = [], threading.Event()
def call():
    started.set()
    outputs.append(operators._direct(key, tensors))
class Last:  # of what the interpreter ends: the call ends meanwhile
    def __del__(self, sleep=time.sleep):
        sleep(2)
sys.modules["last"] = Last()
threading.Thread(target=call, daemon=True).start()
started.wait()
time.sleep(0.05)
assert not outputs
"""
    run_python(code)


def test_environment_turns_them_off():
    code = "import catenary.torch as ct\nfrom catenary.torch import direct, operators\n"
    for value in ("dispatcher", "python"):
        run_python(code + "assert operators._direct is direct.none\n", CATENARY_TORCH_OPERATORS=value)
    run_python(code + "assert ct.IMPLEMENTATION == 'shim'\n", CATENARY_TORCH_OPERATORS="dispatcher")


@pytest.mark.parametrize("name", ["TensorGuards", "_empty_strided_cpu"])
def test_a_torch_that_lacks_something(monkeypatch, name):
    assert direct.make() is operators._direct
    monkeypatch.delattr(torch._C._dynamo.guards, name)
    assert direct.make() is direct.none


def test_guards_that_tell_nothing_apart(monkeypatch):
    class Guards:
        def check(self, *tensors):
            return True

    monkeypatch.setattr(direct, "_guards", lambda tensors: Guards())
    assert direct.make() is direct.none


def test_exchange_api_is_that_of_the_header():
    from torch.utils.cpp_extension import include_paths

    with open(f"{include_paths()[0]}/ATen/dlpack.h") as file:
        header = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    fields = re.findall(r"(\w+);", re.search(r"struct DLPackExchangeAPI \{(.*?)\}", header, re.S)[1])
    assert fields == [
        "header", "managed_tensor_allocator", "managed_tensor_from_py_object_no_sync",
        "managed_tensor_to_py_object_no_sync", "dltensor_from_py_object_no_sync", "current_work_stream",
    ]  # fmt: skip
    own = (ROOT / "adapters/torch/direct.cpp").read_text()
    struct = re.search(r"struct Exchange \{(.*?)\n\};", own, re.S)[1]
    names = re.findall(r"(?:\(\*)?(\w+)(?:\)\([^)]*\))?;", struct.replace("major, minor", "minor"))
    assert names == ["minor", "older", "allocate", "from_object", "to_object", "view", "current_stream"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_streams_and_graphs():
    layer = Linear(torch.device("cuda"))
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.no_grad(), torch.cuda.stream(stream):
        y = layer.direct()
    torch.cuda.current_stream().wait_stream(stream)
    assert torch.equal(y, layer.wanted)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        y = layer.direct()
    assert y is not None
    layer.x.neg_()
    graph.replay()
    assert torch.equal(y, layer.by_dispatcher(*layer.tensors))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_workspace_is_given_up(made):
    x, w_gate, w_up = (torch.randn(n, 64, device="cuda", dtype=torch.bfloat16) for n in (16, 96, 96))
    w_down = torch.randn(64, 96, device="cuda", dtype=torch.bfloat16)
    with torch.no_grad():
        wanted = ct.glu_mlp(x, w_gate, w_up, w_down)  # its inner rows are in the workspace
        before, made[0] = torch.cuda.memory_allocated(), 0
        for _ in range(3):
            assert torch.equal(ct.glu_mlp(x, w_gate, w_up, w_down), wanted)
    assert made[0] == 3 and torch.cuda.memory_allocated() == before


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_tensors_on_another_than_the_current_gpu():
    with torch.cuda.device(1):
        layer = Linear(torch.device("cuda:1"))
    with torch.cuda.device(0), torch.no_grad():
        assert layer.direct() is None
        y = ct.linear(*layer.tensors)
    assert y.device.index == 1 and torch.equal(y, layer.wanted)
