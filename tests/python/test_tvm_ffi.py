# SPDX-License-Identifier: Apache-2.0
"""The functions that tvm-ffi finds in the library: results, scalars and symbols, errors; the structs of a call against
the package's header."""

import pathlib
import subprocess

import numpy as np
import pytest
from conftest import make_linear

import catenary as ctn
from catenary._native import library_path

tvm_ffi = pytest.importorskip("tvm_ffi")

CPU, CUDA = 1, 2


@pytest.fixture(scope="module")
def module():
    return tvm_ffi.load_module(str(library_path()))


def tensor(array):
    return tvm_ffi.from_dlpack(array)


def test_run_writes_the_caller_s_output(module):
    chain = make_linear()
    key = module.prepare(chain.text, CPU, 0)
    assert key == chain.key
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape).astype(np.float32) for p in chain.parameters]
    out = np.zeros((16, 32), np.float32)
    assert module.run(key, *map(tensor, arrays), tensor(out)) is None
    np.testing.assert_allclose(out, chain.reference(*arrays), rtol=2e-2, atol=2e-2)
    # Any array with DLPack is taken as it is.
    again = np.zeros_like(out)
    module.run(key, *(tensor(a) for a in arrays), tensor(again))
    np.testing.assert_array_equal(again, out)


def test_symbol_and_scalar(module):
    chain = ctn.Chain.parse("chain c[M in 1..8](input x: f32[M, 4], scalar a: f32) { y = scale(x, a) return y: f32 }")
    key = module.prepare(chain.text, CPU, 0)
    for size in (1, 8):
        x, y = np.ones((size, 4), np.float32), np.zeros((size, 4), np.float32)
        module.run(key, tensor(x), 2.5, tensor(y))
        assert (y == 2.5).all()
    module.run(key, tensor(x), 3, tensor(y))
    assert (y == 3).all()
    with pytest.raises(Exception, match="tensor 'y' has size 8 in dimension 0: pass 3"):
        module.run(key, tensor(x[:3]), 1.0, tensor(y))


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda m, k, x: m.prepare("chain x(", CPU, 0), "expected 'input'"),
        (lambda m, k, x: m.prepare(7, CPU, 0), "argument 0 is not chain text"),
        (lambda m, k, x: m.prepare("chain x("), r"got 1 arguments: call prepare\(text"),
        (lambda m, k, x: m.prepare("chain c(input x: f32[4]) { y = relu(x) return y: f32 }", 8, 0), "device_type is 8"),
        (lambda m, k, x: m.run(k + 1, x, x), "names no chain of this process"),
        (lambda m, k, x: m.run(k, x), r"call run\(key, parameters"),
        (lambda m, k, x: m.run(k, x, 1.0), "argument 2 is not a tensor"),
        (lambda m, k, x: m.run(k, x, x, x, x), r"got 5 arguments: call run"),
        (lambda m, k, x: m.run(k, tensor(np.zeros(4)), x), "tensor 'x' has DLPack's type 2 of 64 bits"),
        (lambda m, k, x: m.run(k, tensor(np.zeros((4, 1), np.float32)), x), "tensor 'x' has 2 dimensions"),
        (lambda m, k, x: m.run(k, tensor(np.zeros(8, np.float32)[::2]), x), "tensor 'x' has stride 2 in dimension 0"),
    ],
)
def test_a_wrong_call_is_one_sentence(module, call, words):
    key = module.prepare("chain c(input x: f32[4]) { y = relu(x) return y: f32 }", CPU, 0)
    with pytest.raises(ValueError, match=words):
        call(module, key, tensor(np.zeros(4, np.float32)))


def test_structs_are_those_of_the_package(root, tmp_path):
    include = pathlib.Path(tvm_ffi.__file__).parent / "include"
    source = tmp_path / "layout.cpp"
    checks = [
        "sizeof(catenary::tvm_ffi::Any) == sizeof(TVMFFIAny)",
        "offsetof(catenary::tvm_ffi::Any, integer) == offsetof(TVMFFIAny, v_int64)",
        "sizeof(TVMFFIObject) == catenary::tvm_ffi::kObjectHeader",
        "offsetof(catenary::tvm_ffi::ByteArray, size) == offsetof(TVMFFIByteArray, size)",
        "sizeof(ctn::DLPackTensor) == sizeof(DLTensor)",
    ]
    fields = {
        "data": "data",
        "device_type": "device",
        "ndim": "ndim",
        "code": "dtype",
        "shape": "shape",
        "strides": "strides",
        "byte_offset": "byte_offset",
    }
    checks += [f"offsetof(ctn::DLPackTensor, {a}) == offsetof(DLTensor, {b})" for a, b in fields.items()]
    types = {
        "kNone": "None",
        "kInt": "Int",
        "kFloat": "Float",
        "kDLTensor": "DLTensorPtr",
        "kRawText": "RawStr",
        "kSmallText": "SmallStr",
        "kText": "Str",
        "kTensor": "Tensor",
    }
    checks += [f"static_cast<int>(catenary::tvm_ffi::{a}) == kTVMFFI{b}" for a, b in types.items()]
    source.write_text(
        '#include <tvm/ffi/c_api.h>\n#include "adapters/tvm_ffi/tvm_ffi.h"\n'
        '#include "catenary/dlpack.hpp"\n' + "".join(f"static_assert({c});\n" for c in checks)
    )
    done = subprocess.run(
        [
            "c++",
            "-std=c++20",
            "-fsyntax-only",
            f"-I{root}",
            f"-I{root}/include",
            f"-I{include}",
            *(f"-I{path}" for path in include.parent.glob("3rdparty/dlpack/include")),
            str(source),
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
