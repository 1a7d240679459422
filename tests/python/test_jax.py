# SPDX-License-Identifier: Apache-2.0
"""catenary.jax on CPU devices, or on a GPU by JAX_PLATFORMS=cuda,cpu: results, gradients against those of JAX, vmap,
symbols, errors; the structs of the call against the header of jaxlib."""

import os
import pathlib
import subprocess

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np
import pytest

import catenary as ctn

jax = pytest.importorskip("jax")
jnp = jax.numpy

from conftest import make_linear

import catenary.jax as ctnj


def test_one_value_returned_with_several_strides(host):
    chain = ctn.Chain("twice")
    x = chain.input("x", "f32", (4, 8))
    y = x * 2.0
    chain.output(y, "f32", strides=(1, 4))
    chain.output(y, "f32")
    given = jnp.arange(32, dtype=jnp.float32).reshape(4, 8)
    for call in (ctnj.call, jax.jit(ctnj.call, static_argnums=0)):
        for got, want in zip(call(chain, given), (2 * given, 2 * given), strict=True):
            np.testing.assert_array_equal(got, want)


def test_a_parameter_that_is_called_chain():
    chain = ctn.Chain("names")
    chain.output(chain.input("chain", "f32", (4,)) * 2.0, "f32")
    assert (ctnj.call(chain, chain=jnp.ones(4)) == 2).all()


def test_scalars_of_either_sign_of_zero():
    chain = ctn.Chain("sign")
    chain.output(ctn.scale(chain.input("x", "f32", (4,)), chain.scalar("a")), "f32")
    x = jnp.ones(4, jnp.float32)
    for zero in (0.0, -0.0, 0.0):
        assert np.signbit(ctnj.call(chain, x, zero)).all() == np.signbit(zero)


def silu_layer(x, w, b):
    return jax.nn.silu(jnp.dot(x, w.T, precision="highest") + b)


def arrays_of(chain, seed=0):
    rng = np.random.default_rng(seed)
    return [
        jnp.asarray(
            rng.standard_normal(p.shape),
            jnp.dtype(p.dtype.name.replace("bf16", "bfloat16").replace("f16", "float16").replace("f32", "float32"))
            if p.dtype != ctn.bf16
            else jnp.bfloat16,
        )
        for p in chain.parameters
    ]


@pytest.fixture(params=["reference", "simulator"])
def host(request):
    if request.param == "simulator" and not ctn.is_simulator() and ctn.device_count() > 0:
        pytest.skip("the device of this process is a GPU")
    ctnj.set_host(request.param)
    yield request.param
    ctnj.set_host("reference")


@pytest.mark.parametrize("dtype", [ctn.f32, ctn.bf16], ids=str)
def test_a_call_under_jit(host, dtype):
    chain = make_linear(dtype=dtype, true_f32=dtype == ctn.f32)
    arrays = arrays_of(chain)
    y = jax.jit(lambda *a: ctnj.call(chain, *a) * 2)(*arrays)
    want = silu_layer(*(a.astype(jnp.float32) for a in arrays)) * 2
    assert y.dtype == arrays[0].dtype
    np.testing.assert_allclose(y.astype(jnp.float32), want, rtol=3e-2, atol=3e-2 if dtype == ctn.bf16 else 1e-4)
    np.testing.assert_array_equal(ctnj.call(chain, *arrays) * 2, y)


@pytest.mark.parametrize("recompute", ["none", "all"])
def test_gradients_are_jax_s(host, recompute):
    chain = make_linear(m=6, n=8, k=16, true_f32=True)
    arrays = arrays_of(chain)
    weight = jnp.asarray(np.random.default_rng(9).standard_normal((6, 8)), jnp.float32)
    loss = lambda f: jax.jit(jax.grad(lambda *a: (f(*a) * weight).sum(), argnums=(0, 1, 2)))(*arrays)
    got = loss(lambda *a: ctnj.call(chain, *a, recompute=recompute))
    for g, want in zip(got, loss(silu_layer), strict=True):
        np.testing.assert_allclose(g, want, rtol=1e-3, atol=1e-4)


