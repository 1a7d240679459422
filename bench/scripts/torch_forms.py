#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One layer of a few rows in several forms, against each other: torch_forms.py OUT.json

A step is one CUDA graph of launches with PDL, over copies of the weights that are larger than L2; contenders take turns, each round in
another order; a time is the median over the rounds, per layer. Results are compared with PyTorch's in float64; a contender
that differs is not timed. Forms, the first of each is what the others are compared with:

    invariant  free | batch_invariant: a plan whose rows have the same bits for every M
    norm       product | inside | rounded | apart: a layer without a norm; with RMSNorm and `algebraic_norms`; with its rows rounded as
               PyTorch does; with the norm in a chain of its own
    weights    one | several | launches: Q, K and V as one matrix, as three weights of one chain, as three chains
"""

import argparse
import json
import statistics
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

import catenary
from torch_layers import copy_tbs
from torch_models import Replay, commit, in_turns, timestamp

EPSILON = 1e-5
# Rotated weights are larger than this.
ROTATION_BYTES = 160 << 20
# The largest allowed difference over the largest value: results are bf16, and not all contenders round the normalised rows.
LARGEST_ERROR = 0.02
# K, N of layers of models (bench/sweep/layers.def); for weights N of each.
LAYERS = ((4096, (6144,)), (4096, (4096,)), (4096, (28672,)), (14336, (4096,)), (8192, (10240,)), (8192, (8192,)), (28672, (8192,)),
          (3584, (4608,)), (3584, (3584,)), (3584, (37888,)), (18944, (3584,)), (1536, (2048,)), (1536, (17920,)), (8960, (1536,)),
          (5120, (7168,)), (5120, (27648,)), (2880, (5120,)), (2880, (2880,)), (7168, (2112,)), (3072, (9216,)), (8192, (3072,)))
SEVERAL = ((4096, (4096, 1024, 1024)), (8192, (8192, 1024, 1024)), (3584, (3584, 512, 512)), (1536, (1536, 256, 256)),
           (5120, (5120, 1024, 1024)), (2880, (4096, 512, 512)))
FORMS = {"invariant": ("free", "batch_invariant"), "norm": ("product", "inside", "rounded", "apart"),
         "weights": ("one", "several", "launches")}
NORMALISED = '  n = cast(mul(x @ "mk", s @ "m"), bf16)\n'
NORM = '  s = rsqrt(add(mul(sum "mk->m"(square(x)), {}), {}))\n'


def product_text(m, k, sizes, word="", norm=""):
    """A chain of x and a weight for each of `sizes`. `norm`: inside, rounded or nothing."""
    lines, x = "", "x"
    if norm:
        lines, x = NORM.format(repr(1 / k), repr(EPSILON)) + NORMALISED, "n"
    if norm == "inside":
        word += " algebraic_norms"
    weights = "".join(f", weight w{i}: bf16[{n}, {k}]" for i, n in enumerate(sizes))
    lines += "".join(f'  y{i} = contract "mk,nk->mn"({x}, w{i})\n' for i in range(len(sizes)))
    outs = ", ".join(f"y{i}: bf16" for i in range(len(sizes)))
    return f"chain layer{word}(input x: bf16[{m}, {k}]{weights}) {{\n{lines}  return {outs}\n}}\n"


def norm_text(m, k):
    return (f"chain norm(input x: bf16[{m}, {k}]) {{\n" + NORM.format(repr(1 / k), repr(EPSILON)) +
            NORMALISED + "  return n: bf16\n}\n")


def contender_texts(form, name, m, k, sizes):
    """Chains that a contender launches one after the other."""
    if name in ("free", "product", "several"):
        return [product_text(m, k, sizes)]
    if name == "batch_invariant":
        return [product_text(m, k, sizes, word=" batch_invariant")]
    if name in ("inside", "rounded"):
        return [product_text(m, k, sizes, norm=name)]
    if name == "apart":
        return [norm_text(m, k), product_text(m, k, sizes)]
    if name == "one":
        return [product_text(m, k, (sum(sizes),))]
    return [product_text(m, k, (n,)) for n in sizes]


def make_step(name, executables, x, weights, sizes):
    """A step, and the results of its last layer joined along N."""
    m = x.shape[0]

    def empty(n):
        return torch.empty(m, n, device=x.device, dtype=x.dtype)
    joint = [empty(sum(sizes)) for _ in weights] if name == "one" else None
    outs = [[empty(n) for n in sizes] for _ in weights]
    rows = [empty(x.shape[1]) for _ in weights] if name == "apart" else None

    def step():
        for i, weight in enumerate(weights):
            if name == "one":
                executables[0](x, weight, out=joint[i], allow_pdl=True)
            elif name == "launches":
                for one, part, out in zip(executables, weight.split(sizes), outs[i]):
                    one(x, part, out=out, allow_pdl=True)
            else:
                given = x
                if name == "apart":
                    executables[0](x, out=rows[i], allow_pdl=True)
                    given = rows[i]
                results = outs[i][0] if len(sizes) == 1 else tuple(outs[i])
                executables[-1](given, *weight.split(sizes), out=results, allow_pdl=True)

    def result():
        return joint[-1] if name == "one" else torch.cat(outs[-1], 1)
    return step, result


def expected_of(name, x, weight):
    rows = x.double()
    if name in ("inside", "rounded", "apart"):
        rows = rows * torch.rsqrt(rows.square().mean(1, keepdim=True) + EPSILON)
    return rows @ weight.double().T


def prepared(engine, form, m, k, sizes, names):
    """Executables and plans of each contender; compiled by threads of the caller's pool."""
    done = {}
    for name in names:
        ready = [engine.prepare(catenary.Chain.parse(text)) for text in contender_texts(form, name, m, k, sizes)]
        done[name] = (ready, [str(one.explain()) for one in ready])
    return done


