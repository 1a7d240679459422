# SPDX-License-Identifier: Apache-2.0
"""The layers that torch_training.py trains: as chains, and as what PyTorch offers for the same result."""
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

EXPERT_ROWS = {"even": (4096, 4096, 4096, 4096), "odd": (4001, 3999, 4211, 4173)}


@dataclass
class Row:
    """`shapes`: of the tensors by name, in the order of the chain's parameters. `forms`: by peer, functions of the
    tensors; "eager" is the definition, in float64 too."""
    name: str
    text: str
    shapes: dict[str, tuple[int, ...]]
    flops: float  # of forward and backward
    forms: dict[str, Callable]
    ends: list[int] | None = None
    # What the layer multiplies, a name and the weight: names are of x, or of a value between.
    products: tuple[tuple[str, str], ...] = ()

    def tensors(self, device, seed=0):
        """Random tensors by name; weights are scaled by 1 / sqrt(their innermost size), biases are not."""
        generator = torch.Generator(device=device).manual_seed(seed)
        made = {}
        for name, shape in self.shapes.items():
            if name == "ends":
                made[name] = torch.tensor(self.ends, dtype=torch.int32, device=device)
                continue
            scale = 1 / math.sqrt(shape[-1]) if name.startswith("w") else 1
            made[name] = torch.randn(*shape, device=device, generator=generator, dtype=torch.bfloat16).mul_(scale)
        return made


def chain_text(name, shapes, body):
    def parameter(key, shape):
        role = "input" if key in ("x", "ends") else "weight"
        return f"{role} {key}: {'i32' if key == 'ends' else 'bf16'}[{', '.join(map(str, shape))}]"
    parameters = ", ".join(parameter(key, shape) for key, shape in shapes.items())
    lines = "".join(f"  {line}\n" for line in body)
    return f"chain {name}({parameters}) {{\n{lines}  return y: bf16\n}}\n"


# ---- grouped layers on [B, G, D] -----------------------------------------------------------------

GATED = (("x", "wg"), ("x", "wu"), ("h", "wd"))


def loop_over_groups(layer):
    """layer(x of a group, weights of a group ...) for each group of [B, G, D]."""
    def whole(x, *weights):
        return torch.stack([layer(x[:, g], *(w[g] for w in weights)) for g in range(x.shape[1])], 1)
    return whole


def product(x, w):
    """x [G, B, K] by w [G, N, K]."""
    return torch.bmm(x, w.transpose(1, 2))


def grouped_forms(layer, batched):
    """`batched` takes x as [G, B, D] and gives [G, B, D]: views, no copies."""
    def whole(x, *weights):
        return batched(x.transpose(0, 1), *weights).transpose(0, 1)
    return {"eager": loop_over_groups(layer), "batched": whole, "compile": whole}


def grouped_linear(b, g, n, k):
    shapes = {"x": (b, g, k), "w": (g, n, k)}
    return Row(f"grouped/{b}x{g}x{n}x{k}", chain_text("grouped", shapes, ['y = contract "bgk,gnk->bgn"(x, w)']),
               shapes, 6.0 * b * g * n * k, grouped_forms(F.linear, product), products=(("x", "w"),))


def grouped_bias_silu(b, g, n, k):
    shapes = {"x": (b, g, k), "w": (g, n, k), "b": (g, n)}
    text = chain_text("grouped_bias_silu", shapes, ['h = contract "bgk,gnk->bgn"(x, w)', 'y = silu(add(h, b @ "gn"))'])
    forms = grouped_forms(lambda x, w, bias: F.silu(F.linear(x, w, bias)),
                          lambda x, w, bias: F.silu(product(x, w) + bias.unsqueeze(1)))
    return Row(f"grouped_bias_silu/{b}x{g}x{n}x{k}", text, shapes, 6.0 * b * g * n * k, forms,
               products=(("x", "w"),))


def grouped_gated_mlp(b, g, n, k):
    shapes = {"x": (b, g, k), "wg": (g, n, k), "wu": (g, n, k), "wd": (g, k, n)}
    text = chain_text("grouped_gated_mlp", shapes, [
        'g = contract "bgk,gnk->bgn"(x, wg)', 'u = contract "bgk,gnk->bgn"(x, wu)',
        'h = cast(mul(silu(g), u), bf16)', 'y = contract "bgn,gkn->bgk"(h, wd)'])
    forms = grouped_forms(gated, lambda x, wg, wu, wd: product(F.silu(product(x, wg)) * product(x, wu), wd))
    return Row(f"grouped_gated_mlp/{b}x{g}x{n}x{k}", text, shapes, 18.0 * b * g * n * k, forms, products=GATED)