def test_gradient_of_a_transposed_weight():
    chain = ctn.Chain("transposed")
    x, w = chain.input("x", "f32", (4, 8)), chain.weight("w", "f32", (6, 8), strides=(1, 6))
    chain.output(ctn.contract("mk,nk->mn", x, w, true_f32=True), "f32")
    rng = np.random.default_rng(0)
    a, b = (jnp.asarray(rng.standard_normal(s), jnp.float32) for s in ((4, 8), (6, 8)))
    np.testing.assert_allclose(ctnj.call(chain, a, b), jnp.dot(a, b.T, precision="highest"), rtol=1e-5, atol=1e-5)
    got = jax.grad(lambda w: (ctnj.call(chain, a, w) ** 2).sum())(b)
    want = jax.grad(lambda w: (jnp.dot(a, w.T, precision="highest") ** 2).sum())(b)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_vmap_is_a_loop_of_calls():
    chain = make_linear(m=4, n=8, k=16, true_f32=True)
    x, w, b = arrays_of(chain)
    batch = jnp.stack([x, 2 * x, -x])
    got = jax.jit(jax.vmap(lambda x: ctnj.call(chain, x, w, b)))(batch)
    np.testing.assert_allclose(got, jax.vmap(lambda x: silu_layer(x, w, b))(batch), rtol=1e-4, atol=1e-5)


def test_symbol_scalar_groups_and_several_outputs(host):
    chain = ctn.Chain("experts")
    m = chain.symbol("M", 1, 32)
    x, w = chain.input("x", "f32", (m, 8)), chain.weight("w", "f32", (2, 8, 8))
    ends = chain.input("ends", "i32", (2,))
    a = chain.scalar("a")
    y = ctn.contract("mk,enk->mn", x, w, ctn.Ragged("m", ends, "e"), true_f32=True)
    chain.output(ctn.scale(y, a), "f32")
    chain.output(ctn.relu(y), "f16")
    rng = np.random.default_rng(2)
    for size in (3, 32):
        v = jnp.asarray(rng.standard_normal((size, 8)), jnp.float32)
        u = jnp.asarray(rng.standard_normal((2, 8, 8)), jnp.float32)
        e = jnp.asarray([1, size], jnp.int32)
        scaled, half = jax.jit(lambda v, u, e: ctnj.call(chain, v, u, e, a=0.5))(v, u, e)
        exact = [jnp.matmul(a, b.T, precision="highest") for a, b in ((v[:1], u[0]), (v[1:], u[1]))]
        want = jnp.concatenate(exact)
        np.testing.assert_allclose(scaled, want * 0.5, rtol=1e-4, atol=1e-4)
        assert half.dtype == jnp.float16
    slope = jax.grad(lambda v: ctnj.call(chain, v, u, e, 2.0)[0].sum())(v)
    np.testing.assert_allclose(slope[0], 2 * u[0].sum(0), rtol=1e-4, atol=1e-4)


def test_in_place_is_a_new_array(host):
    chain = ctn.Chain("step")
    x = chain.input("x", "f32", (4, 4))
    chain.output_in_place(x * 3.0, "f32", x)
    a = jnp.ones((4, 4), jnp.float32)
    y = jax.jit(lambda a: (ctnj.call(chain, a), a + 1))(a)
    np.testing.assert_array_equal(y[0], 3 * np.ones((4, 4)))
    np.testing.assert_array_equal(y[1], 2 * np.ones((4, 4)))
    with pytest.raises(ctn.UnsupportedError):
        jax.grad(lambda a: ctnj.call(chain, a).sum())(a)


def test_wrong_arguments_are_found_while_tracing():
    chain = make_linear()
    x, w, b = arrays_of(chain)
    with pytest.raises(ctn.ArgumentError, match=r"argument 'w' has shape \[31, 24\]"):
        jax.jit(lambda w: ctnj.call(chain, x, w, b))(w[:31])
    with pytest.raises(ctn.ArgumentError, match="argument 'x' has dtype bfloat16"):
        ctnj.call(chain, x.astype(jnp.bfloat16), w, b)
    with pytest.raises(ctn.ArgumentError, match="place is 'gpu'"):
        ctnj.set_host("gpu")
    gaps = ctn.Chain("gaps")
    gaps.output(ctn.relu(gaps.input("x", "f32", (4, 4), strides=(8, 1))), "f32")
    with pytest.raises(ctn.ArgumentError, match="leave gaps"):
        ctnj.call(gaps, jnp.ones((4, 4)))
    scaled = ctn.Chain("scaled")
    scaled.output(ctn.scale(scaled.input("x", "f32", (4,)), scaled.scalar("a")), "f32")
    with pytest.raises(ctn.ArgumentError, match="argument 'a' is .*: pass a float"):
        jax.jit(lambda a: ctnj.call(scaled, jnp.ones(4), a))(1.0)
    quantised, tensors, _ = quantised_layer("i4", zero=False)
    with pytest.raises(ctn.ArgumentError, match=r"i4, packed: pass uint8 of shape \[1536\], as catenary.repack"):
        ctnj.call(quantised, tensors[0], tensors[1][:-1], *tensors[2:])
    with pytest.raises(ctn.Error, match="gradient"):
        jax.grad(lambda x: ctnj.call(quantised, x, *tensors[1:]).sum().astype("float32"))(tensors[0])


