# SPDX-License-Identifier: Apache-2.0
"""Calling executables: results against the reference, outputs of the caller, symbols, scalars, strides, in place; and
every wrong argument as one typed sentence before anything runs."""

import copy
import gc
import pickle
import threading
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from conftest import Meeting, data, in_threads, make_linear

import catenary as ctn
from catenary.errors import Handle
from catenary.executable import PER_THREAD_STREAM


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


def make_scaled():
    chain = ctn.Chain("scaled")
    chain.output(ctn.scale(chain.input("x", "f32", (4,)), chain.scalar("a")), "f32")
    return chain


def test_numbers_as_scalars(engine):
    run, x = engine.prepare(make_scaled()), np.ones(4, np.float32)
    largest = float(np.finfo(np.float32).max)
    numbers = [2, 0.5, -0.0, largest, -largest, 1e-300, float("inf"), float("-inf"), float("nan"), np.float64(3),
               np.float32(3), np.float16(3), np.int64(3), np.array(0.5), Fraction(1, 3), Decimal("0.1"),
               np.float32("inf"), np.longdouble(2)]  # fmt: skip
    for number in numbers:
        with np.errstate(under="ignore"):
            np.testing.assert_array_equal(run(x, number), x * np.float32(number))
    numpy = pytest.importorskip("jax.numpy")
    for number in (numpy.float32(3), numpy.bfloat16(0.5), numpy.int32(2), numpy.asarray(0.5)):
        np.testing.assert_array_equal(run(x, number), x * np.float32(number))


WRONG_SCALARS = [
    ("2", "argument 'a' is '2', of type str: pass a number"),
    (b"2", "argument 'a' is b'2', of type bytes"),
    (np.str_("2"), "of type str_"),
    (True, "argument 'a' is True, of type bool"),
    (np.True_, "True.*, of type bool"),
    (1 + 0j, "of type complex"),
    (np.ones(2), "of type ndarray"),
    (10**400, "argument 'a' is 1000.*: pass a number that is finite in f32"),
    (-(10**5000), "an integer of 16610 bits: pass|is -1000.*: pass"),
    (1e300, r"argument 'a' is 1e\+300, and scalars are f32: pass a number that is finite in f32"),
    (-1e39, r"argument 'a' is -1e\+39, and scalars"),
    (3.4028235677973366e38, "argument 'a' is 3.40.*, and scalars are f32"),  # halfway to the next power of two
    (np.float64(1e300), r"1e\+300.*, and scalars"),
    (Decimal("1e400"), "Decimal.*, and scalars"),
    (Fraction(10**400), "Fraction.*: pass a number that is finite in f32"),
]


def test_what_is_no_scalar(engine):
    chain, x = make_scaled(), np.ones(4, np.float32)
    for call in (engine.prepare(chain), chain.reference):
        for value, words in WRONG_SCALARS:
            with pytest.raises(ctn.ArgumentError, match=words) as caught:
                call(x, value)
            assert "\n" not in str(caught.value) and len(str(caught.value)) < 200


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps], ids=["copy", "deepcopy", "pickle"])
def test_handles_are_not_copied(engine, copied, capfd):
    """A copy would destroy the same handle a second time."""
    layer = engine.prepare(make_scaled())
    gc.collect()
    live = set(Handle.live)
    for owner in (layer, layer.compiled, engine, ctn.Stream(), ctn.Array("f32", (4,)), ctn.PackWriter()):
        with pytest.raises(ctn.ArgumentTypeError, match="owns a handle .* one owner in one process: share the object"):
            copied(owner)
    del owner
    gc.collect()
    assert Handle.live == live and "Exception ignored" not in capfd.readouterr().err
    assert (layer(np.ones(4, np.float32), 2.0) == 2).all()


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


