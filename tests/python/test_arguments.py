# SPDX-License-Identifier: Apache-2.0
"""Arguments of wrong types and sizes: what ctypes would truncate, and errors that are all of catenary's classes."""

import numpy as np
import pytest
from conftest import data, make_linear

import catenary as ctn


def value(chain):
    return ctn.Tensor(chain, 0, 2)


# Calls with one integer.
INTEGERS = {
    "size": lambda c, n: c.input("q", ctn.f32, (n, 4)),
    "stride": lambda c, n: c.input("q", ctn.f32, (2, 4), strides=(n, 1)),
    "align": lambda c, n: c.weight("q", ctn.f32, (4, 4), align=n),
    "stride of an output": lambda c, n: c.output(value(c), ctn.f32, strides=(n, 1)),
    "align of an output": lambda c, n: c.output(value(c), ctn.f32, align=n),
    "lower bound": lambda c, n: c.symbol("M", n, 64),
    "upper bound": lambda c, n: c.symbol("M", 1, n),
    "parts": lambda c, n: c.shard([n, 1, 1]),
    "threads": lambda c, n: c.reference(*(np.zeros(s, np.float32) for s in ((16, 24), (32, 24), 32)), threads=n),
    "block_rows": lambda c, n: ctn.dequant(value(c), value(c), n, 128),
    "block_columns": lambda c, n: ctn.dequant(value(c), value(c), 1, n),
    "save_budget": lambda c, n: c.gradient(save_budget=n),
    "rows": lambda c, n: ctn.packed_bytes("i4", n, 64),
    "columns": lambda c, n: ctn.packed_bytes("i4", 64, n),
    "columns of plain": lambda c, n: ctn.repack(np.zeros((8, 32), np.uint8), "plain", "i4", n),
    "rows of zeros": lambda c, n: ctn.repack_zeros(np.zeros((8, 1), np.int8), "plain", "i4", n),
    "split_k": lambda c, n: ctn.Engine(split_k=n),
    "helper_memory_bytes": lambda c, n: ctn.Engine(helper_memory_bytes=n),
    "helper_seconds": lambda c, n: ctn.Engine(helper_seconds=n),
    "device": lambda c, n: ctn.Engine(device=n),
}


@pytest.mark.parametrize("case", INTEGERS)
def test_what_is_no_integer_of_the_library(case):
    call = INTEGERS[case]
    for wrong, words in [
        (2**64 + 8, "is 18446744073709551624: pass an integer from"),
        (2**70, "pass an integer from"),
        (-(2**63), "is -9223372036854775808: pass an integer from"),
        (10**5000, "is an integer of 16610 bits: pass an integer from|is 1000.*: pass an integer from"),
        (3.7, "is 3.7"),
        (4.0, "is 4.0"),
        (np.float32(4), "4.0"),
        (True, "is True"),
        (np.True_, "True"),
        ("8", "is '8'"),
        (np.ones((2, 2)), "array"),
    ]:
        chain = make_linear()
        before = chain.text
        with pytest.raises(ctn.ArgumentError, match=words) as caught:
            call(chain, wrong)
        message = str(caught.value)
        assert len(message) < 250 and "\n" not in message and ("pass an integer" in message or "use 'cuda'" in message)
        assert chain.text == before


def test_integers_of_numpy():
    chain = ctn.Chain("sizes")
    m = chain.symbol("M", np.int64(1), np.uint8(64))
    x = chain.input("x", ctn.f32, (m, *np.array([4, 8])), strides=np.array([64, 16, 1]), align=np.int32(4))
    chain.output(x + 1, ctn.f32, strides=np.array([32, 8, 1], np.int16))
    assert "M in 1..64" in chain.text
    assert "x: f32[M, 4, 8] strides[64, 16, 1] align 4" in chain.text and "strides[32, 8, 1]" in chain.text
    assert ctn.packed_bytes("i4", np.int64(32), np.uint16(128)) == ctn.packed_bytes("i4", 32, 128)
    assert ctn.Engine(split_k=np.int64(2), helper_seconds=np.uint8(5), device=np.int32(0)) is not None


