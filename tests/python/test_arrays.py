# SPDX-License-Identifier: Apache-2.0
"""Arrays of other libraries as arguments and outputs: layouts, DLPack, __cuda_array_interface__, read-only memory."""

import ctypes

import numpy as np
import pytest
from conftest import data

import catenary as ctn
from catenary import dlpack
from catenary._native import lib


@pytest.fixture(autouse=True)
def device(engine):
    """Chosen before the first Array is made: the simulator where there is no GPU."""
    return engine.device


SOURCES = {
    "backwards": lambda a: a[::-1],
    "columns backwards": lambda a: a[:, ::-1],
    "one column backwards": lambda a: a[:, 2:3][::-1],
    "both, with gaps": lambda a: a[::-2, ::-3],
    "backwards, broadcast": lambda a: np.broadcast_to(a[0, ::-1], (4, 6)),
    "none backwards": lambda a: a[:0, ::-1],
    "one backwards": lambda a: a[:1][::-1],
    "broadcast": lambda a: np.broadcast_to(a[0], (4, 6)),
    "transposed": lambda a: a.T,
    "gaps": lambda a: a[::2, ::3],
}


@pytest.mark.parametrize("dtype", ["f4", "f2", "i1"])
@pytest.mark.parametrize("source", SOURCES)
def test_an_array_is_a_copy_of_any_layout(source, dtype):
    layout = SOURCES[source]
    # The memory has elements before and after the array, which are not those of the copy.
    host = layout(np.arange(100, dtype=dtype)[20:44].reshape(4, 6))
    copy = ctn.Array.of(host)
    assert copy.shape == host.shape and all(n <= 1 or s >= 0 for n, s in zip(copy.shape, copy.strides, strict=True))
    np.testing.assert_array_equal(copy.numpy(), host)


def test_an_array_that_runs_backwards_is_an_argument(engine, linear_chain):
    layer = engine.prepare(linear_chain)
    x, w, b = data(linear_chain)
    np.testing.assert_array_equal(layer(x, ctn.Array.of(w[::-1]), b), layer(x, w[::-1].copy(), b))
    with pytest.raises(ctn.ArgumentError, match=r"argument 'w' has strides \[-24, 1\]"):
        layer(x, w[::-1], b)


@pytest.mark.parametrize(
    "shape, strides", [((3, 4), (6, 1)), ((3, 4), (1, 3)), ((3, 0), None), ((), None), ((5,), None)]
)
@pytest.mark.parametrize("dtype", ["float8_e5m2", "float8_e4m3fn", "bfloat16"])
def test_a_copy_of_a_dtype_of_ml_dtypes(dtype, shape, strides):
    kind = getattr(pytest.importorskip("ml_dtypes"), dtype)
    name = {"float8_e5m2": "e5m2", "float8_e4m3fn": "e4m3", "bfloat16": "bf16"}[dtype]
    array = ctn.Array(name, shape, strides)
    host = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(kind)
    copy = array.numpy()
    assert (copy.dtype, copy.shape) == (host.dtype, host.shape) and copy.flags.writeable
    if strides:
        assert copy.strides == tuple(stride * copy.itemsize for stride in strides)
    np.testing.assert_array_equal(ctn.Array.of(host).numpy().astype(float), host.astype(float))


def test_a_result_of_e5m2(engine):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    chain = ctn.Chain.parse("chain c(input x: f32[4, 8]) { y = scale(x, 2.0) return y: e5m2 }")
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    wanted = (2 * x).astype(ml_dtypes.float8_e5m2)
    for y in (engine.prepare(chain)(x), chain.reference(x)):
        assert y.dtype == wanted.dtype
        np.testing.assert_array_equal(y.astype(float), wanted.astype(float))


@pytest.mark.parametrize(
    "shape, strides, words",
    [
        ((2, 3), (-3, 1), r"strides \[-3, 1\]: give strides of 0 or more"),
        ((2, 3), (1,), "1 stride and 2 dimensions"),
        ((2, -3), None, r"shape \[2, -3\]: give sizes of 0 or more"),
    ],
)
def test_a_layout_that_no_array_has(shape, strides, words):
    with pytest.raises(ctn.ArgumentError, match=words):
        ctn.Array("f32", shape, strides)


class Foreign:
    """An array of another library, that has DLPack only; `old`: as before its version 1.0."""

    def __init__(self, array, old=False):
        self.array, self.old = array, old

    def __dlpack__(self, **options):
        if self.old and "max_version" in options:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("old", [False, True])
