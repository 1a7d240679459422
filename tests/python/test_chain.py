# SPDX-License-Identifier: Apache-2.0
"""Building chains: the text that calls give, facts, copies, and every refusal with its type."""

import copy
import pickle
import re
import weakref

import pytest
from conftest import make_linear

import catenary as ctn


def test_calls_give_the_text_of_the_chain(linear_chain):
    assert re.sub(r"\s+", " ", linear_chain.text) == (
        "chain layer( input x: f32[16, 24], weight w: f32[32, 24], weight b: f32[32]) { "
        't3 = contract "mk,nk->mn"(x, w) '
        "t4 = add(t3, b) t5 = silu(t4) return t5: f32 } "
    )


def test_examples_parse_and_print_to_themselves(root):
    files = sorted((root / "examples").glob("*.chain"))
    assert len(files) > 8
    for file in files:
        chain = ctn.Chain.parse(file.read_text())
        again = ctn.Chain.parse(chain.text)
        assert again.text == chain.text
        assert again.digest == chain.digest
        assert chain.name and f"chain {chain.name}" in chain.text


@pytest.mark.parametrize(
    "head", ["layer ", "layer[M in 1..4]", "layer batch_invariant ", "layer[M in 1..4] batch_invariant ",
             "layer algebraic_norms ", "layer batch_invariant algebraic_norms "]
)  # fmt: skip
def test_the_name_is_what_the_text_says(head):
    rows = "M" if "M" in head else "4"
    chain = ctn.Chain.parse(f"chain {head}(input x: f32[{rows}, 8]) {{ y = relu(x) return y: f32 }}")
    assert chain.name == "layer" and ctn.Chain.parse(chain.text).name == "layer"


def test_every_operation_has_a_function(root):
    table = (root / "ir/ops.def").read_text()
    operations = re.findall(r"CATENARY_OP\(\w+, (\w+), k(?:Elementwise|Reduction)", table)
    assert len(operations) > 30
    assert [name for name in operations if not callable(getattr(ctn, name, None))] == []


def test_operators_and_numbers():
    chain = ctn.Chain("ops")
    x = chain.input("x", "bf16", (4, 8))
    s = chain.input("s", "float32", (4,))
    y = (1 - x / 2) @ "mn" * (s @ "m") + -(x**2)
    chain.output(ctn.select(ctn.gt(y, 0.0), ctn.clamp(y, -1, 7), 0.0), ctn.bf16, strides=(16, 1), align=4)
    text = chain.text
    for part in ("constant(1)", '@ "m"', "pow(", "clamp(", "lo = -1", "strides[16, 1]", "align 4", "bf16[4, 8]"):
        assert part in text


def test_numbers_of_other_libraries():
    import decimal
    import fractions

    import numpy as np

    plain = ctn.Chain("numbers")
    x = plain.input("x", ctn.f32, (4,))
    plain.output(ctn.leaky_relu((2 + x) * 0.5, 0.25) + plain.constant(3), ctn.f32)
    for two, half, quarter, three in (
        (np.float32(2), np.float64(0.5), np.float16(0.25), np.int64(3)),
        (np.uint8(2), np.array(0.5), np.array(0.25, np.float32), np.longdouble(3)),
        (fractions.Fraction(2), decimal.Decimal("0.5"), fractions.Fraction(1, 4), decimal.Decimal(3)),
    ):
        chain = ctn.Chain("numbers")
        x = chain.input("x", ctn.f32, (4,))
        chain.output(ctn.leaky_relu(ctn.add(two, x) * half, quarter) + chain.constant(three), ctn.f32)
        assert chain.text == plain.text
        assert (np.float32(2) + x).rank == (x * np.float32(2)).rank == 1


def no_numbers():
    import numpy as np

    return [True, np.True_, 1j, np.complex64(1), "0.1", b"1", None, [1], np.ones(1), np.array(True), np.array("1")]


@pytest.mark.parametrize("value", no_numbers(), ids=lambda value: f"{type(value).__name__}-{value}")
def test_what_is_no_number(value):
    chain = ctn.Chain("numbers")
    x = chain.input("x", ctn.f32, (4,))
    for call in (
        lambda: x + value,
        lambda: ctn.mul(value, x),
        lambda: ctn.select(value, x, 0),
        lambda: ctn.leaky_relu(x, value),
        lambda: ctn.clamp(x, 0, value),
        lambda: chain.constant(value),
    ):
        with pytest.raises(ctn.ArgumentError) as caught:
            call()
        assert "number" in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(ctn.ArgumentError, match="is 1000.*finite in f32"):
        x + 10**400