def test_what_a_launch_on_addresses_does_not_take(engine):
    layer = engine.prepare(make_linear())
    with pytest.raises(ctn.ArgumentError, match="symbol is 18446744073709551616: pass an integer from"):
        layer.launch(0, [0] * 4, symbol=2**64)
    for wrong in (("stream", [0] * 4), (0, ["x"] * 4), (0, 4), (0, [0.5] * 4), (0, [0] * 4, ["1"])):
        with pytest.raises(ctn.ArgumentError, match="a launch takes addresses as int and scalars as float"):
            layer.launch(*wrong)
    with pytest.raises(ctn.ArgumentError, match="device is 4294967296: pass an integer from 0 to 2147483647"):
        engine.prepare(make_linear(), device=2**32)


def test_integers_and_flags_of_numpy_in_a_launch(engine):
    chain = make_linear()
    layer = engine.prepare(chain)
    arrays = data(chain)
    y = layer(*arrays)
    for value in (np.True_, np.False_, 1, 0):
        np.testing.assert_array_equal(layer(*arrays, allow_pdl=value, disable_pdl=value), y)
    device, out = [ctn.Array.of(a) for a in arrays], ctn.Array("f32", (16, 32))
    addresses = [np.int64(a.address) for a in (*device, out)]
    layer.launch(np.int64(0), addresses, symbol=np.int32(0), workspace=np.uint64(0), allow_pdl=np.False_)
    np.testing.assert_array_equal(out.numpy(), y)
    stream = ctn.Stream()
    np.testing.assert_array_equal(layer(*arrays, stream=np.int64(stream.pointer)), y)
    for flags in ({"allow_pdl": "no"}, {"disable_pdl": 2}):
        for call, given in ((layer, arrays), (layer.launch, (0, [0] * 4))):
            with pytest.raises(ctn.ArgumentError, match="_pdl is .*: pass True or False"):
                call(*given, **flags)


@pytest.mark.parametrize("stream", [2**70, 2**64, -1, True, np.True_, 0.0])
def test_what_is_no_stream(engine, stream):
    layer = engine.prepare(make_linear())
    with pytest.raises(ctn.ArgumentError, match="stream is"):
        layer(*data(make_linear()), stream=stream)
    for call in (lambda: layer.launch(stream, [0] * 4), lambda: layer.launch(0, [stream] * 4)):
        with pytest.raises(ctn.ArgumentError, match="an address is .*: pass an integer from 0|addresses as int"):
            call()


def test_parameters_with_names_of_python_s_arguments(engine):
    chain = ctn.Chain("names")
    values = [chain.input(name, ctn.f32, (4,)) for name in ("self", "chain", "out", "threads")]
    chain.output(values[0] - values[1] * values[2] + values[3], ctn.f32)
    one, two, three, four = (np.full(4, n, np.float32) for n in (1, 2, 3, 4))
    layer = engine.prepare(chain)
    assert (layer(one, two, three, four) == -1).all() and (chain.reference(one, two, three, four) == -1).all()
    plain = ctn.Chain("names")
    plain.output(plain.input("self", ctn.f32, (4,)) - plain.input("chain", ctn.f32, (4,)), ctn.f32)
    for call in (engine.prepare(plain), plain.reference):
        assert (call(self=one, chain=two) == -1).all()


def test_bytes_of_no_pack_are_not_kept():
    from catenary.pack import _memory

    before = len(_memory)
    with pytest.raises(ctn.Error):
        ctn.Pack(bytes(1 << 12))
    assert len(_memory) == before
    for source in (bytearray(8), memoryview(bytes(8))):
        with pytest.raises(ctn.ArgumentError, match="source is .*: pass a path or bytes"):
            ctn.Pack(source)


