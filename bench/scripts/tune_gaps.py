#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `catenary tune` closes: the sweep's shapes whose first choice was far behind the best.

    bench/scripts/tune_gaps.py --catenary build/tools/catenary --sweep sweep_gemm.json [--out FILE]

Reads a record of `catenary bench --sweep gemm`, tunes each shape whose first choice took more than
--behind of the best timed candidate's time beyond it (worst first, no more than --most), and writes
what was measured: the choice before, the winner, both times of one contest. Tuning records are kept
in --store, to be used with CATENARY_TUNING_DIR. `report.py` makes a table of it (marker `tuned`).
Exit codes: 0 done, 1 a shape failed.
"""
import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile


def chain_text(shape):
    """The sweep's chain of one shape (`gemm_shape_text` in sweep_gemm_shapes.cpp)."""
    batch = f"{shape['batch']}, " if shape["batch"] > 1 else ""
    x = f"input x: bf16[{batch}{shape['m']}, {shape['k']}]"
    w = f"bf16[{batch}{shape['n']}, {shape['k']}]"
    equation = "bmk,bnk->bmn" if shape["batch"] > 1 else "mk,nk->mn"
    if not shape["gated"]:
        return (f"chain gemm({x}, weight w: {w}) {{\n"
                f"  y = contract \"{equation}\"(x, w)\n  return y: bf16\n}}\n")
    return (f"chain gated({x}, weight wg: {w}, weight wu: {w}) {{\n"
            f"  g = contract \"{equation}\"(x, wg)\n  u = contract \"{equation}\"(x, wu)\n"
            "  y = mul(silu(g), u)\n  return y: bf16\n}\n")


def gaps(record, behind):
    """(first choice's time over the best one's, shape) of the sweep, worst first."""
    sweep = record["gemm_sweep"]
    found = []
    for values in sweep["rows"]:
        shape = dict(zip(sweep["columns"], values))
        tiles = [dict(zip(sweep["tile_columns"], tile)) for tile in shape.pop("tiles") or []]
        timed = [tile for tile in tiles if tile["us"]]
        chosen = [tile["us"] for tile in timed if tile["chosen"]]
        if not chosen:
            continue
        gap = chosen[0] / min(tile["us"] for tile in timed)
        if gap > 1 + behind:
            found.append((gap, shape))
    return sorted(found, key=lambda pair: -pair[0])


def summary(record):
    """One tuning record -> the row that is kept: model's choice and winner, us of one contest."""
    def of(tile, split):
        for row in record["candidates"]:
            if row["tile"] == tile and row["split_k"] == split:
                return row.get("us")
        return None

    return {"model_tile": record["model_tile"], "model_split_k": record["model_split_k"],
            "model_us": of(record["model_tile"], record["model_split_k"]),
            "tile": record["tile"], "split_k": record["split_k"],
            "us": of(record["tile"], record["split_k"])}


def tune(catenary, shape, store, scratch):
    out = scratch / "records.json"
    run = subprocess.run([str(catenary), "tune", "-", "--output", str(out)], text=True,
                         input=chain_text(shape), capture_output=True, check=False,
                         env={**os.environ, "CATENARY_TUNING_DIR": str(store)})
    if run.returncode != 0:
        raise RuntimeError(f"{chain_text(shape)}{run.stderr[-400:]}")
    records = json.loads(out.read_text())
    return records, {**{key: shape[key] for key in ("batch", "m", "n", "k", "gated")},
                     **summary(records[0])}


def self_test():
    """The choice of shapes and the rows, on records made up here; no GPU."""
    columns = ["batch", "m", "n", "k", "gated", "tiles"]
    tile_columns = ["tile", "split_k", "us", "chosen"]
    rows = [[1, 64, 256, 128, False, [["a", 1, 11.0, True], ["b", 2, 10.0, False]]],
            [2, 64, 256, 128, True, [["a", 1, 10.2, True], ["b", 1, 10.0, False]]],
            [1, 32, 256, 128, True, [["a", 1, 12.0, True], ["b", 1, 10.0, False]]],
            [1, 16, 256, 128, False, [["a", 1, None, True], ["b", 1, 10.0, False]]]]
    record = {"gemm_sweep": {"columns": columns, "tile_columns": tile_columns, "rows": rows}}
    found = gaps(record, 0.05)
    if [shape["m"] for _, shape in found] != [32, 64]:
        raise AssertionError(found)
    if "bmk,bnk->bmn" in chain_text(found[0][1]) or "silu" not in chain_text(found[0][1]):
        raise AssertionError(chain_text(found[0][1]))
    tuned = {"model_tile": "a", "model_split_k": 1, "tile": "b", "split_k": 2,
             "candidates": [{"tile": "a", "split_k": 1, "us": 11.0},
                            {"tile": "b", "split_k": 1, "note": "refused"},
                            {"tile": "b", "split_k": 2, "us": 9.5}]}
    row = summary(tuned)
    if (row["model_us"], row["us"]) != (11.0, 9.5):
        raise AssertionError(row)
    return 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--catenary", type=pathlib.Path, required=True)
    options.add_argument("--sweep", type=pathlib.Path, required=True)
    options.add_argument("--behind", type=float, default=0.05)
    options.add_argument("--most", type=int, default=32)
    options.add_argument("--store", type=pathlib.Path, default=pathlib.Path("tuning"))
    options.add_argument("--out", type=pathlib.Path, default=pathlib.Path("tuned.json"))
    options.add_argument("--commit", default="")
    given = options.parse_args(arguments)
    found = gaps(json.loads(given.sweep.read_text()), given.behind)[:given.most]
    record = {"device": None, "driver": None, "commit": given.commit, "tuned": [],
              "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")}
    failed = False
    with tempfile.TemporaryDirectory() as scratch:
        for gap, shape in found:
            try:
                records, row = tune(given.catenary, shape, given.store, pathlib.Path(scratch))
            except (RuntimeError, OSError) as error:
                print(error, file=sys.stderr)
                failed = True
                continue
            record.update(device=records[0]["device"], driver=records[0]["driver"])
            record["tuned"].append({**row, "sweep_gap": round(gap, 4)})
            given.out.write_text(json.dumps(record, indent=1) + "\n")
            print(row, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
