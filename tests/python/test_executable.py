# SPDX-License-Identifier: Apache-2.0
"""Calling executables: results against the reference, outputs of the caller, symbols, scalars, strides, in place; and
every wrong argument as one typed sentence before anything runs."""

import ctypes
import gc
import threading

import numpy as np
import pytest
from conftest import Meeting, in_threads, make_linear

import catenary as ctn
from catenary import dlpack
from catenary._native import lib
from catenary.errors import Handle
from catenary.executable import PER_THREAD_STREAM


def data(chain, size=0, seed=0):
    rng = np.random.default_rng(seed)
    out = []
    for p in chain.parameters:
        if p.role == ctn.Role.scalar:
            out.append(0.5)
            continue
        array = rng.standard_normal(p.shape_for(size)).astype(np.float32)
        out.append(cast(array, p.dtype))
    return out


def cast(array, dtype):
    if dtype == ctn.bf16:
        return array.astype(pytest.importorskip("ml_dtypes").bfloat16)
    return array.astype({ctn.f16: np.float16, ctn.f32: np.float32, ctn.i32: np.int32}[dtype])


def close(got, want, dtype):
    # tf32 operands and sums in another order; then the rounding of the output.
    tolerance = {ctn.f32: 2e-2, ctn.f16: 2e-2, ctn.bf16: 5e-2}[dtype]
    np.testing.assert_allclose(
        np.asarray(got, np.float32), np.asarray(want, np.float32), rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize("dtype", [ctn.f32, ctn.f16, ctn.bf16], ids=str)
def test_result_is_the_reference_s(dtype, engine):
    chain = make_linear(dtype=dtype)
    arrays = data(chain)
    y = engine.prepare(chain)(*arrays)
    assert y.shape == (16, 32) and y.dtype == arrays[0].dtype
    close(y, chain.reference(*arrays), dtype)


def test_bf16_as_bits(engine):
    chain = make_linear(dtype=ctn.bf16)
    arrays = data(chain)
    layer = engine.prepare(chain)
    bits = [a.view(np.uint16) for a in arrays]
    out = np.zeros((16, 32), np.uint16)
    assert layer(*bits, out=out) is out
    assert np.array_equal(out, layer(*arrays).view(np.uint16))


def test_arguments_by_name_and_out(engine, linear_chain):
    layer = engine.prepare(linear_chain)
    x, w, b = data(linear_chain)
    out = np.full((16, 32), 7, np.float32)
    got = layer(x, b=b, w=w, out=out)
    assert got is out
    assert np.array_equal(out, layer(x, w, b)) and np.array_equal(out, layer(x=x, w=w, b=b, out=[out]))


def test_symbol_is_from_the_shapes(engine):
    chain = ctn.Chain("rows")
    m = chain.symbol("M", 1, 40)
    x, w = chain.input("x", "f16", (m, 16)), chain.weight("w", "f16", (8, 16))
    chain.output(ctn.relu(ctn.linear(x, w)), "f16")
    layer = engine.prepare(chain)
    for size in (1, 3, 40):
        arrays = data(chain, size, seed=size)
        y = layer(*arrays)
        assert y.shape == (size, 8)
        close(y, chain.reference(*arrays), ctn.f16)
    for size in (0, 41):
        with pytest.raises(ctn.ArgumentError, match=f"the size M is {size}: chain 'rows' takes 1 to 40"):
            layer(*data(chain, size))
    with pytest.raises(
        ctn.ArgumentError, match=r"output .* has shape \[4, 8\], and the chain takes \[M, 8\] with M = 3"
    ):
        layer(*data(chain, 3), out=np.zeros((4, 8), np.float16))


def test_scalars_several_outputs_and_strides(engine):
    chain = ctn.Chain("two")
    x = chain.input("x", "f32", (4, 8), strides=(1, 4))
    a = chain.scalar("a")
    chain.output(ctn.scale(x, a), "f32", strides=(16, 1))
    chain.output(ctn.exp(x), "f16")
    array = np.asfortranarray(np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32))
    run = engine.prepare(chain)
    scaled, exponent = run(array, 0.25)
    assert scaled.strides == (64, 4) and exponent.dtype == np.float16
    np.testing.assert_array_equal(scaled, array * np.float32(0.25))
    close(exponent, np.exp(array), ctn.f16)
    # What is between the rows of an output stays.
    wide = np.full((4, 16), 9, np.float32)
    again, _ = run(array, a=np.float32(2), out=(wide[:, :8], None))
    np.testing.assert_array_equal(wide[:, :8], array * 2)
    assert again.base is wide and (wide[:, 8:] == 9).all()


