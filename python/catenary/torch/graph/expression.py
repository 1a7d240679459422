# SPDX-License-Identifier: Apache-2.0
"""What a region computes, as expressions; activations that decompositions took apart are recognised here.

An expression is a number, or a tuple (op, *operands): ("product", i), ("input", i), ("silu", e), ("clamp", e, lo, hi),
("norm", i): what a norm multiplies rows by. Those of `norm.py` are of one norm: ("x",), ("vector", i), ("row_sum", e).
Equal expressions are one object, so that comparing them is cheap.
"""

from __future__ import annotations

import math
from typing import Any

Expression = Any
_INTERNED: dict[Any, Any] = {}


def make(op: str, *operands: Expression) -> Expression:
    """An expression, simplified."""
    key = (op, *map(_key, operands))
    found = _INTERNED.get(key)
    if found is None:
        found = _INTERNED[key] = _simplify((op, *operands))
        _KEEP.append((operands, found))  # ids stay theirs
    return found


def _key(operand: Expression) -> Any:
    if isinstance(operand, float) and operand == 0 and math.copysign(1, operand) < 0:
        return "-0.0"  # equals 0.0, but 1 / -0.0 is -inf
    return operand if isinstance(operand, (int, float, str)) else id(operand)


_KEEP: list[Any] = []


def _is(e: Expression, op: str) -> bool:
    return isinstance(e, tuple) and e[0] == op


def _near(value: Any, number: float) -> bool:
    return isinstance(value, (int, float)) and math.isclose(value, number, rel_tol=1e-5)


def _with_number(e: Expression, op: str) -> tuple[Expression, float] | None:
    """(x, number) of op(x, number) in either order."""
    if not _is(e, op):
        return None
    a, b = e[1], e[2]
    if isinstance(b, (int, float)):
        return a, b
    return (b, a) if isinstance(a, (int, float)) else None


def _plus_one(e: Expression) -> Expression | None:
    found = _with_number(e, "add")
    return found[0] if found and _near(found[1], 1) else None


def _times(e: Expression, number: float) -> Expression | None:
    found = _with_number(e, "mul")
    return found[0] if found and _near(found[1], number) else None


def _simplify(e: Expression) -> Expression:
    for rule in (_sigmoid, _silu, _gelu, _gelu_tanh, _square, _clamp):
        found = rule(e)
        if found is not None:
            return found
    return e


def _logistic(e: Expression) -> Expression | None:
    """x of 1 + exp(-x)."""
    inner = _plus_one(e)
    return inner[1][1] if inner is not None and _is(inner, "exp") and _is(inner[1], "neg") else None


def _sigmoid(e: Expression) -> Expression | None:
    if _is(e, "recip") and (x := _logistic(e[1])) is not None:
        return make("sigmoid", x)
    if _is(e, "div") and _near(e[1], 1) and (x := _logistic(e[2])) is not None:
        return make("sigmoid", x)
    return None


def _silu(e: Expression) -> Expression | None:
    if _is(e, "div") and _logistic(e[2]) is e[1]:
        return make("silu", e[1])
    if _is(e, "mul"):
        for a, b in ((e[1], e[2]), (e[2], e[1])):
            if _is(b, "sigmoid") and b[1] is a:
                return make("silu", a)
    return None


def _gelu(e: Expression) -> Expression | None:
    """x * 0.5 * (1 + erf(x / sqrt(2)))."""
    if not _is(e, "mul"):
        return None
    for a, b in ((e[1], e[2]), (e[2], e[1])):
        x, inner = _times(a, 0.5), _plus_one(b)
        if x is not None and inner is not None and _is(inner, "erf") and _times(inner[1], math.sqrt(0.5)) is x:
            return make("gelu", x)
    return None


def _gelu_tanh(e: Expression) -> Expression | None:
    """x * 0.5 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))."""
    if not _is(e, "mul"):
        return None
    for a, b in ((e[1], e[2]), (e[2], e[1])):
        x, inner = _times(a, 0.5), _plus_one(b)
        if x is None or inner is None or not _is(inner, "tanh"):
            continue
        polynomial = _times(inner[1], math.sqrt(2 / math.pi))
        if polynomial is None or not _is(polynomial, "add"):
            continue
        for first, second in ((polynomial[1], polynomial[2]), (polynomial[2], polynomial[1])):
            if first is x and (cube := _times(second, 0.044715)) is not None and _is_cube(cube, x):
                return make("gelu_tanh", x)
    return None


def _is_cube(e: Expression, x: Expression) -> bool:
    if _is(e, "pow"):
        return e[1] is x and e[2] == 3
    if not _is(e, "mul"):
        return False
    for a, b in ((e[1], e[2]), (e[2], e[1])):
        square = (_is(a, "square") and a[1] is x) or (_is(a, "mul") and a[1] is x and a[2] is x)
        if b is x and square:
            return True
    return False


def _square(e: Expression) -> Expression | None:
    return make("square", e[1]) if _is(e, "mul") and e[1] is e[2] and isinstance(e[1], tuple) else None


def _clamp(e: Expression) -> Expression | None:
    """min(max(x, lo), hi)."""
    outer = _with_number(e, "min")
    inner = _with_number(outer[0], "max") if outer else None
    if inner is not None and inner[1] <= outer[1]:
        return make("clamp", inner[0], inner[1], outer[1])
    return None