def test_outputs_in_one_host_array_are_refused(engine):
    chain = ctn.Chain("step")
    x = chain.input("x", "f32", (8, 8))
    chain.output_in_place(x * 2.0, "f32", x)
    for op in (ctn.exp, ctn.silu):
        chain.output(op(x), "f32", strides=(16, 1))
    run = engine.prepare(chain)
    x, wide, more = np.ones((8, 8), np.float32), np.zeros((8, 16), np.float32), np.zeros((8, 16), np.float32)
    for y, z in ((wide[:, :8], wide[:, :8]), (wide[:, :8], wide[:, 8:])):  # what is between the rows is copied too
        with pytest.raises(ctn.ArgumentError, match="which is written, overlaps .* in memory: give it memory of its"):
            run(x, out=(None, y, z))
    with pytest.raises(ctn.ArgumentError, match="overlaps 'x' in memory"):
        run(wide.reshape(-1)[:64].reshape(8, 8), out=(None, wide[:, :8], None))
    assert (x == 1).all() and not wide.any()
    run(x, out=(x, wide[:, :8], more[:, :8]))
    np.testing.assert_allclose(wide[:, :8], np.exp(np.ones((8, 8))), rtol=1e-5)
    plain = ctn.Chain("plain")
    plain.output(plain.input("x", "f32", (8, 8)) * 2.0, "f32")
    np.testing.assert_array_equal(engine.prepare(plain)(x, out=x), np.full((8, 8), 4))  # x is read before


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


def test_the_workspace_of_a_thread_that_has_ended_is_waited_for(monkeypatch):
    waits = []
    monkeypatch.setattr(ctn.device.Memory, "wait", lambda self: waits.append(self))
    workspace = ctn.executable._Workspace(0, 64)
    one, other = in_threads(2, ctn.device.this_thread)
    assert one is not other
    for thread, count in ((one, 0), (one, 0), (other, 1), (other, 1)):  # of one number
        workspace.take(thread)
        assert waits == [workspace.memory] * count


def test_a_workspace_on_another_device_is_refused(engine):
    run = engine.prepare(make_experts())

    array = ctn.Array("i8", (run.workspace_bytes,))
    array.device = 1
    with pytest.raises(ctn.ArgumentError, match="workspace has .* bytes on device 1: pass .* on device 0"):
        run(*expert_arrays(run.chain), workspace=array)


def test_an_array_is_waited_for_unless_its_reader_is_on_its_stream(engine, linear_chain, monkeypatch):
    layer = engine.prepare(linear_chain)
    x, w, b = (ctn.Array.of(a) for a in data(linear_chain))
    waits, plain = [], ctn.device.Memory.wait

    def wait(memory):
        waits.append(memory)
        plain(memory)

    monkeypatch.setattr(ctn.device.Memory, "wait", wait)
    stream, other = ctn.Stream(), ctn.Stream()
    y = layer(x, w, b, stream=stream)
    y._wait(stream.pointer)
    assert waits == []
    y._wait(other.pointer)
    assert waits == [y._memory]
    y._wait(None)
    assert waits == [y._memory]
    y = layer(x, w, b, out=y, stream=stream)
    np.testing.assert_array_equal(y.numpy(), layer(x, w, b).numpy())
    assert y._written_on is None  # the copy has waited
    assert layer(x, w, b)._written_on is None  # and so has the call


def test_producers_of_arrays_make_them_ready_on_the_stream_of_the_launch(engine, linear_chain):
    layer, asked = engine.prepare(linear_chain), []

    class Producer:
        def __dlpack_device__(self):
            return ctn.dlpack.CUDA, 0

        def __dlpack__(self, stream=None, **_):
            asked.append(stream)
            raise BufferError("enough")

    stream = ctn.Stream()
    for given in (None, stream):
        with pytest.raises(BufferError):
            layer(Producer(), Producer(), Producer(), stream=given)
    assert asked == [ctn.executable.own_stream(0).pointer, stream.pointer]


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


def test_reference_takes_symbols_and_refuses_the_device():
    chain = make_linear()
    with pytest.raises(ctn.ArgumentError, match="takes host arrays"):
        chain.reference(ctn.Array.of(X), W, B)
    np.testing.assert_array_equal(chain.reference(X, W, B, threads=1), np.zeros((16, 32), np.float32))
    with pytest.raises(ctn.ArgumentError, match="threads is -1"):
        chain.reference(X, W, B, threads=-1)