def test_dlpack_of_another_library(old, engine, linear_chain):
    x, w, b = data(linear_chain)
    layer = engine.prepare(linear_chain)
    want, out = layer(x, w, b), np.zeros((16, 32), np.float32)
    np.testing.assert_array_equal(layer(*(Foreign(a, old) for a in (x, w, b))), want)
    layer(x, w, b, out=Foreign(out, old))
    np.testing.assert_array_equal(out, want)


def test_dlpack_of_a_later_version(engine, linear_chain, monkeypatch):
    # Prototypes of ctypes.pythonapi are those of whoever set them last.
    for name in ("PyCapsule_New", "PyCapsule_GetPointer", "PyCapsule_IsValid"):
        monkeypatch.setattr(getattr(ctypes.pythonapi, name), "argtypes", [ctypes.c_int])

    class Later(Foreign):
        def __dlpack__(self, **options):
            self.managed = dlpack.Versioned(2, 0)
            return dlpack._new(ctypes.addressof(self.managed), dlpack._VERSIONED_NAME, dlpack._Destructor())

    x, w, b = data(linear_chain)
    with pytest.raises(ctn.ArgumentError, match="exports DLPack 2.0: pass one"):
        engine.prepare(linear_chain)(Later(x), w, b)


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("wrap", [lambda a: a, Foreign], ids=["numpy", "dlpack"])
def test_a_read_only_array_is_read_only(wrap, engine, linear_chain):
    arrays = data(linear_chain)
    layer = engine.prepare(linear_chain)
    want = layer(*arrays)
    np.testing.assert_array_equal(layer(*(wrap(read_only(a)) for a in arrays)), want)
    memory = bytes(4 * 16 * 32)
    with pytest.raises(ctn.ArgumentError, match="output 't5' is read-only: pass an array that may be written"):
        layer(*arrays, out=wrap(np.frombuffer(memory, np.float32).reshape(16, 32)))
    assert memory == bytes(len(memory))
    chain = ctn.Chain("step")
    a, x = chain.scalar("a"), chain.input("x", "f32", (8, 8))
    chain.output_in_place(ctn.scale(x, a), "f32", x)
    ones = read_only(np.ones((8, 8), np.float32))
    with pytest.raises(ctn.ArgumentError, match="argument 'x' is read-only, and an output is in its place"):
        engine.prepare(chain)(2.0, wrap(ones))
    assert (ones == 1).all()


def test_an_array_of_jax_is_read_only(engine, linear_chain):
    jax = pytest.importorskip("jax")
    out = jax.device_put(np.zeros((16, 32), np.float32), jax.devices("cpu")[0])
    with pytest.raises(ctn.ArgumentError, match="output 't5' is read-only"):
        engine.prepare(linear_chain)(*data(linear_chain), out=out)
    assert (out == 0).all()


def test_a_negative_view_of_torch_is_refused(engine, linear_chain):
    torch = pytest.importorskip("torch")
    x, w, b = (torch.from_numpy(a) for a in data(linear_chain))
    layer = engine.prepare(linear_chain)
    negative, out = torch._neg_view(x), torch._neg_view(torch.zeros(16, 32))  # as conj().imag, without gaps
    for call, who in (
        (lambda: layer(negative, w, b), "argument 'x'"),
        (lambda: layer(x, w, b, out=out), "output 't5'"),
        (lambda: linear_chain.reference(negative, w, b), "argument 'x'"),
        (lambda: ctn.Array.of(negative), "the array"),
    ):
        with pytest.raises(ctn.ArgumentError, match=rf"{who} is a negative view.*: pass its resolve_neg\(\)"):
            call()
    assert torch.equal(layer(negative.resolve_neg(), w, b), layer(-x, w, b))


class OnCuda:
    """An array of another library, that has __cuda_array_interface__ only."""

    def __init__(self, array, **facts):
        self.array = array
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": "<f4",
            "data": (array.address, False),
            "version": 3,
            **facts,
        }


@pytest.fixture
def on_cuda(engine, linear_chain, monkeypatch):
    """A layer that takes arrays of CUDA as it does on a GPU, its device arrays, and what it waits for and launches."""
    layer = engine.prepare(linear_chain)
    events = []

    def synchronize(device, stream, plain=lib.ctn_stream_synchronize):
        events.append(stream)
        return 0 if stream < 100 else plain(device, stream)

    def launch(*arguments, plain=layer._launch):
        events.append("launch")
        plain(*arguments)

    monkeypatch.setattr(layer, "_simulated", False)
    monkeypatch.setattr(lib, "ctn_stream_synchronize", synchronize)
    monkeypatch.setattr(layer, "_launch", launch)
    return layer, [ctn.Array.of(a) for a in data(linear_chain)], events


