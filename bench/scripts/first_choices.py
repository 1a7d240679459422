#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much longer the cost model's first choices take than the best timed candidates.

    bench/scripts/first_choices.py --predict build/bench/catenary_bench_predict [--since DATE] [--worst N]

Reads the records of sweeps with several candidates for a layer, here and in the folders `fit`, and
predicts every candidate anew with the program that was built: a record may be older than the model.
The first choice is the candidate that is predicted to be fastest among the timed ones that the
planner still offers; its regret is its time over that of the fastest of these, minus one. Layers with
fewer than four such candidates do not count; of two records of a layer the later one does. Halves are
by groups, N and K, so that a matrix is in one half with all its M: fit on one, report the other.
Times are with PDL up to 64 rows, else the faster of both launch modes; split-K of more than 12 us in
gemm_sm90 and gemm_sm80 without PDL (RESULTS sm90-152). measured.def is not asked.
Exit codes: 0 done, 1 the program failed.
"""
import argparse
import hashlib
import json
import pathlib
import re
import subprocess
import sys

from records import choice_rows, layer_rows

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHAPE = re.compile(r"(?:(gb|bg)?(\d+)x)?(\d+)x(\d+)x(\d+)|(\d+)e(\d+)x(\d+)x(\d+)")
LEAST_CANDIDATES = 4
ROW_GROUPS = [(1, "1 row"), (4, "2 to 4 rows"), (8, "5 to 8 rows"), (24, "9 to 24 rows"),
              (64, "25 to 64 rows")]
LONG_SPLIT_US = 12
STREAM_ROWS = 32  # of packed weights: above, one family only


def layer_of(row):
    """(kind, rows first, dtype, epilogue, groups, M, N, K) of a row of a sweep."""
    epilogue = row.get("epilogue") or ("swiglu" if row.get("gated") else "none")
    dtype = row.get("dtype", "bf16")
    if "shape" not in row:
        sizes = (row["batch"], row["m"], row["n"], row["k"])
        kind = "dual" if row["gated"] else "grouped" if row["batch"] > 1 else "dense"
        return (kind, 0, dtype, epilogue, *sizes)
    order, groups, m, n, k, *experts = SHAPE.fullmatch(row["shape"]).groups()
    if experts[0]:
        return ("experts", 0, dtype, epilogue, *map(int, experts))
    kind = "grouped" if groups else "dual" if epilogue == "swiglu" else "dense"
    return (kind, int(order == "bg"), dtype, epilogue, int(groups or 1), int(m), int(n), int(k))


def group_of(layer):
    packed = {"i4": "int4", "i8": "int8"}.get(layer[2].split("x")[0])
    if packed:
        return f"{packed}, to {STREAM_ROWS} rows" if layer[5] <= STREAM_ROWS else f"{packed}, more rows"
    if layer[0] == "experts" or layer[5] > ROW_GROUPS[-1][0]:
        return layer[0]
    return next(name for most, name in ROW_GROUPS if layer[5] <= most)


def half_of(layer):
    text = f"{layer[4]} {layer[6]} {layer[7]}"
    return int(hashlib.md5(text.encode()).hexdigest(), 16) % 2


def time_of(layer, candidate):
    us, pdl_us = candidate["us"], candidate.get("pdl_us") or candidate["us"]
    split = candidate["split_k"] > 1 and not candidate["tile"].startswith("skinny")
    if split and us > LONG_SPLIT_US:
        return us
    return pdl_us if layer[0] != "experts" and layer[5] <= ROW_GROUPS[-1][0] else min(us, pdl_us)


def timed_layers(results, since=""):
    """{(GPU, layer): {(tile, split-K): us}}; later records replace earlier ones."""
    records = []
    for path in sorted(results.glob("*/**/*.json")):
        data = json.loads(path.read_text())
        if isinstance(data, dict) and (data.get("date") or "") >= since:
            records.append((data.get("date") or "", path.relative_to(results).parts[0], data))
    layers = {}
    for _, gpu, data in sorted(records, key=lambda one: one[0]):
        rows = layer_rows(data) if isinstance(data.get("layers"), dict) else choice_rows(data)
        for row in rows:
            candidates = row.get("candidates") or row.get("tiles") or []
            layer = layer_of(row)
            timed = {(one["tile"], one["split_k"]): time_of(layer, one)
                     for one in candidates if one.get("us")}
            if len(timed) >= LEAST_CANDIDATES:
                layers[gpu, layer] = timed
    return layers


def regret_of(timed, predicted):
    """(regret, choice, best candidate) of a layer; None if too few timed candidates are offered.
    `predicted`: [family, tile, split-K, us], best first."""
    offered = [(tile, split) for _, tile, split, _ in predicted if (tile, split) in timed]
    if len(offered) < LEAST_CANDIDATES:
        return None
    best = min(offered, key=timed.get)
    return timed[offered[0]] / timed[best] - 1, offered[0], best


def regrets(layers, predict):
    """{(GPU, group, half): [(regret, layer, choice, best)]}. `predict`: lines -> predictions."""
    keys = list(layers)
    lines = [" ".join(map(str, (gpu, *layer))) for gpu, layer in keys]
    found = {}
    for (gpu, layer), predicted in zip(keys, predict(lines), strict=True):
        regret = regret_of(layers[gpu, layer], predicted)
        if regret:
            found.setdefault((gpu, group_of(layer), half_of(layer)), []).append(
                (regret[0], layer, *regret[1:]))
    return found


def table(found):
    text = "| GPU | layers | half | number | mean | 90th percentile | worst |\n|---|---|---|---|---|---|---|\n"
    names = [name for _, name in ROW_GROUPS] + ["dense", "grouped", "dual", "experts"]
    names += [f"{packed}, {rows}" for packed in ("int4", "int8")
              for rows in (f"to {STREAM_ROWS} rows", "more rows")]
    for gpu, name, half in sorted(found, key=lambda key: (key[0], names.index(key[1]), key[2])):
        values = sorted(one[0] for one in found[gpu, name, half])
        high = values[int(0.9 * (len(values) - 1))]
        text += (f"| {gpu} | {name} | {half} | {len(values)} | {100 * sum(values) / len(values):.2f}% | "
                 f"{100 * high:.1f}% | {100 * values[-1]:.1f}% |\n")
    return text


def worst(found, most):
    rows = [(regret, gpu, half, *rest) for (gpu, _, half), values in found.items()
            for regret, *rest in values]
    text = ""
    for regret, gpu, half, layer, choice, best in sorted(rows, key=lambda row: -row[0])[:most]:
        text += f"{100 * regret:.1f}% {gpu} half {half} {' '.join(map(str, layer))}: {choice}, best {best}\n"
    return text


def run_program(program):
    def predict(lines):
        run = subprocess.run([str(program)], input="\n".join(lines) + "\n", text=True,
                             capture_output=True, check=False)
        if run.returncode != 0:
            raise RuntimeError(run.stderr)
        return [json.loads(line) for line in run.stdout.splitlines()]

    return predict


def self_test(program):
    """Choices, halves and times on made-up rows; one layer through the program. No GPU."""
    dense = layer_of({"shape": "16x64x128", "epilogue": "bias", "dtype": "f16"})
    assert dense == ("dense", 0, "f16", "bias", 1, 16, 64, 128)
    assert layer_of({"shape": "bg3x70x64x128", "epilogue": "none"})[:5] == ("grouped", 1, "bf16", "none", 3)
    assert layer_of({"shape": "8e70x64x128", "epilogue": "swiglu"})[0] == "experts"
    assert layer_of({"batch": 1, "m": 70, "n": 64, "k": 128, "gated": True})[0] == "dual"
    large = layer_of({"shape": "160x64x128", "epilogue": "none"})
    assert half_of(dense) == half_of(large) and group_of(dense) == "9 to 24 rows"
    assert group_of(large) == "dense"
    packed = layer_of({"shape": "48x64x128", "epilogue": "none", "dtype": "i4xbf16"})
    assert packed == ("dense", 0, "i4xbf16", "none", 1, 48, 64, 128) and group_of(packed) == "int4, more rows"
    assert group_of(("dual", 0, "i8xf16", "swiglu", 1, 32, 64, 128)) == "int8, to 32 rows"
    one = {"tile": "128x64", "split_k": 1, "us": 20.0, "pdl_us": 22.0}
    assert time_of(packed, one) == 22.0
    assert (time_of(dense, one), time_of(large, one)) == (22.0, 20.0)
    assert time_of(dense, {**one, "split_k": 2}) == 20.0
    timed = {("a", 1): 12.0, ("b", 1): 10.0, ("c", 1): 11.0, ("d", 2): 15.0, ("gone", 1): 1.0}
    predicted = [["f", "new", 1, 0.5], ["f", "a", 1, 1.0], ["f", "b", 1, 2.0], ["f", "c", 1, 3.0],
                 ["f", "d", 2, 4.0]]
    regret, choice, best = regret_of(timed, predicted)
    assert abs(regret - 0.2) < 1e-9 and (choice, best) == (("a", 1), ("b", 1))
    assert regret_of(timed, predicted[:4]) is None
    found = regrets({("h100", large): timed}, lambda lines: [predicted] * len(lines))
    assert f"| h100 | dense | {half_of(large)} | 1 | 20.00% | 20.0% | 20.0% |" in table(found)
    assert "('a', 1), best ('b', 1)" in worst(found, 3)
    if program is None:
        return
    for layer in (large, packed[:-1] + (1024,)):
        candidates = run_program(program)(["h100 " + " ".join(map(str, layer))])[0]
        times = [us for *_, us in candidates]
        assert len(times) > LEAST_CANDIDATES and times == sorted(times) and times[0] > 0
    for line in ("h100 dense 0 bf16 none 1 0 64 128", "h100 dense 0 i8 none 1 64 64 128",
                 "h100 dense 0 i4xbf16 none 1 8 64 80", "h100 dense 0 i3xbf16 none 1 8 64 128"):
        try:
            run_program(program)([line])
        except RuntimeError as error:
            assert "is no layer" in str(error)
        else:
            raise AssertionError(f"'{line}' was taken")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--predict", type=pathlib.Path)
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench/results")
    parser.add_argument("--since", default="", help="records from this date on (2026-11-26)")
    parser.add_argument("--worst", type=int, default=0, help="also print the N worst layers")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        self_test(options.predict)
        return 0
    if options.predict is None:
        parser.error("--predict is missing: build the target catenary_bench_predict")
    try:
        found = regrets(timed_layers(options.results, options.since), run_program(options.predict))
    except (RuntimeError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(table(found) + worst(found, options.worst), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