def test_symbol_ragged_in_place_and_operands():
    chain = ctn.Chain("experts")
    rows = chain.symbol("M", 1, 64)
    x = chain.input("x", ctn.bf16, (rows, 32))
    w = chain.weight("w", ctn.bf16, (4, 32, 32))
    ends = chain.input("ends", ctn.i32, (4,))
    alpha = chain.scalar("alpha")
    y = ctn.contract("mk,enk->mn", x, w, ctn.Ragged("m", ends, "e"))
    chain.output_in_place(ctn.scale(y, alpha) + x, ctn.bf16, x)
    assert chain.symbol_range == ctn.SymbolRange("M", 1, 64)
    assert [p.name for p in chain.parameters] == ["x", "w", "ends", "alpha"]
    assert [p.role.name for p in chain.parameters] == ["input", "weight", "input", "scalar"]
    assert chain.parameters[0].shape == (ctn.symbol, 32) and chain.parameters[0].shape_for(7) == (7, 32)
    (out,) = chain.outputs
    assert (out.in_place, out.dtype, out.is_output, out.bytes) == (0, ctn.bf16, True, 64 * 32 * 2)
    assert "ragged m by ends over e" in chain.text and "inplace x" in chain.text
    assert repr(chain.parameters[0].shape) == "(symbol, 32)"


def test_words():
    chain = ctn.Chain("layer")
    chain.symbol("M", 1, 64)
    chain.word("rounded_weights")
    chain.word("batch_invariant")
    chain.word("batch_invariant")
    x = chain.input("x", ctn.bf16, (ctn.symbol, 32))
    chain.output(ctn.linear(x, chain.weight("w", ctn.bf16, (8, 32))), ctn.bf16)
    assert chain.text.startswith("chain layer[M in 1..64] batch_invariant rounded_weights (")
    assert ctn.Chain.parse(chain.text).text == chain.text
    with pytest.raises(ctn.ArgumentError, match=r"unknown word 'rounded'.*rounded_weights, or none"):
        chain.word("rounded")


def test_sums_and_operands_by_group():
    chain = ctn.Chain("groups")
    x, s = chain.input("x", ctn.f32, (6, 5)), chain.weight("s", ctn.f32, (2, 5))
    ends = chain.input("ends", ctn.i32, (2,))
    rows = ctn.Ragged("m", ends, "e")
    y = ctn.by_group("mul", rows, x @ "mn", s @ "en", name="y")
    d = ctn.sum("mn->en", y, name="d", ragged=rows)
    assert (y.rank, d.rank) == (2, 2)
    chain.output(d, ctn.f32)
    assert 'y = mul(x @ "mn", s @ "en") ragged m by ends over e' in chain.text
    assert 'd = sum "mn->en"(y) ragged m by ends over e' in chain.text
    assert ctn.Chain.parse(chain.text).digest == chain.digest
    with pytest.raises(ctn.ChainError, match="only in the operand and the group only in the result"):
        ctn.sum("mn->mn", y, ragged=rows)
    other = ctn.Chain("other").input("ends", ctn.i32, (2,))
    with pytest.raises(ctn.ArgumentError, match="combine values of one chain"):
        ctn.sum("mn->en", y, ragged=ctn.Ragged("m", other, "e"))


def test_digest_and_key_forget_names_only():
    a, b, other = make_linear(name="a"), make_linear(name="b"), make_linear(n=33)
    assert a.digest == b.digest != other.digest
    assert re.fullmatch("[0-9a-f]{64}", a.digest)
    assert a.key == int(a.digest, 16) >> 193 and a.key < 2**63


def test_facts_follow_a_chain_that_grows():
    chain = make_linear()
    before = chain.digest
    x = ctn.Tensor(chain, 0, 2)
    chain.output(ctn.relu(x), ctn.f16)
    assert len(chain.outputs) == 2 and chain.digest != before


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))])
def test_a_copy_is_an_equal_chain_of_its_own(copied, linear_chain):
    other = copied(linear_chain)
    assert other is not linear_chain and other.text == linear_chain.text
    x = ctn.Tensor(other, 0, 2)
    other.output(ctn.relu(x), ctn.f32)
    assert len(other.outputs) == 2 and len(linear_chain.outputs) == 1


def test_the_symbol_is_declared_first():
    chain = ctn.Chain("c")
    with pytest.raises(ctn.ArgumentError, match=r"parameter 'x' is the symbol.*declare it with Chain.symbol"):
        chain.input("x", ctn.f32, (ctn.symbol, 8))
    chain.symbol("M", 1, 4)
    chain.input("x", ctn.f32, (ctn.symbol, 8))