def measure(row, executables, options, device):
    torch.manual_seed(0)
    m, k, sizes = row["m"], row["k"], row["n"]
    total = sum(sizes)
    copies = 2 if options.tiny else max(2, -(-ROTATION_BYTES // (2 * total * k)))
    weights = [torch.randn(total, k, device=device, dtype=torch.bfloat16) * 0.02 for _ in range(copies)]
    x = torch.randn(m, k, device=device, dtype=torch.bfloat16)
    row |= {"copies": copies, "weight_bytes": 2 * total * k, "contenders": {}}
    replays = {}
    for name, (ready, plans) in executables.items():
        step, result = make_step(name, ready, x, weights, sizes)
        replay = Replay(step, torch.nn.Identity())
        replay.run()
        expected = expected_of(name, x, weights[-1])
        entry = row["contenders"][name] = {
            "error_of_largest": float((result().double() - expected).abs().max() / expected.abs().max()), "plans": plans}
        if entry["error_of_largest"] < LARGEST_ERROR:
            replays[name] = replay
        else:
            entry["error"] = "differs from PyTorch in float64: not timed"
    times, _ = in_turns(replays, options)
    for name, steps in times.items():
        values = [us / copies for us in steps]
        entry = row["contenders"][name]
        entry |= {"us": round(statistics.median(values), 3), "spread": [round(min(values), 3), round(max(values), 3)]}
        entry["copy_share"] = round(row["weight_bytes"] / entry["us"] / options.copy_tbs / 1e6, 4)


def rows_of(options):
    """The rows of all forms; every `shards`-th layer."""
    rows = []
    for form in options.forms.split(","):
        layers = SEVERAL if form == "weights" else LAYERS
        if options.tiny:
            layers = ((128, (64, 32, 32)),) if form == "weights" else ((128, (64,)),)
        part, parts = map(int, options.shard.split("/"))
        for k, sizes in layers[part - 1::parts]:
            rows += [{"form": form, "m": m, "k": k, "n": sizes} for m in map(int, options.rows.split(","))]
    return rows


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", help="the record, JSON; written after each row")
    parser.add_argument("--forms", default=",".join(FORMS), help=f"of {', '.join(FORMS)}")
    parser.add_argument("--rows", default="1,8,16,32,64", help="rows of x")
    parser.add_argument("--shard", default="1/1", help="part I of N of the layers, as I/N")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--round-ms", type=float, default=8, help="of one contender in one round")
    parser.add_argument("--tiny", action="store_true", help="small sizes and one round: a test of this script")
    options = parser.parse_args(arguments)
    if options.tiny:
        options.rounds = 1
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    options.copy_tbs = copy_tbs(device)
    engine = catenary.Engine(device=None if device.type == "cuda" else "sim")
    record = {"kind": "forms of layers", "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
              "torch": torch.__version__, "cuda": torch.version.cuda, "catenary": catenary.__version__, "commit": commit(),
              "date": timestamp(), "rounds": options.rounds, "dtype": "bf16", "copy_tbs": round(options.copy_tbs, 4), "table": []}
    with ThreadPoolExecutor() as pool:
        work = [(row, pool.submit(prepared, engine, row["form"], row["m"], row["k"], row["n"], FORMS[row["form"]]))
                for row in rows_of(options)]
        # Timed only when nothing else compiles on the host.
        ready = [(row, one.result()) for row, one in work]
    for row, executables in ready:
        measure(row, executables, options, device)
        record["table"].append(row)
        Path(options.out).write_text(json.dumps(record, indent=1) + "\n")
        times = ", ".join(f"{name} {entry.get('us') or entry.get('error')}" for name, entry in row["contenders"].items())
        print(f"{row['form']:10} {row['m']:3}x{'+'.join(map(str, row['n']))}x{row['k']}: {times}", flush=True)


if __name__ == "__main__":
    main()