@pytest.mark.parametrize(
    "producers, stream, waits",
    [
        ([{}, {"stream": None}, {}], None, []),
        ([{"stream": 1}, {}, {"stream": 2}], None, [1, 2]),
        ([{"stream": 7}, {"stream": 7}, {"stream": 9}], None, [7, 9]),
        ([{"stream": 1}, {"stream": 2}, {}], 0, [2]),
    ],
)
def test_a_call_waits_for_producers(producers, stream, waits, on_cuda):
    layer, arrays, events = on_cuda
    want = layer(*arrays).numpy()
    events.clear()
    y = layer(*(OnCuda(a, **facts) for a, facts in zip(arrays, producers, strict=True)), stream=stream)
    assert events[: len(waits) + 1] == [*waits, "launch"]
    np.testing.assert_array_equal(y.numpy(), want)


def test_a_call_on_the_producer_s_stream_does_not_wait(on_cuda):
    layer, (x, w, b), events = on_cuda
    stream = ctn.Stream()
    out = ctn.Array("f32", (16, 32))
    layer(OnCuda(x, stream=stream.pointer), w, b, out=OnCuda(out, stream=8), stream=stream)
    assert events == [8, "launch"]


@pytest.mark.parametrize(
    "facts, words",
    [
        ({"stream": 0}, "argument 'x' has stream 0 in its __cuda_array_interface__: give 1"),
        ({"strides": (98, 4)}, r"argument 'x' has strides of \(98, 4\) bytes, which are no multiples"),
    ],
)
def test_a_wrong_array_of_cuda(facts, words, on_cuda):
    layer, (x, w, b), _ = on_cuda
    with pytest.raises(ctn.ArgumentError, match=words):
        layer(OnCuda(x, **facts), w, b)


def test_a_read_only_array_of_cuda(on_cuda):
    layer, arrays, _ = on_cuda
    out = ctn.Array("f32", (16, 32))
    with pytest.raises(ctn.ArgumentError, match="output 't5' is read-only"):
        layer(*arrays, out=OnCuda(out, data=(out.address, True)))


def affine():
    """a * s + t, of a f32[2, 2] and two tensors without dimensions."""
    chain = ctn.Chain("affine")
    s, t, a = chain.input("s", "f32", ()), chain.input("t", "f32", ()), chain.input("a", "f32", (2, 2))
    chain.output(a * s + t, "f32")
    return chain


def test_numbers_of_numpy_are_tensors_without_dimensions(engine):
    chain, ones = affine(), np.ones((2, 2), np.float32)
    for call in (engine.prepare(chain), chain.reference):
        # Each has memory of its own at the time of the launch.
        assert (call(np.float32(2), np.float32(10), ones) == 12).all()
    assert ctn.Array.of(np.float16(3)).numpy() == 3
    one = ctn.Chain("one")
    one.output(one.input("x", "f32", ()) * 2, "f32")
    with pytest.raises(ctn.ArgumentError, match="output .* is read-only: pass an array that may be written"):
        engine.prepare(one)(np.float32(1), out=np.float32(1))


class WithInterface:
    """An array of another library, that has __array_interface__ only."""

    def __init__(self, array, **facts):
        self.array = array
        self.__array_interface__ = {**array.__array_interface__, **facts}


def test_array_interface_of_another_library(engine, linear_chain):
    x, w, b = data(linear_chain)
    layer = engine.prepare(linear_chain)
    want, out = layer(x, w, b), np.zeros((16, 32), np.float32)
    given = WithInterface(out)
    assert layer(WithInterface(x), w, WithInterface(b), out=given) is given
    np.testing.assert_array_equal(out, want)
    with pytest.raises(ctn.ArgumentError, match="output 't5' is read-only"):
        layer(x, w, b, out=WithInterface(read_only(out)))
    with pytest.raises(ctn.ArgumentError, match=r"argument 'x' has a wrong __array_interface__ \(.*\): pass a numpy"):
        layer(WithInterface(x, shape="x"), w, b)


