# SPDX-License-Identifier: Apache-2.0
"""`repack` against the packages that write its formats: what they store, repacked, is what they say it stands for.
Skipped where a package is not installed."""

import re

import numpy as np
import pytest
from conftest import run_python

import catenary as ctn

torch = pytest.importorskip("torch")


def read_back(dtype, shape, group, packed, scale, zeros=None):
    """The weight that a chain reads: its product with the identity, in the reference."""
    n, k = shape
    chain = ctn.Chain("weight")
    x = chain.input("x", ctn.f16, (k, k))
    q = chain.weight("q", dtype, (n, k), packed=True)
    s = chain.weight("s", ctn.f32, (n, k // group))
    z = chain.weight("z", ctn.i8, (n, k // group)) if zeros is not None else None
    chain.output(ctn.linear(x, ctn.dequant(q, s, 1, group, z)), ctn.f32)
    arguments = [packed, scale] + ([zeros] if zeros is not None else [])
    return chain.reference(np.eye(k, dtype=np.float16), *arguments).T


def weight(n, k):
    return torch.randn(n, k, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("symmetric", [True, False], ids=["symmetric", "zeros"])
@pytest.mark.parametrize("group", [None, 32], ids=["channel", "g32"])
def test_compressed_tensors(bits, symmetric, group):
    """A module's state as a checkpoint has it: weight_packed, weight_scale, weight_zero_point, weight_shape."""
    pytest.importorskip("compressed_tensors")
    from compressed_tensors.compressors.pack_quantized.base import PackedQuantizationCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.utils import calculate_qparams

    n, k = 44, 128
    args = QuantizationArgs(
        num_bits=bits, symmetric=symmetric, strategy="group" if group else "channel", group_size=group
    )
    w = weight(n, k)
    groups = w.reshape(n, -1, group or k)
    scale, zero = calculate_qparams(groups.amin(-1), groups.amax(-1), args)
    state = {"weight": w, "weight_scale": scale.to(torch.float32), "weight_zero_point": zero.to(torch.int8)}
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    stored = PackedQuantizationCompressor.compress(state, scheme)
    assert tuple(stored["weight_shape"]) == (n, k) and "weight" not in stored
    assert ("weight_zero_point" in stored) == (not symmetric)
    dtype = ctn.i4 if bits == 4 else ctn.i8
    packed = ctn.repack(stored["weight_packed"], "compressed-tensors", dtype)
    zeros = None
    if not symmetric:
        zeros = ctn.repack_zeros(stored["weight_zero_point"], "compressed-tensors", dtype, n)
        assert (zeros != 0).any()
    got = read_back(dtype, (n, k), group or k, packed, stored["weight_scale"].numpy(), zeros)
    want = PackedQuantizationCompressor.decompress(stored, scheme)["weight"]
    np.testing.assert_array_equal(got, want.numpy())


def quantised(layer, config):
    """`layer`'s weight after torchao has quantised it in place."""
    torchao = pytest.importorskip("torchao.quantization")
    torchao.quantize_(layer, config(torchao))
    return layer.weight


def test_torchao_int8_weights():
    layer = torch.nn.Linear(128, 48, bias=False)
    q = quantised(layer, lambda ao: ao.Int8WeightOnlyConfig())
    packed = ctn.repack(q.qdata, "plain", ctn.i8)
    got = read_back(ctn.i8, (48, 128), 128, packed, q.scale.to(torch.float32).reshape(48, 1).numpy())
    np.testing.assert_array_equal(got, q.dequantize().numpy())


@pytest.mark.parametrize("symmetric", [True, False], ids=["symmetric", "zeros"])
def test_torchao_int4_weights_by_group(symmetric):
    """A value a byte."""
    layer = torch.nn.Linear(128, 40, bias=False)

    def config(ao):
        from torchao.quantization.granularity import PerGroup
        from torchao.quantization.quant_primitives import MappingType

        kind = MappingType.SYMMETRIC if symmetric else MappingType.ASYMMETRIC
        return ao.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32), mapping_type=kind)

    q = quantised(layer, config)
    packed = ctn.repack(q.qdata, "plain", ctn.i4)
    zeros = q.zero_point.to(torch.int8).reshape(40, 4).numpy()
    assert (zeros == 0).all() == symmetric
    got = read_back(ctn.i4, (40, 128), 32, packed, q.scale.to(torch.float32).reshape(40, 4).numpy(), zeros)
    np.testing.assert_array_equal(got, q.dequantize().numpy())


def test_the_example_of_a_checkpoint(root):
    pytest.importorskip("compressed_tensors")
    path = root / "examples/int4_checkpoint.py"
    output = run_python(f"import runpy; runpy.run_path({str(path)!r}, run_name='__main__')")
    assert re.search("(skinny|gemm)_dequant", output) and "768 elements compared, 0 wrong" in output
