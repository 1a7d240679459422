# SPDX-License-Identifier: Apache-2.0
"""Quantised weights: chains with `dequant`, packed arrays in executables, and `repack` of formats whose packing is
written down here once more, from each format's description."""

import re

import numpy as np
import pytest

import catenary as ctn

FORMATS = ["plain", "compressed-tensors", "gptq", "gptq_v2", "awq"]
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]  # of eight adjacent outputs: the one in the lowest bits first


def low(dtype):
    return {"i8": -128, "i4": -8, "u4": 0}[dtype]


def random_values(rng, dtype, shape):
    bits = 8 if dtype == "i8" else 4
    return rng.integers(low(dtype), low(dtype) + 2**bits, shape)


def words(fields, bits):
    """Unsigned fields [..., 32 / bits], the first in the lowest bits -> int32 [...]."""
    out = np.zeros(fields.shape[:-1], np.uint32)
    for i in range(32 // bits):
        out |= fields[..., i].astype(np.uint32) << np.uint32(bits * i)
    return out.view(np.int32)


def padded_rows(matrix, multiple):
    return np.pad(matrix, ((0, -matrix.shape[0] % multiple), (0, 0)))


def stored(values, format, dtype):
    """A weight [N, K] as the format has it."""
    bits = 8 if dtype == "i8" else 4
    fields = 32 // bits
    n, k = values.shape
    if format == "plain":
        if bits == 8:
            return values.astype(np.int8)
        return ((values[:, 0::2] & 15) | ((values[:, 1::2] & 15) << 4)).astype(np.uint8)
    unsigned = values - low(dtype)
    if format == "compressed-tensors":
        return words(unsigned.reshape(n, k // fields, fields), bits)
    if format == "awq":
        return words(unsigned.T.reshape(k, n // 8, 8)[:, :, AWQ_ORDER], bits)
    return words(unsigned.T.reshape(k // fields, fields, n).transpose(0, 2, 1), bits)


def stored_zeros(zeros, format, dtype):
    """Zeros [N, G] of such a weight."""
    bits = 8 if dtype == "i8" else 4
    fields = 32 // bits
    if format == "plain":
        return zeros.astype(np.int8)
    unsigned = zeros - low(dtype)
    n, groups = zeros.shape
    if format == "compressed-tensors":
        padded = padded_rows(unsigned, fields)
        return words(padded.reshape(-1, fields, groups).transpose(0, 2, 1), bits)
    if format == "awq":
        return words(unsigned.T.reshape(groups, n // 8, 8)[:, :, AWQ_ORDER], bits)
    if format == "gptq":
        unsigned = (unsigned - 1) % 2**bits
    return words(unsigned.T.reshape(groups, n // fields, fields), bits)


def linear(dtype, n, k, group, zero=False, rows=4, x_dtype=ctn.f16, packed=True):
    """y = x w^T with w = (q - z) * s, a scale and a zero per row and `group` columns."""
    chain = ctn.Chain("layer")
    m = chain.symbol("M", 1, rows)
    x = chain.input("x", x_dtype, (m, k))
    q = chain.weight("q", dtype, (n, k), packed=packed)
    s = chain.weight("s", ctn.f32, (n, -(-k // group)))
    z = chain.weight("z", ctn.i8, (n, -(-k // group))) if zero else None
    w = ctn.dequant(q, s, 1, group, z)
    chain.output(ctn.linear(x, w), ctn.f32)
    return chain


def supported(format, dtype):
    return not ((format == "awq" and dtype == "i8") or (format == "compressed-tensors" and dtype == "u4"))


@pytest.mark.parametrize("dtype", ["i8", "i4", "u4"])
@pytest.mark.parametrize("format", FORMATS)
def test_a_weight_of_every_format_is_what_the_chain_reads(format, dtype):
    if not supported(format, dtype):
        with pytest.raises(ctn.ArgumentError, match=r"AWQ stores 4 bits|compressed-tensors stores signed"):
            ctn.repack(np.zeros((64, 8), np.int32), format, dtype)
        return
    rng = np.random.default_rng(1)
    n, k, group = 40, 128, 64
    values, zeros = random_values(rng, dtype, (n, k)), random_values(rng, dtype, (n, 2))
    scale = rng.choice([0.5, 1.0, 2.0], (n, 2)).astype(np.float32)
    packed = ctn.repack(stored(values, format, dtype), format, dtype)
    assert packed.dtype == np.uint8 and packed.shape == (ctn.packed_bytes(dtype, n, k),)
    shifts = ctn.repack_zeros(stored_zeros(zeros, format, dtype), format, dtype, n)
    np.testing.assert_array_equal(shifts, zeros.astype(np.int8))
    # Small integers and powers of two: every sum is exact.
    x = rng.integers(-2, 3, (3, k)).astype(np.float16)
    weight = (values - np.repeat(zeros, group, 1)) * np.repeat(scale, group, 1)
    y = linear(dtype, n, k, group, zero=True).reference(x, packed, scale, shifts)
    np.testing.assert_array_equal(y, (x.astype(np.float64) @ weight.T).astype(np.float32))


@pytest.mark.parametrize("dtype", ["i8", "i4", "u4"])
def test_zeros_of_rows_that_fill_no_word(dtype):
    zeros = random_values(np.random.default_rng(2), dtype, (11, 3))
    for format in ("plain", "compressed-tensors"):
        if supported(format, dtype):
            np.testing.assert_array_equal(
                ctn.repack_zeros(stored_zeros(zeros, format, dtype), format, dtype, 11), zeros
            )


def test_an_odd_number_of_columns():
    values = random_values(np.random.default_rng(3), "i4", (5, 7))
    half = stored(np.pad(values, ((0, 0), (0, 1))), "plain", "i4")
    packed = ctn.repack(half, "plain", "i4", columns=7)
    x = np.eye(7, dtype=np.float16)
    scale = np.ones((5, 1), np.float32)
    chain = linear("i4", 5, 7, 7, rows=8)
    np.testing.assert_array_equal(chain.reference(x, packed, scale).T, values)
    for columns in (5, 6, 9):
        with pytest.raises(ctn.ArgumentError, match=f"columns is {columns}, and the weight has 8"):
            ctn.repack(half, "plain", "i4", columns=columns)


@pytest.mark.parametrize("shape", [(5, 7), (40, 128), (3, 1), (0, 8), (4, 0)], ids=str)
@pytest.mark.parametrize("dtype", ["i4", "u4"])
def test_a_value_a_byte(dtype, shape):
    """int8 has one value of 4 bits a byte, uint8 has two."""
    values = random_values(np.random.default_rng(8), dtype, shape).astype(np.int8)
    before = values.copy()
    halves = stored(np.pad(values, ((0, 0), (0, shape[1] % 2))), "plain", dtype)
    want = ctn.repack(halves, "plain", dtype, columns=shape[1])
    assert want.shape == (ctn.packed_bytes(dtype, *shape),)
    for columns in (None, shape[1]):
        np.testing.assert_array_equal(ctn.repack(values, "plain", dtype, columns), want)
    np.testing.assert_array_equal(values, before)
    with pytest.raises(
        ctn.ArgumentError, match=f"columns is {shape[1] + 1}, and the weight has {shape[1]}: leave it out$"
    ):
        ctn.repack(values, "plain", dtype, shape[1] + 1)


@pytest.mark.parametrize(
    "dtype, wrong, holds", [("i4", 8, "-8 to 7"), ("i4", -9, "-8 to 7"), ("u4", -1, "0 to 15"), ("u4", 16, "0 to 15")]
)
def test_a_value_that_4_bits_do_not_hold(dtype, wrong, holds):
    values = np.ones((6, 10), np.int8)
    values[4, 3] = wrong
    with pytest.raises(
        ctn.ArgumentError,
        match=rf"weight has {wrong} at \[4, 3\], and {dtype} holds {holds}: pass int8.*uint8 with two$",
    ):
        ctn.repack(values, "plain", dtype)
    assert ctn.repack(values, "plain", "i8").shape == (ctn.packed_bytes("i8", 6, 10),)


@pytest.mark.parametrize("dtype", ["i8", "i4", "u4"])
@pytest.mark.parametrize("zero", [False, True], ids=["symmetric", "zeros"])
def test_the_kernel_s_result(dtype, zero, engine):
    rng = np.random.default_rng(4)
    n, k, group = 48, 256, 128
    chain = linear(dtype, n, k, group, zero)
    layer = engine.prepare(chain)
    assert [kernel.name for kernel in layer.kernels]
    assert re.search("(skinny|gemm)_dequant", str(layer.explain()))
    values = random_values(rng, dtype, (n, k))
    arguments = [ctn.repack(stored(values, "plain", dtype), "plain", dtype)]
    arguments.append(rng.choice([0.25, 0.5, 1.0], (n, 2)).astype(np.float32))
    if zero:
        arguments.append(random_values(rng, dtype, (n, 2)).astype(np.int8))
    for rows in (1, 4):
        x = rng.integers(-2, 3, (rows, k)).astype(np.float16)
        y = layer(x, *arguments)
        np.testing.assert_array_equal(y, chain.reference(x, *arguments))
        assert y.shape == (rows, n)


@pytest.mark.parametrize("dtype", ["i8", "i4", "u4"])
@pytest.mark.parametrize("zero", [False, True], ids=["symmetric", "zeros"])
def test_more_than_32_rows(dtype, zero, engine):
    rng = np.random.default_rng(9)
    n, k, group = 72, 320, 64
    chain = linear(dtype, n, k, group, zero, rows=300)
    layer = engine.prepare(chain)
    assert "gemm_dequant" in str(layer.explain())
    values = random_values(rng, dtype, (n, k))
    arguments = [ctn.repack(stored(values, "plain", dtype), "plain", dtype)]
    arguments.append(rng.choice([0.25, 0.5, 1.0], (n, 5)).astype(np.float32))
    if zero:
        arguments.append(random_values(rng, dtype, (n, 5)).astype(np.int8))
    for rows in (1, 33, 64, 129, 300):
        x = rng.integers(-2, 3, (rows, k)).astype(np.float16)
        y = layer(x, *arguments)
        np.testing.assert_array_equal(y, chain.reference(x, *arguments))
        assert y.shape == (rows, n)


@pytest.mark.parametrize("packed", [True, False], ids=["packed", "plain"])
@pytest.mark.parametrize("dtype", ["i8", "i4", "u4"])
def test_a_cast_is_a_matrix(dtype, packed, engine):
    """Each value is rounded once, from f32; the matrix is an output and an operand."""
    rng = np.random.default_rng(11)
    chain = ctn.Chain("matrix")
    x = chain.input("x", ctn.f16, (3, 40))
    q = chain.weight("q", dtype, (20, 40), packed=packed)
    s = chain.weight("s", ctn.f32, (10, 5))
    z = chain.weight("z", ctn.i8, (10, 5))
    w = ctn.cast(ctn.dequant(q, s, 2, 8, z), ctn.f16)
    chain.output(w, ctn.f16)
    chain.output(ctn.linear(x, w), ctn.f32)
    values, zeros = random_values(rng, dtype, (20, 40)), random_values(rng, dtype, (10, 5)).astype(np.int8)
    scale = rng.random((10, 5), np.float32)
    wide = np.repeat(np.repeat(np.stack([zeros.astype(np.float32), scale]), 2, 1), 8, 2)
    want = ((values.astype(np.float32) - wide[0]) * wide[1]).astype(np.float16)
    rows = rng.integers(-2, 3, (3, 40)).astype(np.float16)
    plain = stored(values, "plain", dtype)
    layer = engine.prepare(chain)
    assert layer.kernels[0].name.endswith("dequantise")
    matrix, y = layer(rows, ctn.repack(plain, "plain", dtype) if packed else plain, scale, zeros)
    np.testing.assert_array_equal(matrix, want)
    np.testing.assert_allclose(y, rows.astype(np.float64) @ want.astype(np.float64).T, rtol=1e-4, atol=1e-2)


def test_the_word_rounded_weights(engine):
    """A chain that no kernel computes as it is written."""
    text = """chain c[M in 1..40] {} (input x: f16[M, 72], weight q: i8[24, 72], weight s: f32[24, 1]) {{
      y = contract "mk,nk->mn"(x, dequant(q, s) block (1, 72))
      return y: f32
    }}"""
    with pytest.raises(ctn.UnsupportedError, match="; or give the chain the word rounded_weights: "):
        engine.prepare(ctn.Chain.parse(text.format("")))
    chain = ctn.Chain.parse(text.format("rounded_weights"))
    assert "rounded_weights" in chain.text and chain.name == "c"
    rng = np.random.default_rng(12)
    q, s = rng.integers(-128, 128, (24, 72)).astype(np.int8), np.full((24, 1), 0.5, np.float32)
    layer = engine.prepare(chain)
    for rows in (1, 40):
        x = rng.integers(-2, 3, (rows, 72)).astype(np.float16)
        np.testing.assert_array_equal(layer(x, q, s), x.astype(np.float64) @ (q * 0.5).T)


def test_the_state_of_a_gptq_layer_as_it_is(engine):
    """Scales [G, N] by strides, zeros, g = 64."""
    rng = np.random.default_rng(7)
    n, k, group = 32, 128, 64
    values, zeros = random_values(rng, "u4", (n, k)), random_values(rng, "u4", (n, 2))
    qweight, qzeros = stored(values, "gptq", "u4"), stored_zeros(zeros, "gptq", "u4")
    scales = rng.choice([0.25, 0.5, 1.0], (2, n)).astype(np.float16)
    chain = ctn.Chain("gptq")
    x = chain.input("x", ctn.f16, (3, k))
    q = chain.weight("q", ctn.u4, (n, k), packed=True)
    s = chain.weight("s", ctn.f16, (n, 2), strides=(1, n))
    z = chain.weight("z", ctn.i8, (n, 2))
    chain.output(ctn.linear(x, ctn.dequant(q, s, 1, group, z)), ctn.f32)
    rows = rng.integers(-2, 3, (3, k)).astype(np.float16)
    packed, shifts = ctn.repack(qweight, "gptq", "u4"), ctn.repack_zeros(qzeros, "gptq", "u4", n)
    y = engine.prepare(chain)(rows, packed, scales.T, shifts)
    weight = (values - np.repeat(zeros, group, 1)) * np.repeat(scales.T, group, 1).astype(np.float64)
    np.testing.assert_array_equal(y, (rows.astype(np.float64) @ weight.T).astype(np.float32))


def test_packed_weights_stay_on_the_device(engine):
    rng = np.random.default_rng(5)
    chain = linear("i4", 32, 128, 128)
    layer = engine.prepare(chain)
    packed = ctn.repack(stored(random_values(rng, "i4", (32, 128)), "plain", "i4"), "plain", "i4")
    scale = np.ones((32, 1), np.float32)
    x = rng.integers(-2, 3, (2, 128)).astype(np.float16)
    kept = ctn.Array.of(packed)
    assert kept.dtype is ctn.i8 and kept.shape == packed.shape
    np.testing.assert_array_equal(kept.numpy().view(np.uint8), packed)
    want = layer(x, packed, scale)
    np.testing.assert_array_equal(layer(x, kept, ctn.Array.of(scale)), want)
    np.testing.assert_array_equal(layer(x, packed.view(np.int8), scale), want)
    with pytest.raises(ctn.ArgumentError, match="an Array of i4 is not possible"):
        ctn.Array("i4", (2, 2))


def test_facts_text_and_a_weight_that_is_not_packed():
    chain = linear("u4", 24, 200, 128, zero=True)
    assert "weight q: u4[24, 200] packed" in chain.text
    assert ctn.Chain.parse(chain.text).digest == chain.digest
    q = chain.parameters[1]
    assert q.packed and q.bytes == ctn.packed_bytes("u4", 24, 200) == 2 * 4 * 16 * 64 // 2
    assert not chain.parameters[0].packed
    # Rows of two elements a byte.
    rng = np.random.default_rng(6)
    values, zeros = random_values(rng, "u4", (24, 200)), random_values(rng, "u4", (24, 2)).astype(np.int8)
    scale = np.ones((24, 2), np.float32)
    x = rng.integers(-2, 3, (2, 200)).astype(np.float16)
    plain = linear("u4", 24, 200, 128, zero=True, packed=False)
    assert "packed" not in plain.text
    half = stored(values, "plain", "u4")
    np.testing.assert_array_equal(
        plain.reference(x, half, scale, zeros), chain.reference(x, ctn.repack(half, "plain", "u4"), scale, zeros)
    )
    with pytest.raises(ctn.ArgumentError, match=r"two elements a byte: pass uint8 of shape \[24, 100\]"):
        plain.reference(x, values.astype(np.int8), scale, zeros)


def test_rows_of_two_elements_a_byte_with_gaps():
    chain = ctn.Chain("gaps")
    x = chain.input("x", ctn.f16, (2, 7))
    q = chain.weight("q", ctn.i4, (24, 7), strides=(16, 1))
    s = chain.weight("s", ctn.f32, (24, 1))
    chain.output(ctn.linear(x, ctn.dequant(q, s, 1, 7)), ctn.f32)
    memory = np.full((24, 8), 0x77, np.uint8)
    memory[:, :4] = 0x11
    ones, scale = np.ones((2, 7), np.float16), np.ones((24, 1), np.float32)
    np.testing.assert_array_equal(chain.reference(ones, memory[:, :4], scale), np.full((2, 24), 7))
    with pytest.raises(ctn.ArgumentError, match=r"'q' has strides \[4, 1\], and the chain takes \[8, 1\] bytes"):
        chain.reference(ones, memory[:, :4].copy(), scale)


def test_wrong_arguments(engine):
    chain = linear("i4", 32, 128, 128)
    layer = engine.prepare(chain)
    x, scale = np.zeros((2, 128), np.float16), np.ones((32, 1), np.float32)
    size = ctn.packed_bytes("i4", 32, 128)
    returned = rf"pass uint8 of shape \[{size}\], as catenary.repack returns it for a weight \[32, 128\]"
    says = "argument 'q' has dtype .*the chain takes i4, packed: " + returned
    for wrong in (np.zeros((32, 64), np.uint8), np.zeros(size - 1, np.uint8), np.zeros(size // 4, np.int32)):
        with pytest.raises(ctn.ArgumentError, match=says):
            layer(x, wrong, scale)
    with pytest.raises(ctn.ArgumentError, match="make it contiguous"):
        layer(x, np.zeros(2 * size, np.uint8)[::2], scale)
    matrix = np.zeros((8, 8), np.int32)
    cases = [
        ((matrix, "marlin", "i4"), "format is 'marlin': use one of 'plain'"),
        ((matrix, "gptq", "f16"), "only i8, i4 and u4"),
        ((matrix.astype(np.float32), "gptq", "i4"), "dtype float32 and shape .*takes a matrix of int32"),
        ((matrix, "plain", "i4"), "takes a matrix of int8 or uint8"),
        ((matrix[0], "gptq", "i4"), "a matrix of int32"),
        ((np.zeros((8, 16), np.int32)[:, ::2], "gptq", "i4"), "make it contiguous"),
        ((matrix, "gptq", "i4", 63), "columns is 63, and the weight has 64"),
    ]
    for arguments, says in cases:
        with pytest.raises(ctn.ArgumentError, match=says):
            ctn.repack(*arguments)
    with pytest.raises(ctn.ArgumentError, match="zeros has 4 bytes"):
        ctn.repack_zeros(np.zeros((1, 1), np.int32), "awq", "u4", 16)
    x_only = ctn.Chain("c")
    q = x_only.weight("q", "i4", (8, 8), packed=True)
    with pytest.raises(ctn.ChainError):
        x_only.output(ctn.relu(q), "f32")
    with pytest.raises(ctn.Error, match="packed"):
        x_only.weight("f", "f16", (8, 8), packed=True)
        x_only.verify()
