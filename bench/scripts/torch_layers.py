#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The linear layers of a decoder layer, with norms, residuals and SwiGLU, against torch.compile: torch_layers.py OUT.json

A step is one CUDA graph of `--layers` layers with weights of their own, so that none stays in L2; contenders take
turns, each round in another order; a time is the median over the rounds, per layer. What attention returns is an
input. Results are compared with eager's; a contender that differs is not timed. Contenders:

    eager            modules of PyTorch
    inductor         torch.compile, mode max-autotune-no-cudagraphs
    catenary         one chain for each layer, with PDL; the gains of the norms as PyTorch has them
    catenary-folded  the gains folded into the weights that follow them
    catenary-algebraic  as `catenary`, with roundings of normalised rows that may be dropped (`algebraic_norms`)
    catenary-int4   the matrices in 4 bits with a scale for 128, 64 or 32 columns (as they divide K), gains folded

Every contender has weights that 4 bits and their scales represent. `copy_share` is the weights' bytes over the time,
over the rate of a device copy in the same run, which counts the bytes read and written.
"""

import argparse
import json
import statistics
from pathlib import Path

import torch
import torch.nn.functional as F

import catenary
from torch_models import MODE, Replay, commit, in_turns, time_us, timestamp

EPSILON = 1e-5
# width, columns of Q, of K and V, width of the MLP (0: none of these layers), biases of QKV and O
MODELS = {"llama-3-8b": (4096, 4096, 1024, 14336, False), "qwen2.5-7b": (3584, 3584, 512, 18944, True),
          "gpt-oss-20b": (2880, 4096, 512, 0, True)}
TINY = (128, 128, 64, 192, True)
CONTENDERS = ("eager", "inductor", "catenary", "catenary-folded", "catenary-algebraic", "catenary-int4")
# The gain in front of each weight.
GAINS = {"wq": "n1", "wk": "n1", "wv": "n1", "wg": "n2", "wu": "n2"}
# The largest allowed difference over the largest value: not all contenders round the normalised rows to bf16.
LARGEST_ERROR = 0.03


class Layer(torch.nn.Module):
    """One layer: x and what attention returns in; Q, K, V and the layer's result out."""

    def __init__(self, width, queries, keys, hidden, bias, device):
        super().__init__()

        def normal(*shape, scale=0.02):
            return torch.nn.Parameter(torch.randn(shape, device=device, dtype=torch.bfloat16) * scale, requires_grad=False)
        self.hidden, self.biased = hidden, bias
        self.n1 = normal(width, scale=0.1)
        self.n1 += 1
        self.wq, self.wk, self.wv, self.wo = (normal(queries, width), normal(keys, width), normal(keys, width),
                                              normal(width, queries))
        if bias:
            self.bq, self.bk, self.bv = normal(queries), normal(keys), normal(keys)
            self.bo = normal(width)
        if hidden:
            self.n2 = normal(width, scale=0.1)
            self.n2 += 1
            self.wg, self.wu, self.wd = normal(hidden, width), normal(hidden, width), normal(width, hidden)
        self.quantised = {name: self.quantise(name, p) for name, p in self.named_parameters() if p.dim() == 2}

    def quantise(self, name, weight):
        """The weight with its gain as a Quantised; the weight becomes what that represents."""
        gain = getattr(self, GAINS[name]).float() if name in GAINS else 1
        quantised = Quantised(weight.float() * gain)
        weight.copy_(quantised.wide() / gain)
        return quantised

    def forward(self, x, a):
        n = F.rms_norm(x, x.shape[-1:], self.n1, EPSILON)
        bias = (lambda name: getattr(self, name)) if self.biased else (lambda name: None)
        q, k, v = F.linear(n, self.wq, bias("bq")), F.linear(n, self.wk, bias("bk")), F.linear(n, self.wv, bias("bv"))
        y = F.linear(a, self.wo, bias("bo")) + x
        if self.hidden:
            n = F.rms_norm(y, y.shape[-1:], self.n2, EPSILON)
            y = F.linear(F.silu(F.linear(n, self.wg)) * F.linear(n, self.wu), self.wd) + y
        return q, k, v, y

    def chain(self, rows, folded, int4=False):
        """The chain's text; its parameters after x and a are those of this module that it names, in order."""
        names = [name for name, _ in self.named_parameters() if not (folded and name in ("n1", "n2"))]
        types = {name: f"bf16[{', '.join(map(str, getattr(self, name).shape))}]" for name in names}
        width, queries = self.wo.shape
        lines = []
        if int4:
            for name, one in self.quantised.items():
                n, k = one.q.shape
                types |= {f"{name}_q": f"i4[{n}, {k}] packed", f"{name}_s": f"bf16[{n}, {k // one.group}]"}
                lines.append(f"  {name} = dequant({name}_q, {name}_s) block (1, {one.group})")
                del types[name]
        names = list(types)
        parameters = "".join(f",\n    weight {name}: {type}" for name, type in types.items())

        def norm(x, gain, suffix):
            lines.append(f'  s{suffix} = rsqrt(add(mul(sum "mk->m"(square({x})), {1 / width!r}), {EPSILON!r}))')
            if folded:
                return x, f' @ "m"', f"s{suffix}"
            lines.append(f'  n{suffix}x = cast(mul(mul({x} @ "mk", s{suffix} @ "m"), {gain} @ "k"), bf16)')
            return f"n{suffix}x", "", None

        def product(x, weight, scale, bias=None):
            text = f'contract "mk,nk->mn"({x}, {weight})'
            text = f'mul({text}, {scale} @ "m")' if scale else text
            return f"add({text}, {bias})" if bias else text

        n, _, scale = norm("x", "n1", "1")
        for one in "qkv":
            lines.append(f"  {one} = {product(n, 'w' + one, scale, 'b' + one if self.biased else None)}")
        o = f"add({product('a', 'wo', None, 'bo' if self.biased else None)}, x)"
        if self.hidden:
            lines.append(f"  h = cast({o}, bf16)")
            n, _, scale = norm("h", "n2", "2")
            lines += [f"  g = {product(n, 'wg', scale)}", f"  u = {product(n, 'wu', scale)}",
                      "  s = cast(mul(silu(g), u), bf16)", '  y = add(contract "mk,nk->mn"(s, wd), h)']
        else:
            lines.append(f"  y = {o}")
        text = (f"chain layer(\n    input x: bf16[{rows}, {width}],\n    input a: bf16[{rows}, {queries}]{parameters}) {{\n" +
                "\n".join(lines) + "\n  return q: bf16, k: bf16, v: bf16, y: bf16\n}\n")
        return catenary.Chain.parse(text), names

    def weight_bytes(self, int4=False):
        return sum(self.quantised[name].bytes() if int4 and name in self.quantised else p.numel() * p.element_size()
                   for name, p in self.named_parameters())