def test_arrays_that_are_more_or_less_than_their_memory(engine, linear_chain):
    layer = engine.prepare(linear_chain)
    x, w, b = data(linear_chain)
    for call in (lambda a: layer(a, w, b), lambda a: linear_chain.reference(a, w, b), ctn.Array.of):
        with pytest.raises(ctn.ArgumentError, match=r"is a masked array, .*: pass its filled\(\)"):
            call(np.ma.masked_array(x, x > 0))
        with pytest.raises(ctn.ArgumentError, match="has dtype void"):
            call(np.zeros((16, 24), "V0"))
    with pytest.raises(ctn.ArgumentError, match="has dtype float64: use bf16, f16, f32, i32, e4m3, e5m2 or bytes"):
        ctn.Array.of(np.zeros(2))


def test_functions_of_numpy_take_an_array():
    host = np.arange(6, dtype=np.float32).reshape(2, 3)
    array = ctn.Array.of(host)
    np.testing.assert_array_equal(np.asarray(array), host)
    assert np.asarray(array, np.float16).dtype == np.float16 and np.asarray(array).dtype == np.float32
    assert np.sum(array) == 15 and (host + array == 2 * host).all()
    with pytest.raises(ctn.ArgumentError, match="copy is False, and the array is on a device"):
        array.__array__(copy=False)


def test_bits_are_not_converted(monkeypatch):
    monkeypatch.setattr("catenary.arrays._numpy_kind", lambda dtype: "uint16")
    array = ctn.Array("bf16", (2,))
    assert np.asarray(array).dtype == np.uint16
    with pytest.raises(ctn.ArgumentError, match="an Array of bf16 is converted, and .* bits only: install ml_dtypes"):
        np.asarray(array, np.float32)


@pytest.mark.parametrize("shape, strides", [((2**62,), None), ((2**40, 2**40), None), ((2, 2), (2**62, 1))])
def test_an_array_of_more_bytes_than_an_address_counts(shape, strides):
    with pytest.raises(ctn.ArgumentError, match=r"an Array of f32 and shape \[.*\] has \d+ bytes: give sizes"):
        ctn.Array("f32", shape, strides)


def without_memory(torch):
    """Tensors of torch whose elements have no one address, by what an error says of each."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    class Local(torch.Tensor):
        """Like a DTensor, which needs processes."""

        @staticmethod
        def __new__(cls, tensor):
            return torch.Tensor._make_wrapper_subclass(cls, tensor.shape, dtype=tensor.dtype)

        def to_local(self):
            return torch.ones(self.shape)

        def __torch_dispatch__(self, function, types, arguments=(), named=None):
            raise NotImplementedError

    x = torch.ones(16, 24)
    yield x.to_sparse(), r"has layout torch.sparse_coo, .*: pass its to_dense\(\)"
    yield x.to_sparse_csr(), r"has layout torch.sparse_csr, .*: pass its to_dense\(\)"
    if torch.backends.mkldnn.is_available():
        yield x.to_mkldnn(), r"has layout torch._mkldnn, .*: pass its to_dense\(\)"
    yield torch.nested.nested_tensor([x, x[:3]]), "is a nested tensor: pass the tensors that it has, one by one"
    yield torch.nested.nested_tensor([x, x[:3]], layout=torch.jagged), "is a nested tensor"
    yield Local(x), r"is a Local, which has no memory of its own: pass its to_local\(\)"
    yield FakeTensorMode().from_tensor(x), "is a FakeTensor, which has no memory of its own: pass the tensor"


@pytest.mark.filterwarnings("ignore")  # torch's, of nested and sparse tensors
def test_tensors_of_torch_without_memory(engine, linear_chain):
    torch = pytest.importorskip("torch")
    x, w, b = (torch.from_numpy(a) for a in data(linear_chain))
    layer = engine.prepare(linear_chain)
    for tensor, words in without_memory(torch):
        for call in (layer, linear_chain.reference):
            with pytest.raises(ctn.ArgumentError, match="argument 'x' " + words) as caught:
                call(tensor, w, b)
            assert "\n" not in str(caught.value)
    for transformed in (torch.vmap(lambda x: layer(x, w, b)), torch.func.grad(lambda x: layer(x[0], w, b).sum())):
        with pytest.raises(ctn.ArgumentError, match="argument 'x' is a tensor of torch.func or .*: make a function of"):
            transformed(x.expand(2, 16, 24))
    assert layer(torch.ones(16, 24), w, b).shape == (16, 32)


def test_a_tracer_of_jax_is_for_catenary_jax(engine, linear_chain):
    jax = pytest.importorskip("jax")
    layer = engine.prepare(linear_chain)
    with pytest.raises(ctn.ArgumentTypeError, match=r"argument 'x' is a tracer of JAX.*: call .* by catenary.jax.call"):
        jax.jit(lambda x: layer(x, *data(linear_chain)[1:]))(data(linear_chain)[0])