def quantised_layer(dtype, zero, rows=5, packed=True):
    """A chain x ((q - z) s)^T of bf16 x [rows, 64], its arrays, and the result in float64."""
    n, k, group = 48, 64, 32
    rng = np.random.default_rng(1)
    low, high = {"i8": (-128, 128), "i4": (-8, 8), "u4": (0, 16)}[dtype]
    values = rng.integers(low, high, (n, k))
    scale, zeros = rng.integers(1, 4, (n, k // group)), rng.integers(-8, 8, (n, k // group))
    x = rng.integers(-2, 3, (rows, k))
    stored = values.astype(np.int8)
    if dtype != "i8":
        stored = (values[:, 0::2] & 15 | (values[:, 1::2] & 15) << 4).astype(np.uint8)
    chain = ctn.Chain("quantised")
    chain.symbol("M", 1, 32)
    a = chain.input("x", ctn.bf16, (ctn.symbol, k))
    q, s = chain.weight("q", dtype, (n, k), packed=packed), chain.weight("s", ctn.f32, scale.shape)
    z = chain.weight("z", ctn.i8, zeros.shape) if zero else None
    chain.output(ctn.linear(a, ctn.dequant(q, s, 1, group, z)), ctn.bf16)
    arrays = [jnp.asarray(x, jnp.bfloat16), ctn.repack(stored, "plain", dtype) if packed else stored]
    arrays += [jnp.asarray(scale, jnp.float32)] + ([jnp.asarray(zeros, jnp.int8)] if zero else [])
    wide = lambda blocks: np.repeat(blocks, group, 1)
    return chain, arrays, x @ ((values - wide(zeros) * zero) * wide(scale)).T


def close_to_bf16(got, wanted):
    np.testing.assert_allclose(np.asarray(got).astype(float), wanted, rtol=2**-8, atol=1)


@pytest.mark.parametrize("packed", [True, False], ids=["packed", "rows"])
@pytest.mark.parametrize("dtype", ["i8", "i4", "u4"])
@pytest.mark.parametrize("zero", [False, True], ids=["symmetric", "zeros"])
def test_quantised_weights_are_their_bytes(dtype, zero, packed):
    chain, arrays, wanted = quantised_layer(dtype, zero, packed=packed)
    if jax.default_backend() == "gpu" and not packed:
        with pytest.raises(ctn.UnsupportedError, match="ctn_repack"):
            ctnj.call(chain, *arrays)
        return
    close_to_bf16(jax.jit(lambda *a: ctnj.call(chain, *a))(*arrays), wanted)
    batch = jax.vmap(lambda x: ctnj.call(chain, x, *arrays[1:]))(jnp.stack([arrays[0], -arrays[0]]))
    close_to_bf16(batch[1], -wanted)


def test_bytes_and_fp8_in_the_simulator():
    chain, arrays, wanted = quantised_layer("i4", True)
    layer = ctn.Chain("fp8")
    x, w = layer.input("x", ctn.e4m3, (64, 64)), layer.weight("w", ctn.e4m3, (32, 64))
    layer.output(ctn.linear(x, w), ctn.e5m2)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, shape) for shape in ((64, 64), (32, 64)))
    ctnj.set_host("simulator")
    try:
        close_to_bf16(ctnj.call(chain, *arrays), wanted)
        y = ctnj.call(layer, jnp.asarray(a, jnp.float8_e4m3fn), jnp.asarray(b, jnp.float8_e4m3fn))
    finally:
        ctnj.set_host("reference")
    np.testing.assert_array_equal(np.asarray(y).astype(float), (a @ b.T).astype(jnp.float8_e5m2).astype(float))


@pytest.mark.parametrize("shape, strides", [((4, 0), None), ((0, 4), None), ((4, 0, 3), (1, 8, 64))])
def test_arrays_without_elements(shape, strides, host):
    chain = ctn.Chain("none")
    chain.output(ctn.relu(chain.input("x", "f32", shape, strides=strides)), "f32")
    y = ctnj.call(chain, jnp.ones(shape))
    assert y.shape == shape and y.dtype == jnp.float32


def test_a_call_that_this_package_did_not_make_is_an_error():
    ctnj.call(make_linear(), *arrays_of(make_linear()))  # registers the target
    spec = jax.ShapeDtypeStruct((4,), jnp.float32)
    with pytest.raises(Exception, match="has no text 'chain': make it by catenary.jax"):
        jax.ffi.ffi_call("catenary", spec)(jnp.ones(4)).block_until_ready()
    chain = make_linear()
    with pytest.raises(Exception, match="the chain has the key"):
        jax.ffi.ffi_call("catenary", spec)(
            jnp.ones(4), chain=make_linear(n=99).text, key=np.int64(chain.key + 1), symbol=np.int64(0), host=np.int64(0)
        ).block_until_ready()