class Quantised:
    """q [n, k] from -8 to 7 and scales bf16 [n, k / group] of a matrix."""

    def __init__(self, matrix):
        n, k = matrix.shape
        self.group = next(group for group in (128, 64, 32) if k % group == 0)
        groups = matrix.reshape(n, -1, self.group)
        self.scale = (groups.abs().amax(2) / 7).bfloat16()
        self.q = (groups / self.scale.float().unsqueeze(2)).round().clamp(-8, 7).to(torch.int8).reshape(n, k)

    def wide(self):
        n, k = self.q.shape
        return (self.q.float().reshape(n, -1, self.group) * self.scale.float().unsqueeze(2)).reshape(n, k)

    def packed(self):
        """As the kernels read it."""
        return torch.from_numpy(catenary.repack(self.q.cpu(), "plain", "i4")).to(self.q.device)

    def bytes(self):
        return self.q.numel() // 2 + self.scale.numel() * 2


def parameters_of(layer, name):
    """The parameters of the contender's chain by name."""
    if name == "catenary-int4":
        matrices = {f"{key}_q": one.packed() for key, one in layer.quantised.items()}
        return dict(layer.named_parameters()) | matrices | {f"{key}_s": one.scale for key, one in layer.quantised.items()}
    return fold(layer) if name.endswith("folded") else dict(layer.named_parameters())


def fold(layer):
    """The parameters by name, with the norms' gains in the weights that follow them."""
    parameters = dict(layer.named_parameters())
    for name, gain in GAINS.items():
        if name in parameters:
            parameters[name] = (parameters[name].float() * parameters[gain].float()).bfloat16()
    return parameters


def make(name, layers, x, a, engines):
    """A step of a contender: all layers, each on the result of the one before. Returns the step and its results."""
    results = {}
    if name.startswith("catenary"):
        int4, engine = name.endswith("int4"), engines[name.endswith("algebraic")]
        chain, names = layers[0].chain(x.shape[0], int4 or name.endswith("folded"), int4)
        executable = engine.prepare(chain)
        weights = [parameters_of(layer, name) for layer in layers]
        widths = (layers[0].wq.shape[0], layers[0].wk.shape[0], layers[0].wv.shape[0], x.shape[1])
        outs = [tuple(torch.empty(x.shape[0], width, device=x.device, dtype=x.dtype) for width in widths) for _ in layers]

        def step():
            y = x
            for one, out in zip(weights, outs):
                executable(y, a, *(one[n] for n in names), out=out, allow_pdl=True)
                y = out[3]
            results["out"] = outs
        return step, results, str(executable.explain())
    run = torch.compile(lambda y: forward(layers, y, a), mode=MODE, dynamic=False) if name == "inductor" else (
        lambda y: forward(layers, y, a))

    def step():
        with torch.no_grad():
            results["out"] = run(x)
    return step, results, ""


