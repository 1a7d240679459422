# SPDX-License-Identifier: Apache-2.0
"""Arguments of wrong types and sizes: what ctypes would truncate, and errors that are all of catenary's classes."""

import numpy as np
import pytest
from conftest import make_linear

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


def test_a_launch_with_a_symbol_that_no_integer_holds(engine):
    layer = engine.prepare(make_linear())
    with pytest.raises(ctn.ArgumentError, match="symbol is 18446744073709551616: pass an integer from"):
        layer.launch(0, [0] * 4, symbol=2**64)
    with pytest.raises(ctn.ArgumentError, match="device is 4294967296: pass an integer from 0 to 2147483647"):
        engine.prepare(make_linear(), device=2**32)