def test_structs_are_those_of_jaxlib(root, tmp_path):
    """Offsets of adapters/xla/xla_ffi.h against xla/ffi/api/c_api.h of API version 0.3 or 0.4."""
    header = pathlib.Path(jax.ffi.include_dir(), "xla/ffi/api/c_api.h").read_text()
    assert "XLA_FFI_API_MAJOR 0" in header
    renamed = "XLA_FFI_Error_GetDetails" in header  # 0.4
    extension, message = ("InternalExtension", "GetDetails") if renamed else ("Extension_Base", "GetMessage")
    pairs = {
        "Extension": (f"XLA_FFI_{extension}", ["struct_size", "type", "next"]),
        "Version": ("XLA_FFI_Api_Version", ["major=major_version", "minor=minor_version"]),
        "Metadata": ("XLA_FFI_Metadata", ["version=api_version", "traits", "state_type=state_type_id"]),
        "MetadataExtension": ("XLA_FFI_Metadata_Extension", ["metadata"]),
        "Buffer": ("XLA_FFI_Buffer", ["dtype", "data", "rank", "dims"]),
        "Buffers": ("XLA_FFI_Args", ["size", "types", "buffers=args"]),
        "Bytes": ("XLA_FFI_ByteSpan", ["data=ptr", "size=len"]),
        "Scalar": ("XLA_FFI_Scalar", ["dtype", "value"]),
        "Array": ("XLA_FFI_Array", ["dtype", "size", "data"]),
        "Attributes": ("XLA_FFI_Attrs", ["size", "types", "names", "values=attrs"]),
        "ErrorCreate": ("XLA_FFI_Error_Create_Args", ["message", "code=errc"]),
        "ErrorMessage": (f"XLA_FFI_Error_{message}_Args", ["error", "message", *["code=errc"] * renamed]),
        "ErrorDestroy": ("XLA_FFI_Error_Destroy_Args", ["error"]),
        "StreamGet": ("XLA_FFI_Stream_Get_Args", ["context=ctx", "stream"]),
        "DeviceOrdinalGet": ("XLA_FFI_DeviceOrdinal_Get_Args", ["context=ctx", "ordinal=device_ordinal"]),
        "Api": (
            "XLA_FFI_Api",
            [
                "version=api_version",
                "error_create=XLA_FFI_Error_Create",
                f"error_message=XLA_FFI_Error_{message}",
                "error_destroy=XLA_FFI_Error_Destroy",
                "stream_get=XLA_FFI_Stream_Get",
                "device_ordinal=XLA_FFI_DeviceOrdinal_Get",
            ],
        ),
        "CallFrame": (
            "XLA_FFI_CallFrame",
            ["api", "context=ctx", "stage", "arguments=args", "results=rets", "attributes=attrs", "future"],
        ),
    }
    lines = []
    for ours, (theirs, fields) in pairs.items():
        for field in fields:
            a, _, b = field.partition("=")
            lines.append(f"static_assert(offsetof(catenary::xla::{ours}, {a}) == offsetof({theirs}, {b or a}));")
    for ours, theirs in {
        "kArray": "AttrType_ARRAY",
        "kScalar": "AttrType_SCALAR",
        "kString": "AttrType_STRING",
        "kS64": "DataType_S64",
        "kBF16": "DataType_BF16",
        "kF16": "DataType_F16",
        "kF32": "DataType_F32",
        "kS32": "DataType_S32",
        "kS8": "DataType_S8",
        "kU8": "DataType_U8",
        "kF8E4M3FN": "DataType_F8E4M3FN",
        "kF8E5M2": "DataType_F8E5M2",
        "kExecute": "ExecutionStage_EXECUTE",
        "kInvalidArgument": "Error_Code_INVALID_ARGUMENT",
        "kInternal": "Error_Code_INTERNAL",
        "kMetadataExtension": "Extension_Metadata",
    }.items():
        lines.append(f"static_assert(static_cast<int>(catenary::xla::{ours}) == XLA_FFI_{theirs});")
    source = tmp_path / "layout.cpp"
    source.write_text('#include "xla/ffi/api/c_api.h"\n#include "adapters/xla/xla_ffi.h"\n' + "\n".join(lines))
    done = subprocess.run(
        ["c++", "-std=c++20", "-fsyntax-only", f"-I{root}", f"-I{jax.ffi.include_dir()}", str(source)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