# ---- dense layers --------------------------------------------------------------------------------

def gated(x, wg, wu, wd):
    return F.linear(F.silu(F.linear(x, wg)) * F.linear(x, wu), wd)


def swiglu_mlp(m, n, k):
    shapes = {"x": (m, k), "wg": (n, k), "wu": (n, k), "wd": (k, n)}
    text = chain_text("swiglu_mlp", shapes, [
        'g = contract "mk,nk->mn"(x, wg)', 'u = contract "mk,nk->mn"(x, wu)',
        'h = cast(mul(silu(g), u), bf16)', 'y = contract "mn,kn->mk"(h, wd)'])
    return Row(f"swiglu_mlp/{m}x{n}x{k}", text, shapes, 18.0 * m * n * k, {"eager": gated, "compile": gated},
               products=GATED)


def linear_silu(m, n, k, bias):
    """A pair of rows, without and with a bias: what its gradient costs."""
    shapes = {"x": (m, k), "w": (n, k)} | ({"b": (n,)} if bias else {})
    name = "bias_silu" if bias else "silu"
    body = ['a = contract "mk,nk->mn"(x, w)', "y = silu(add(a, b))" if bias else "y = silu(a)"]
    whole = (lambda x, w, b: F.silu(F.linear(x, w, b))) if bias else (lambda x, w: F.silu(F.linear(x, w)))
    return Row(f"{name}/{m}x{n}x{k}", chain_text(name, shapes, body), shapes, 6.0 * m * n * k,
               {"eager": whole, "compile": whole}, products=(("x", "w"),))


def gelu_mlp(m, n, k):
    shapes = {"x": (m, k), "w1": (n, k), "b1": (n,), "w2": (k, n), "b2": (k,)}
    text = chain_text("gelu_mlp", shapes, [
        'a = contract "mk,nk->mn"(x, w1)', 'h = cast(gelu_tanh(add(a, b1)), bf16)',
        'd = contract "mn,kn->mk"(h, w2)', 'y = add(d, b2)'])

    def whole(x, w1, b1, w2, b2):
        return F.linear(F.gelu(F.linear(x, w1, b1), approximate="tanh"), w2, b2)
    return Row(f"gelu_mlp/{m}x{n}x{k}", text, shapes, 12.0 * m * n * k, {"eager": whole, "compile": whole},
               products=(("x", "w1"), ("h", "w2")))


# ---- experts -------------------------------------------------------------------------------------

def experts(kind, rows, n, k):
    m, e = sum(rows), len(rows)
    ends = list(itertools.accumulate(rows))
    shapes = {"x": (m, k), "w": (e, n, k), "ends": (e,)}
    text = chain_text("experts", shapes, ['y = contract "mk,enk->mn"(x, w) ragged m by ends over e'])
    starts = [0, *ends[:-1]]

    def loop(x, w, _):
        return torch.cat([F.linear(x[a:z], w[i]) for i, (a, z) in enumerate(zip(starts, ends))])
    grouped_mm = getattr(F, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)

    def grouped(x, w, ends):
        if grouped_mm is None:
            raise RuntimeError("this PyTorch has no grouped_mm")
        return grouped_mm(x, w.transpose(-2, -1), offs=ends)
    return Row(f"experts_{kind}/{e}x{m}x{n}x{k}", text, shapes, 6.0 * m * n * k,
               {"eager": loop, "batched": grouped, "compile": grouped}, ends)


def all_rows(scale=1):
    """The rows of the table. `scale` divides sizes, for a test of the script."""
    def size(n):
        return n if scale == 1 else max(16, n // scale // 16 * 16)
    grouped = (size(2560), 12 if scale == 1 else 3, size(3072), size(1024))
    return [grouped_linear(*grouped), grouped_bias_silu(*grouped), grouped_gated_mlp(*grouped),
            swiglu_mlp(size(8192), size(14336), size(4096)), gelu_mlp(size(8192), size(3072), size(768)),
            *(linear_silu(size(8192), size(4096), size(4096), bias) for bias in (False, True)),
            *(experts(kind, [max(1, r // scale) for r in rows], size(14336), size(4096))
              for kind, rows in EXPERT_ROWS.items())]
