#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `catenary tune` gains on the sweep's shapes whose first choice was much slower than the best.

    bench/scripts/tune_gaps.py --catenary build/tools/catenary --sweep sweep_gemm.json [--out FILE]

Reads a record of `catenary bench --sweep gemm`. Each shape whose first choice was slower than the
best timed candidate by more than --slower is tuned (worst first, no more than --most). The record
has the choice, the winner, and both times of one contest. Tuning records are kept in --store, to be
used with CATENARY_TUNING_DIR. `report.py` makes the table (marker `tuned`).
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

from records import choice_rows


def chain_text(shape):
    """The chain of one shape, as bench/cases/layer.cpp has it but for names."""
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


def gaps(record, slower):
    """(the choice's time over the best one's, shape) of the sweep, worst first."""
    found = []
    for shape in choice_rows(record):
        timed = [tile for tile in shape.pop("tiles") if tile["us"]]
        chosen = [tile["us"] for tile in timed if tile["chosen"]]
        if not chosen:
            continue
        gap = chosen[0] / min(tile["us"] for tile in timed)
        if gap > 1 + slower:
            found.append((gap, shape))
    return sorted(found, key=lambda pair: -pair[0])


def summary(record):
    """One tuning record -> its row: the model's choice and the winner, us of one contest."""
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
    """Which shapes are chosen, and the rows, on made-up records; no GPU."""
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
    new = {"sweep_name": "gemm", "layers": {
        "columns": ["batch", "m", "n", "k", "epilogue", "candidates"],
        "candidate_columns": tile_columns,
        "rows": [[1, 8, 256, 128, "swiglu", [["a", 1, 12.0, True], ["b", 1, 10.0, False]]]]}}
    if [(gap, shape["gated"]) for gap, shape in gaps(new, 0.05)] != [(1.2, True)]:
        raise AssertionError(gaps(new, 0.05))
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
    options.add_argument("--slower", type=float, default=0.05)
    options.add_argument("--most", type=int, default=32)
    options.add_argument("--store", type=pathlib.Path, default=pathlib.Path("tuning"))
    options.add_argument("--out", type=pathlib.Path, default=pathlib.Path("tuned.json"))
    options.add_argument("--commit", default="")
    given = options.parse_args(arguments)
    found = gaps(json.loads(given.sweep.read_text()), given.slower)[:given.most]
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