# Calls with one argument of a wrong type, by what the error says of it.
WRONG_TYPES = {
    "parse": (lambda c, e: ctn.Chain.parse(3), "3 is int: use str"),
    "parse of None": (lambda c, e: ctn.Chain.parse(None), "None is NoneType: use str"),
    "parse of a surrogate": (lambda c, e: ctn.Chain.parse("chain \ud800"), "surrogate"),
    "name of a surrogate": (lambda c, e: ctn.Chain("\ud800"), "surrogate"),
    "shape": (lambda c, e: c.input("q", "f32", 3), "the shape of parameter 'q' is 3, of type int: pass a tuple"),
    "shape of text": (lambda c, e: c.input("q", "f32", "MK"), "the shape of parameter 'q' is 'MK'"),
    "size": (lambda c, e: c.input("q", "f32", ("M", 4)), "size 0 of parameter 'q' is 'M'"),
    "strides": (lambda c, e: c.input("q", "f32", (2, 3), strides=3), "the strides of parameter 'q' is 3"),
    "packed": (lambda c, e: c.weight("q", "i4", (8, 8), packed="no"), "packed of parameter 'q' is 'no': pass True or"),
    "dtype": (lambda c, e: c.input("q", 3, (2,)), "3 is not a dtype"),
    "name": (lambda c, e: c.input(3, "f32", (2,)), "3 is int: use str"),
    "name of a value": (lambda c, e: ctn.add(value(c), 1, name=3), "3 is int: use str"),
    "bounds": (lambda c, e: c.symbol("M", "1", 2), "the lower bound of symbol 'M' is '1'"),
    "output": (lambda c, e: c.output(3, "f32"), "the output is 3, of type int: pass a catenary.Tensor"),
    "output in place": (lambda c, e: c.output_in_place(value(c), "f32", "x"), "the input is 'x'"),
    "labels": (lambda c, e: value(c).labeled(3), "3 is int: use str"),
    "product by @": (lambda c, e: value(c) @ value(c), "use linear or contract"),
    "equation": (lambda c, e: ctn.contract(3, value(c), value(c)), "3 is int: use str"),
    "left": (lambda c, e: ctn.contract("mk,nk->mn", 2.0, value(c)), "the left operand is 2.0"),
    "right": (lambda c, e: ctn.contract("mk,nk->mn", value(c), None), "the right operand is None"),
    "ragged": (lambda c, e: ctn.contract("mk,nk->mn", value(c), value(c), "m"), "pass a catenary.Ragged"),
    "ends": (lambda c, e: ctn.contract("mk,enk->mn", value(c), value(c), ctn.Ragged("m", 3, "e")), "ragged.ends is 3"),
    "label": (
        lambda c, e: ctn.contract("mk,enk->mn", value(c), value(c), ctn.Ragged("mm", value(c), "e")),
        "label 'mm' of Ragged has 2 letters: give one",
    ),
    "true_f32": (lambda c, e: ctn.contract("mk,nk->mn", value(c), value(c), true_f32="no"), "true_f32 is 'no'"),
    "linear": (lambda c, e: ctn.linear(3, value(c)), "x is 3, of type int"),
    "dequant": (lambda c, e: ctn.dequant(value(c), 0.5, 1, 128), "the scale is 0.5"),
    "zero": (lambda c, e: ctn.dequant(value(c), value(c), 1, 128, 8), "the zero is 8"),
    "sum": (lambda c, e: ctn.sum("mn->n", 3), "x is 3"),
    "equation of a sum": (lambda c, e: ctn.sum(value(c), "mn->n"), "x is 'mn->n'"),
    "reduce_max": (lambda c, e: ctn.reduce_max("mn->m", None), "x is None"),
    "cast": (lambda c, e: ctn.cast(1.0, "f16"), "x is 1.0"),
    "slope": (lambda c, e: ctn.leaky_relu(value(c), "0.1"), "attribute 0 of leaky_relu is '0.1', of type str"),
    "exponent": (lambda c, e: value(c) ** "2", "attribute 0 of pow is '2'"),
    "shard": (lambda c, e: c.shard(3), "parts is 3"),
    "wanted": (lambda c, e: c.gradient(wanted=3), "wanted is 3"),
    "wanted name": (lambda c, e: c.gradient(wanted=[3]), "3 is int: use str"),
    "recompute": (lambda c, e: c.gradient(recompute=[]), "recompute is []: use 'none'"),
    "gradient of no chain": (lambda c, e: ctn.gradient("x"), "pass a catenary.Chain"),
    "accumulate": (lambda c, e: c.gradient(accumulate="yes"), "accumulate is 'yes'"),
    "packs": (lambda c, e: ctn.Engine(packs=3), "packs is 3"),
    "pack": (lambda c, e: ctn.Engine(packs=[3]), "source is 3, of type int: pass a path"),
    "add_pack": (lambda c, e: e.add_pack(None), "source is None"),
    "cache_directory": (lambda c, e: ctn.Engine(cache_directory=3), "cache_directory is 3"),
    "cache": (lambda c, e: ctn.Engine(cache=[]), "cache is []: use one of"),
    "strict": (lambda c, e: ctn.Engine(strict="no"), "strict is 'no'"),
    "unfused": (lambda c, e: ctn.Engine(unfused="no"), "unfused is 'no'"),
    "trace_file": (lambda c, e: ctn.Engine(trace_file=None), "trace_file is None"),
    "force_tile": (lambda c, e: ctn.Engine(force_tile=64), "64 is int: use str"),
    "warn": (lambda c, e: ctn.Engine(warn=True), "warn is True: pass a function"),
    "device": (lambda c, e: ctn.Engine(device=[0]), "device is [0]: use 'cuda'"),
    "compile": (lambda c, e: e.compile("chain"), "the chain is 'chain', of type str: pass a catenary.Chain"),
    "target": (lambda c, e: e.compile(c, 90), "90 is int: use str"),
    "explain": (lambda c, e: e.explain(None), "the chain is None"),
    "load": (lambda c, e: e.load(c), "pass a catenary.Compiled"),
    "prepare": (lambda c, e: e.prepare(c.text), "pass a catenary.Chain"),
    "device of prepare": (lambda c, e: e.prepare(c, device="0"), "device is '0'"),
    "open": (lambda c, e: ctn.Compiled.open(3), "path is 3"),
    "SHA-256": (lambda c, e: ctn.Compiled.open("x", 3), "3 is int: use str"),
    "path of a zero byte": (lambda c, e: ctn.Compiled.open("x\0y"), "contains a zero byte"),
    "Pack": (lambda c, e: ctn.Pack(3.5), "source is 3.5"),
    "writer": (lambda c, e: ctn.PackWriter().add(c), "pass a catenary.Compiled"),
    "finish": (lambda c, e: ctn.PackWriter().finish(None), "path is None"),
    "with_sources": (lambda c, e: ctn.PackWriter(with_sources="no"), "with_sources is 'no'"),
    "rows": (lambda c, e: ctn.packed_bytes("i4", None, 8), "rows is None"),
    "weight": (lambda c, e: ctn.repack([[1]], "plain", "i8"), "weight is list: pass an array"),
}