def test_the_symbol_survives_copies_and_pickling():
    for other in (pickle.loads(pickle.dumps(ctn.symbol)), copy.copy(ctn.symbol), copy.deepcopy(ctn.symbol)):
        assert other is ctn.symbol
    assert {ctn.symbol: 1}[ctn.Chain("c").symbol("M", 1, 2)] == 1
    assert ctn.symbol != -(2**63) and ctn.symbol != 0 and repr(ctn.symbol) == str(ctn.symbol) == "symbol"


COMPUTED = {
    "2 * M": lambda c, m: c.input("w", ctn.f16, (2 * m, 16)),
    "M - 1": lambda c, m: c.input("w", ctn.f16, (m - 1, 16)),
    "M // 2": lambda c, m: c.input("w", ctn.f16, (m // 2, 16)),
    "-M": lambda c, m: c.input("w", ctn.f16, (-m, 16)),
    "max(M, 4)": lambda c, m: c.input("w", ctn.f16, (max(m, 4), 16)),
    "int(M)": lambda c, m: int(m),
    "range(M)": lambda c, m: range(m),
    "x / M": lambda c, m: ctn.Tensor(c, 0, 2) / m,
    "M * x": lambda c, m: m * ctn.Tensor(c, 0, 2),
    "constant(M)": lambda c, m: c.constant(m),
    "exponent M": lambda c, m: ctn.Tensor(c, 0, 2) ** m,
    "strides of M": lambda c, m: c.input("w", ctn.f16, (m, 16), strides=(m, 1)),
    "align of M": lambda c, m: c.input("w", ctn.f16, (m, 16), align=m),
    "symbol of M": lambda c, m: c.symbol("N", m, m),
}


@pytest.mark.parametrize("case", COMPUTED)
def test_the_symbol_is_a_size_and_no_number(case):
    chain = ctn.Chain("c")
    m = chain.symbol("M", 1, 64)
    x = chain.input("x", ctn.f16, (m, 16))
    with pytest.raises(ctn.ArgumentError, match="symbol is computed with.*declare a Chain.scalar"):
        COMPUTED[case](chain, m)
    chain.output(x + 1, ctn.f16)
    assert "input x: f16[M, 16]) {" in chain.text


def test_dtype_of_many():
    import numpy as np

    for given, want in [
        ("bf16", ctn.bf16),
        ("bfloat16", ctn.bf16),
        (np.float32, ctn.f32),
        (np.dtype("f2"), ctn.f16),
        (ctn.i32, ctn.i32),
        ("torch.float16", ctn.f16),
    ]:
        assert ctn.DType.of(given) is want
    with pytest.raises(ctn.ArgumentError, match=r"float64.*bf16, f16, f32"):
        ctn.DType.of(np.float64)


def two_chains():
    a, b = make_linear(), make_linear()
    return ctn.Tensor(a, 0, 2), ctn.Tensor(b, 0, 2)


WRONG = {
    "parse": (lambda c: ctn.Chain.parse("chain x(\n  input x f32[1])"), ctn.ParseError, "parse", "expected ':'"),
    "empty name": (lambda c: ctn.Chain(""), ctn.ChainError, "invalid_chain", "name"),
    "zero byte": (lambda c: ctn.Chain("a\0b"), ctn.ArgumentError, "invalid_argument", "zero byte"),
    "no text": (lambda c: ctn.Chain(7), ctn.ArgumentError, "invalid_argument", "use str"),
    "strides": (
        lambda c: c.input("q", "f32", (2, 3), strides=(3,)),
        ctn.ArgumentError,
        "invalid_argument",
        "1 stride and 2 dimensions",
    ),
    "rank": (lambda c: c.input("q", "f32", (1,) * 9), ctn.ArgumentError, "invalid_argument", "use 0 to 8"),
    "size": (lambda c: c.input("q", "f32", (-1,)), ctn.ChainError, "invalid_chain", "-1"),
    "too large": (lambda c: c.input("q", "f32", (2**45,)), ctn.UnsupportedError, "resource_limit", "q"),
    "two names": (lambda c: c.input("x", "f32", (1,)), ctn.ChainError, "invalid_chain", "'x'"),
    "symbol without a declaration": (
        lambda c: c.input("q", "f32", (ctn.symbol,)),
        ctn.ArgumentError,
        "invalid_argument",
        "symbol",
    ),
    "op": (lambda c: ctn.elementwise("sillu", ctn.Tensor(c, 0, 2)), ctn.ArgumentError, "invalid_argument", "silu"),
    "shapes": (lambda c: ctn.linear(ctn.Tensor(c, 0, 2), ctn.Tensor(c, 2, 1)), ctn.ChainError, "invalid_chain", ""),
    "two chains": (lambda c: ctn.add(*two_chains()), ctn.ArgumentError, "invalid_argument", "one chain"),
    "output of another": (
        lambda c: c.output(two_chains()[0], "f32"),
        ctn.ArgumentError,
        "invalid_argument",
        "this chain",
    ),
    "no tensor": (lambda c: ctn.add(1.0, 2.0), ctn.ArgumentError, "invalid_argument", "Chain.constant"),
    "list": (lambda c: ctn.add(ctn.Tensor(c, 0, 2), [1]), ctn.ArgumentError, "invalid_argument", "list"),
    "in place of a weight": (
        lambda c: c.output_in_place(ctn.Tensor(c, 1, 2), "f32", ctn.Tensor(c, 1, 2)),
        ctn.ChainError,
        "invalid_chain",
        "",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_call_is_one_typed_sentence(case, linear_chain):
    call, kind, code, words = WRONG[case]
    before = linear_chain.text
    with pytest.raises(kind) as caught:
        call(linear_chain)
    error = caught.value
    assert error.code == code and words in str(error) and "\n" not in str(error)
    assert linear_chain.text == before


def test_a_parse_error_has_its_place_and_survives_pickling():
    with pytest.raises(ctn.ParseError) as caught:
        ctn.Chain.parse("chain x(\n  input x f32[1])")
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.line, error.column, error.code, type(error)) == (2, 11, "parse", ctn.ParseError)
    assert isinstance(error, ValueError)


def test_a_refused_operation_leaves_the_chain_as_it_is():
    chain = ctn.Chain("layer")
    x, w = chain.input("x", "f32", (4, 8)), chain.weight("w", "f32", (16, 8))
    other = ctn.Chain("other").input("b", "f32", (16,))
    for call in (
        lambda: ctn.add(x, 1.0, name="a b"),
        lambda: ctn.select(3.0, x, w),
        lambda: 2.0 * (x @ "m"),
        lambda: ctn.linear(x, w, other),
        lambda: ctn.linear(x, w, "b"),
        lambda: ctn.linear(x, w, x),
        lambda: ctn.silu(ctn.linear(x, w) * 2.0) + x,
    ):
        with pytest.raises(ctn.Error):
            call()
    chain.output(ctn.linear(x, w) * 3.0, "f32")
    chain.verify()
    assert chain.text.count("constant") == 1 and chain.text.count("contract") == 1
    assert ctn.Chain.parse(chain.text).digest == chain.digest
    chain.constant(2.0, name="two")
    with pytest.raises(ctn.ChainError, match="value 'two' reaches no output"):
        chain.verify()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_value_is_not_copied(copied):
    chain = ctn.Chain("half")
    x = chain.input("x", "f32", (2,))
    for value in (x, [x], {"x": x}) if copied is not copy.copy else (x,):
        with pytest.raises(ctn.ArgumentTypeError, match="a value belongs to its chain: copy the chain"):
            copied(value)
    assert weakref.ref(x)() is x


def test_the_absolute_value():
    chain = ctn.Chain("c")
    x = chain.input("x", "f32", (2,))
    chain.output(abs(x), "f32")
    assert "abs(x)" in chain.text


def test_an_unfinished_chain_is_printed():
    chain = ctn.Chain("half")
    chain.input("x", "f32", (2,))
    assert str(chain) == f"{chain}" == repr(chain) == "<catenary.Chain 'half'>"
    assert str(make_linear()) == make_linear().text


def test_an_unfinished_chain_has_no_text():
    chain = ctn.Chain("half")
    chain.input("x", "f32", (2,))
    for use in (lambda: chain.text, lambda: chain.operands, lambda: pickle.dumps(chain), chain.verify):
        with pytest.raises(ctn.ChainError):
            use()


def test_values_are_compared_by_functions():
    chain = ctn.Chain("c")
    x, y = (chain.input(name, ctn.f32, (4,)) for name in "xy")
    for compare in (lambda: x == 0, lambda: x != y, lambda: 0 == x, lambda: x in [y]):
        with pytest.raises(ctn.ArgumentTypeError, match=r"use ctn\.eq or ctn\.ne"):
            compare()
    with pytest.raises(ctn.ArgumentTypeError, match=r"is no bool: use ctn\.select"):
        _ = x and y
    assert x in [x] and len({x, y}) == 2
    chain.output(ctn.select(ctn.eq(x, 0), x, y), ctn.f32)