def forward(layers, y, a):
    outs = []
    for layer in layers:
        outs.append(layer(y, a))
        y = outs[-1][3]
    return outs


def error_of(out, expected):
    """The largest difference of the first layer's results, over the largest of eager's."""
    return max(float((mine.float() - his.float()).abs().max() / his.float().abs().max())
               for mine, his in zip(out[0], expected[0]))


def copy_tbs(device):
    """Bytes read and written per second by a device copy, in 1e12."""
    source = torch.empty((1 if device.type == "cuda" else 0) * 2**31 + 2**20, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    target.copy_(source)
    us = min(time_us(lambda: target.copy_(source), 5) for _ in range(5))
    return 2 * source.numel() / us / 1e6


def measure(sizes, rows, options, device, engines):
    torch.manual_seed(0)
    layers = [Layer(*sizes, device) for _ in range(options.layers)]
    x = torch.randn(rows, sizes[0], device=device, dtype=torch.bfloat16)
    a = torch.randn(rows, sizes[1], device=device, dtype=torch.bfloat16)
    row = {"rows": rows, "weight_bytes": layers[0].weight_bytes(), "contenders": {}}
    replays, expected = {}, None
    for name in options.contenders:
        torch._dynamo.reset()
        step, results, plan = make(name, layers, x, a, engines)
        replays[name] = Replay(step, layers[0])
        replays[name].run()
        entry = row["contenders"][name] = {}
        out = [[t.clone() for t in one] for one in results["out"]]
        expected = out if expected is None else expected
        entry["error_of_largest"] = error_of(out, expected)
        if not entry["error_of_largest"] < LARGEST_ERROR:
            entry["error"] = "differs from the first contender: not timed"
            del replays[name]
        if plan:
            entry["plan"] = plan
    times, _ = in_turns(replays, options)
    for name, steps in times.items():
        values = [us / len(layers) for us in steps]
        entry = row["contenders"][name]
        entry |= {"us": round(statistics.median(values), 3), "spread": [round(min(values), 3), round(max(values), 3)]}
        entry["weight_bytes"] = layers[0].weight_bytes(name.endswith("int4"))
        entry["copy_share"] = round(entry["weight_bytes"] / entry["us"] / options.copy_tbs / 1e6, 4)
    return row


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", help="the record, JSON; written after each row")
    parser.add_argument("--models", default=",".join(MODELS), help=f"of {', '.join(MODELS)}")
    parser.add_argument("--rows", default="1,16,64", help="rows of x")
    parser.add_argument("--contenders", default=",".join(CONTENDERS), help=f"of {', '.join(CONTENDERS)}; the first is compared with")
    parser.add_argument("--layers", type=int, default=8, help="of a step")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--round-ms", type=float, default=20, help="of one contender in one round")
    parser.add_argument("--tiny", action="store_true", help="small sizes and one round: a test of this script")
    options = parser.parse_args(arguments)
    options.contenders = options.contenders.split(",")
    if options.tiny:
        options.rounds, options.layers = 1, 2
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    options.copy_tbs = copy_tbs(device)
    engines = [catenary.Engine(device=None if device.type == "cuda" else "sim", algebraic_norms=one) for one in (False, True)]
    record = {"kind": "decoder layers", "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
              "torch": torch.__version__, "cuda": torch.version.cuda, "catenary": catenary.__version__, "commit": commit(),
              "date": timestamp(), "mode": MODE, "rounds": options.rounds, "layers": options.layers,
              "dtype": "bf16", "copy_tbs": round(options.copy_tbs, 4), "table": []}
    for model in options.models.split(","):
        for rows in map(int, options.rows.split(",")):
            row = {"model": model, **measure(TINY if options.tiny else MODELS[model], rows, options, device, engines)}
            record["table"].append(row)
            Path(options.out).write_text(json.dumps(record, indent=1) + "\n")
            for name, entry in row["contenders"].items():
                times = entry.get("error") or f"{entry['us']:9.2f} us, {entry['copy_share']:.3f} of the copy rate"
                print(f"{model:12} M={rows:<3} {name:16} {times}, error {entry['error_of_largest']:.1e}", flush=True)


if __name__ == "__main__":
    main()