def test_output_in_place_is_its_input(engine):
    chain = ctn.Chain("step")
    x = chain.input("x", "f32", (8, 8))
    chain.output_in_place(x * 2.0, "f32", x)
    run = engine.prepare(chain)
    array = np.ones((8, 8), np.float32)
    assert run(array) is array and (array == 2).all()
    run(array, out=array)
    assert (array == 4).all()
    with pytest.raises(ctn.ArgumentError, match="in place of an input"):
        run(array, out=np.zeros((8, 8), np.float32))


def make_experts():
    """Two contractions of ragged groups, which need a workspace."""
    chain = ctn.Chain("experts")
    x = chain.input("x", "f16", (24, 16))
    w, v = chain.weight("w", "f16", (3, 32, 16)), chain.weight("v", "f16", (3, 16, 32))
    ends = chain.input("ends", "i32", (3,))
    group = ctn.Ragged("m", ends, "e")
    h = ctn.cast(ctn.silu(ctn.contract("mk,enk->mn", x, w, group)), "f16")
    chain.output(ctn.contract("mk,enk->mn", h, v, group), "f16")
    return chain


def expert_arrays(chain):
    arrays = data(chain)
    arrays[3] = np.array([5, 5, 20], np.int32)
    return arrays


def test_groups_and_a_workspace(engine):
    chain = make_experts()
    run = engine.prepare(chain)
    assert run.workspace_bytes > 0
    arrays = expert_arrays(chain)
    y = run(*arrays)
    close(y, chain.reference(*arrays), ctn.f16)
    assert (y[20:] == 0).all()
    with pytest.raises(ctn.ArgumentError, match="workspace has .* bytes on the host"):
        run(*arrays, workspace=np.zeros(run.workspace_bytes, np.uint8).view(np.int32))


def test_threads_share_a_stream_and_its_workspace(monkeypatch):
    run = ctn.Engine().prepare(make_experts())
    arrays = expert_arrays(run.chain)
    want, stream = run(*arrays), ctn.Stream()
    allocating, launching, made = Meeting(), Meeting(), []

    class Memory(ctn.device.Memory):
        __slots__ = ()

        def __init__(self, device, bytes):
            if bytes == run.workspace_bytes:
                made.append(bytes)
                with allocating:
                    pass
            super().__init__(device, bytes)

    def launch(*arguments, plain=run._launch):
        with launching:
            plain(*arguments)

    monkeypatch.setattr("catenary.executable.Memory", Memory)
    monkeypatch.setattr(run, "_launch", launch)
    for y in in_threads(2, lambda: run(*arrays, stream=stream)):
        np.testing.assert_array_equal(y, want)
    assert len(made) == 1 and launching.most == 1


def test_a_captured_launch_keeps_its_workspace():
    """What the launch uses is there after the executable is gone: a graph may replay it."""
    run = ctn.Engine().prepare(make_experts())
    stream = ctn.Stream()
    run(*expert_arrays(run.chain), stream=stream)
    pointer = run._workspace(stream.pointer).memory.address
    del run
    gc.collect()
    assert pointer in Handle.live


def test_a_thread_s_own_default_stream_has_its_own_workspace(engine):
    run = engine.prepare(make_experts())
    one, other = in_threads(2, lambda: run._workspace(PER_THREAD_STREAM).memory.address)
    assert one != other


def test_arrays_stay_on_the_device(engine, linear_chain):
    layer = engine.prepare(linear_chain)
    x, w, b = data(linear_chain)
    dw, db = ctn.Array.of(w), ctn.Array.of(b)
    np.testing.assert_array_equal(dw.numpy(), w)
    np.testing.assert_array_equal(layer(x, dw, db), layer(x, w, b))
    y = layer(ctn.Array.of(x), dw, db)
    assert isinstance(y, ctn.Array) and y.dtype is ctn.f32 and y.shape == (16, 32)
    np.testing.assert_array_equal(y.numpy(), layer(x, w, b))
    out = ctn.Array("f32", (16, 32))
    assert layer(ctn.Array.of(x), dw, db, out=out) is out
    np.testing.assert_array_equal(out.numpy(), y.numpy())


def test_a_stream_of_the_caller(engine, linear_chain):
    layer = engine.prepare(linear_chain)
    x, w, b = data(linear_chain)
    arrays = [ctn.Array.of(a) for a in (x, w, b)]
    stream = ctn.Stream(0)
    y = layer(*arrays, stream=stream)
    stream.synchronize()
    np.testing.assert_array_equal(y.numpy(), layer(x, w, b))
    out = ctn.Array("f32", (16, 32))
    layer.launch(stream.pointer, [a.address for a in (*arrays, out)])
    stream.synchronize()
    np.testing.assert_array_equal(out.numpy(), y.numpy())
    with pytest.raises(ctn.ArgumentError, match="stream is str"):
        layer(*arrays, stream="s")


