# SPDX-License-Identifier: Apache-2.0
"""Every public function of the package with arguments of other kinds: see kinds.py."""

import numpy as np
import pytest
from conftest import data, make_linear
from kinds import failures, functions_of

import catenary as ctn

UNARY = (
    "relu relu2 gelu gelu_tanh quick_gelu silu sigmoid tanh softplus exp neg abs square sqrt rsqrt recip exp2 log erf "
    "sin cos"
)
OTHERS = "leaky_relu clamp pow select contract linear dequant sum reduce_max cast"
BINARY = "add sub mul div min max scale lt le gt ge eq ne"
# Classes that only this library makes, or that hold what they are given.
LEFT = {
    "DType", "Gradient", "GradientChain", "GradientKind", "GradientOperand", "Kernel", "Operand", "PackEntry", "Pass",
    "Plan", "Recompute", "Role", "SymbolRange", "WeightFormat", "Ragged", "Tensor", "Compiled", "Executable",
    "symbol", "Operand.shape_for", "Operand.bytes_shape", "Operand.bytes_strides",
}  # fmt: skip
NO_ARGUMENTS = {
    "Chain.verify", "Stream.synchronize", "default_engine", "device_count", "is_simulator", "reset_log",
    "use_simulator", "Executable.explain", "Compiled.explain", "Array.numpy",
}  # fmt: skip


def values():
    """A chain, x [16, 24], w [32, 24], b [32], and ends."""
    chain = ctn.Chain("kinds")
    x = chain.input("x", ctn.f32, (16, 24))
    w = chain.weight("w", ctn.f32, (32, 24))
    b = chain.weight("b", ctn.f32, (32,))
    return chain, x, w, b, ctn.Ragged("m", chain.input("ends", ctn.i32, (4,)), "e")


def on_values(name):
    """A function of ops by its name."""

    def make():
        chain, x, w, b, _ = values()
        arguments = {
            **{op: dict(x=x, name="t") for op in UNARY.split()},
            **{op: dict(a=x, b=x, name="t") for op in BINARY.split()},
            "leaky_relu": dict(x=x, slope=0.1, name="t"),
            "clamp": dict(x=x, lo=0.0, hi=1.0, name="t"),
            "pow": dict(x=x, exponent=2, name="t"),
            "select": dict(condition=x, a=x, b=x, name="t"),
            "contract": dict(equation="mk,nk->mn", left=x, right=w, ragged=None, name="t", true_f32=True,
                             fast_accum=False),
            "linear": dict(x=x, w=w, bias=b, name="t"),
            "dequant": dict(q=chain.weight("q", ctn.i8, (32, 24)), scale=chain.weight("s", ctn.f32, (32, 1)),
                            block_rows=1, block_columns=24, zero=chain.weight("z", ctn.i8, (32, 1)), name="t"),
            "sum": dict(equation="mn->n", x=x, name="t", ragged=None),
            "reduce_max": dict(equation="mn->n", x=x, name="t"),
            "cast": dict(x=x, dtype=ctn.f16, name="t"),
        }  # fmt: skip
        return getattr(ctn, name), arguments[name]

    return make


def of_chain(call, **arguments):
    """A method of a chain with an input x and an output y."""

    def make():
        chain, x, w, _, _ = values()
        given = {name: value(x, w) if callable(value) else value for name, value in arguments.items()}
        return lambda **named: call(chain, **named), given

    return make


def method(kind, make_object, name=None, **arguments):
    def make():
        owner = make_object()
        return getattr(owner, name) if name else owner, dict(arguments)

    return make


def layer():
    return ctn.default_engine().prepare(make_linear())


def launchable():
    return dict(stream=0, tensors=[0] * 4, scalars=(), symbol=0, workspace=0, allow_pdl=False, disable_pdl=False)


def ragged_call(name):
    def make():
        _, x, _, _, ragged = values()
        if name == "by_group":
            s = x.chain.weight("s", ctn.f32, (4,))
            given = dict(op="mul", ragged=ragged, attributes=(), name="t")
            return lambda op, ragged, **named: ctn.by_group(op, ragged, x @ "mk", s @ "e", **named), given
        return ctn.sum, dict(equation="mk->ek", x=x, name="t", ragged=ragged)

    return make


def ragged_part(part):
    def make():
        _, x, _, _, ragged = values()

        def call(value):
            parts = {"label": ragged.label, "ends": ragged.ends, "group": ragged.group, part: value}
            return ctn.sum("mk->ek", x, ragged=ctn.Ragged(**parts))

        return call, dict(value=getattr(ragged, part))

    return make


def packed():
    return np.zeros((32, 64), np.int8)