@pytest.mark.parametrize("case", WRONG_TYPES)
def test_an_argument_of_a_wrong_type_is_an_argument_error(case, engine):
    call, words = WRONG_TYPES[case]
    chain = make_linear()
    before = chain.text
    with pytest.raises(ctn.ArgumentError) as caught:
        call(chain, engine)
    assert words in str(caught.value) and "\n" not in str(caught.value)
    assert caught.value.code == "invalid_argument" and isinstance(caught.value, ValueError)
    assert chain.text == before


def test_one_name_and_one_pack_need_no_list(tmp_path):
    chain = ctn.Chain("named")
    x = chain.input("xs", ctn.f32, (4, 8))
    chain.output(ctn.relu(x), ctn.f32)
    assert [c.chain.text for c in chain.gradient(wanted="xs").chains] == [
        c.chain.text for c in chain.gradient(wanted=["xs"]).chains
    ]
    writer = ctn.PackWriter()
    writer.add(ctn.default_engine().prepare(chain).compiled)
    file = tmp_path / "one.ctnpack"
    writer.finish(file)
    for packs in (str(file), file, ctn.Pack(file), [file], (ctn.Pack(file),)):
        assert ctn.Engine(packs=packs, strict=True).prepare(chain).kernels
    with pytest.raises(ctn.Error, match=r"cannot open the pack /a\.ctnpack"):
        ctn.Engine(packs="/a.ctnpack")


def test_paths_of_any_bytes(tmp_path):
    file = tmp_path / b"\xff.ctnpack".decode("utf-8", "surrogateescape")
    compiled = ctn.default_engine().prepare(make_linear()).compiled
    compiled.save(file)
    assert file.exists() and ctn.Compiled.open(file).chain.digest == make_linear().digest
    with pytest.raises(ctn.ArgumentError, match="path is 3"):
        compiled.save(3)


def test_a_pack_s_index(tmp_path):
    writer = ctn.PackWriter()
    writer.add(ctn.default_engine().prepare(make_linear()).compiled)
    writer.finish(tmp_path / "p")
    pack = ctn.Pack(tmp_path / "p")
    assert pack[np.int64(0)] == pack[0] == pack[-1] and len(list(pack)) == 1
    with pytest.raises(IndexError, match="index is -2, and the pack has 1 entries"):
        pack[-2]
    for call in (pack.__getitem__, pack.compiled):
        with pytest.raises(ctn.ArgumentError, match="index is '0', of type str: pass an integer"):
            call("0")
    with pytest.raises(ctn.ArgumentError, match="index is -1: pass an integer from 0"):
        pack.compiled(-1)
    with pytest.raises(IndexError, match="index is 1, and the pack has 1 entries"):
        pack[1]
    with pytest.raises(ctn.ArgumentError, match=r"pass a catenary\.Chain"):
        pack.find("chain", "h200")