def test_empty_tensors(engine):
    chain = ctn.Chain("none")
    m = chain.symbol("M", 0, 8)
    x, w = chain.input("x", "f32", (m, 8)), chain.weight("w", "f32", (4, 8))
    chain.output(ctn.linear(x, w), "f32")
    assert engine.prepare(chain)(np.zeros((0, 8), np.float32), np.zeros((4, 8), np.float32)).shape == (0, 4)


X, W, B = np.zeros((16, 24), np.float32), np.zeros((32, 24), np.float32), np.zeros(32, np.float32)
WRONG = {
    "too few": (lambda f: f(X, W), "takes 3 arguments, got 2: pass x, w, b"),
    "too many": (lambda f: f(X, W, B, B), "takes 3 arguments, got 4"),
    "missing": (lambda f: f(X, b=B), "without 'w'"),
    "twice": (lambda f: f(X, W, B, x=X), "'x' twice"),
    "unknown": (lambda f: f(X, W, bias=B), "'bias' and no parameter has this name"),
    "dtype": (lambda f: f(X.astype("f8"), W, B), "argument 'x' has dtype float64, and the chain takes f32"),
    "half": (lambda f: f(X, W.astype("f2"), B), "argument 'w' has dtype float16"),
    "rank": (lambda f: f(X[0], W, B), r"argument 'x' has shape \[24\], and the chain takes \[16, 24\]"),
    "shape": (lambda f: f(X, W[:31], B), r"argument 'w' has shape \[31, 24\], and the chain takes \[32, 24\]"),
    "strides": (lambda f: f(np.asfortranarray(X), W, B), r"argument 'x' has strides \[1, 16\], and the chain takes"),
    "no array": (lambda f: f([1, 2], W, B), "argument 'x' is list: pass an array"),
    "out shape": (lambda f: f(X, W, B, out=np.zeros((16, 31), np.float32)), "output 't5' has shape"),
    "out dtype": (lambda f: f(X, W, B, out=np.zeros((16, 32), np.float64)), "output 't5' has dtype float64"),
    "out count": (lambda f: f(X, W, B, out=[X, X]), "has 1 outputs, and out has 2"),
    "record": (lambda f: f(np.zeros((16, 24), [("a", "f4")]), W, B), "argument 'x' has dtype"),
    "odd strides": (
        lambda f: f(np.zeros((16, 24, 5), "i1")[:, :, :4].view("f4")[..., 0], W, B),
        "no multiples of its element's",
    ),
    "byte order": (lambda f: f(X.astype(">f4"), W, B), "argument 'x' has dtype >f4, and the chain takes f32"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_argument_is_one_sentence(case, engine, linear_chain):
    call, words = WRONG[case]
    with pytest.raises(ctn.ArgumentError, match=words) as caught:
        call(engine.prepare(linear_chain))
    assert "\n" not in str(caught.value) and caught.value.code == "invalid_argument"


def test_a_misaligned_array_is_copied(engine, linear_chain):
    layer = engine.prepare(linear_chain)
    x, w, b = data(linear_chain)
    shifted = np.zeros(x.size + 1, np.float32)[1:].reshape(x.shape)
    shifted[:] = x
    np.testing.assert_array_equal(layer(shifted, w, b), layer(x, w, b))


def test_threads_share_an_executable(engine, linear_chain):
    layer = engine.prepare(linear_chain)
    sets = [data(linear_chain, seed=i) for i in range(8)]
    want = [layer(*s) for s in sets]
    wrong = []

    def work(i):
        for _ in range(5):
            if not np.array_equal(layer(*sets[i]), want[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(sets))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


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
    "shape, strides, words",
    [
        ((2, 3), (-3, 1), r"strides \[-3, 1\]: give strides of 0 or more"),
        ((2, 3), (1,), "1 strides and 2 dimensions"),
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


def test_dlpack_of_a_later_version(engine, linear_chain):
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
    jnp = pytest.importorskip("jax.numpy")
    out = jnp.zeros((16, 32), jnp.float32)
    with pytest.raises(ctn.ArgumentError, match="output 't5' is read-only"):
        engine.prepare(linear_chain)(*data(linear_chain), out=out)
    assert (out == 0).all()


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


def test_reference_takes_symbols_and_refuses_the_device():
    chain = make_linear()
    with pytest.raises(ctn.ArgumentError, match="takes host arrays"):
        chain.reference(ctn.Array.of(X), W, B)
    np.testing.assert_array_equal(chain.reference(X, W, B, threads=1), np.zeros((16, 32), np.float32))
    with pytest.raises(ctn.ArgumentError, match="threads is -1"):
        chain.reference(X, W, B, threads=-1)