OPTIONS = dict(
    device="sim", cache_directory=None, cache="off", packs=(), jit=None, strict=False, trace_file="", line_info=False,
    allow_spills=False, unfused=False, split_k=0, force_tile="", batch_invariant=False, algebraic_norms=False,
    nvrtc_build="", helper=None, helper_program="", helper_memory_bytes=0, helper_seconds=0, warn=None,
)  # fmt: skip
x, w = (lambda x, w: x), (lambda x, w: w)
CALLS = {
    **{name: on_values(name) for name in (UNARY + " " + BINARY + " " + OTHERS).split()},
    "elementwise": lambda: (lambda op, operand, **named: ctn.elementwise(op, operand, **named),
                            dict(op="clamp", operand=values()[1], attributes=[0, 1], name="t")),
    "by_group": ragged_call("by_group"), "sum by group": ragged_call("sum"),
    "Ragged.label": ragged_part("label"), "Ragged.ends": ragged_part("ends"), "Ragged.group": ragged_part("group"),
    "Chain": lambda: (ctn.Chain, dict(name="c")),
    "Chain.parse": lambda: (ctn.Chain.parse, dict(text=make_linear().text)),
    "Chain.symbol": of_chain(ctn.Chain.symbol, name="M", lo=1, hi=4),
    "Chain.word": of_chain(ctn.Chain.word, word="batch_invariant"),
    "Chain.input": of_chain(ctn.Chain.input, name="q", dtype=ctn.f32, shape=(2, 3), strides=(3, 1), align=4,
                            packed=False),
    "Chain.weight": of_chain(ctn.Chain.weight, name="q", dtype=ctn.f32, shape=(2, 3), strides=(3, 1), align=4,
                             packed=False),
    "Chain.scalar": of_chain(ctn.Chain.scalar, name="s"),
    "Chain.constant": of_chain(ctn.Chain.constant, value=1.5, name="c"),
    "Chain.output": of_chain(ctn.Chain.output, value=x, dtype=ctn.f32, strides=(24, 1), align=16),
    "Chain.output_in_place": of_chain(ctn.Chain.output_in_place, value=lambda x, w: ctn.relu(x), dtype=ctn.f32,
                                      input=x),
    "Chain.shard": lambda: (make_linear().shard, dict(parts=[1, 1, 1])),
    "Chain.gradient": lambda: (make_linear().gradient, dict(wanted=["x"], recompute="none", save_budget=0,
                                                            f32_weights=False, accumulate=False)),
    "Chain.explain": lambda: (make_linear().explain, dict(target="h200")),
    "Chain.reference": lambda: (make_linear().reference,
                                dict(zip("xwb", data(make_linear()), strict=True), threads=1)),
    "gradient": lambda: (ctn.gradient, dict(chain=make_linear(), wanted=["x"], recompute="none", save_budget=0,
                                            f32_weights=False, accumulate=False)),
    "Tensor.labeled": of_chain(lambda chain, **named: chain.parameters and values()[1].labeled(**named), labels="mk"),
    **{f"Tensor {op}": (lambda op=op: (getattr(values()[1], op), {"*other": [1.0]}))
       for op in ("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__", "__rtruediv__",
                  "__pow__", "__matmul__")},
    "Engine": lambda: (ctn.Engine, dict(OPTIONS)),
    "Engine.compile": lambda: (ctn.default_engine().compile, dict(chain=make_linear(), target=None)),
    "Engine.explain": lambda: (ctn.default_engine().explain, dict(chain=make_linear(), target="h200")),
    "Engine.load": lambda: (ctn.default_engine().load, dict(compiled=layer().compiled, device=None, stream=None)),
    "Engine.prepare": lambda: (ctn.default_engine().prepare, dict(chain=make_linear(), device=None, stream=None)),
    "Engine.add_pack": lambda: (ctn.Engine(device="sim").add_pack, dict(pack="none", priority=0)),
    "Executable.__call__": lambda: (layer(), dict(zip("xwb", data(make_linear()), strict=True), out=None, stream=None,
                                                  workspace=None, allow_pdl=False, disable_pdl=False)),
    "Executable.launch": lambda: (layer().launch, launchable()),
    "Compiled.open": lambda: (ctn.Compiled.open, dict(path="none", expected_sha256="")),
    "Compiled.save": lambda: (layer().compiled.save, dict(path="saved")),
    "Pack": lambda: (ctn.Pack, dict(source="none", expected_sha256="", verify_all=False)),
    "PackWriter": lambda: (ctn.PackWriter, dict(without_explain=False, with_sources=False)),
    "PackWriter.add": lambda: (ctn.PackWriter().add, dict(compiled=layer().compiled)),
    "PackWriter.finish": lambda: (ctn.PackWriter().finish, dict(path="pack")),
    "Stream": lambda: (ctn.Stream, dict(device=0)),
    "Array": lambda: (ctn.Array, dict(dtype=ctn.f32, shape=(2, 3), strides=None, device=0)),
    "Array.of": lambda: (ctn.Array.of, dict(host=np.zeros(3, np.float32), device=0)),
    "packed_bytes": lambda: (ctn.packed_bytes, dict(dtype="i4", rows=32, columns=64)),
    "repack": lambda: (ctn.repack, dict(weight=packed(), format="plain", dtype="i8", columns=64)),
    "repack_zeros": lambda: (ctn.repack_zeros, dict(zeros=packed(), format="plain", dtype="i8", rows=32)),
    "set_log": lambda: (ctn.set_log, dict(callback=None, level="off")),
    "DType.of": lambda: (ctn.DType.of, dict(dtype="f32")),
    "WeightFormat.of": lambda: (ctn.WeightFormat.of, dict(format="gptq")),
    "Operand.shape_for": lambda: (make_linear().parameters[0].shape_for, dict(size=0)),
}  # fmt: skip
PACK = {
    "Pack.compiled": lambda pack: (pack.compiled, dict(index=0)),
    "Pack.find": lambda pack: (pack.find, dict(chain=make_linear(), target="h200")),
    "Pack.__getitem__": lambda pack: (pack.__getitem__, {"*index": [0]}),
}


def test_every_function_is_called():
    assert functions_of(ctn, LEFT) - set(CALLS) - set(PACK) - NO_ARGUMENTS == set()


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """What a wrong path writes, and the log that a call changes."""
    monkeypatch.chdir(tmp_path)
    yield
    ctn.reset_log()


@pytest.mark.parametrize("name", CALLS)
def test_kinds_of_arguments(name, capfd):
    found = failures(name, CALLS[name])
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", PACK)
def test_kinds_of_arguments_of_a_pack(name):
    writer = ctn.PackWriter()
    writer.add(layer().compiled)
    writer.finish("pack")
    pack = ctn.Pack("pack")
    found = [line for line in failures(name, lambda: PACK[name](pack)) if "IndexError" not in line]
    assert not found, "\n".join(found)
