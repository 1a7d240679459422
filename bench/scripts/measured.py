#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes compiler/measured.def from the records of `catenary bench --sweep models --candidates N`.
A layer gets a row if a candidate is faster than the cost model's choice. `--check` only compares."""
import argparse
import json
import pathlib
import sys

import records

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "compiler/measured.def"
HEADER = """\
// Written by bench/scripts/measured.py from the records of sweeps in bench/results: do not edit.
// GPU; operand width and M x N x K; family, tile, split-K of the fastest candidate; its time and
// that of the cost model's choice, microseconds.
"""
# Without a time by PDL launches, shorter kernels are not compared: PDL hides their starts, and how
# much differs between families.
LONG_US = 20
# Less is noise.
GAIN = 0.02


def time_of(candidate):
    if candidate.get("pdl_us"):
        return candidate["pdl_us"]
    us = candidate.get("us")
    return us if us and us >= LONG_US else None


def shape_of(row):
    m = row["m"] if row["m"] <= 8 else (row["m"] + 7) // 8 * 8
    return f"16-bit {m}x{row['n']}x{row['k']}" + (" dual" if row["epilogue"] == "swiglu" else "")


def best_of(row):
    """The fastest candidate and the model's choice, as (candidate, us); None if there is no gain."""
    timed = [(candidate, time_of(candidate)) for candidate in row["candidates"]]
    timed = [(candidate, us) for candidate, us in timed if us]
    choice = next((us for candidate, us in timed if candidate["chosen"]), None)
    if choice is None or row["batch"] != 1:
        return None
    candidate, us = min(timed, key=lambda one: one[1])
    return (candidate, us, choice) if us < choice * (1 - GAIN) else None


def rows_of(gpu, in_order):
    """Rows by shape; a later record's layer replaces an earlier one's, also by nothing."""
    found = {}
    for record in in_order:
        if record.get("sweep_name") != "models":
            continue
        for row in records.layer_rows(record):
            best = best_of(row)
            found.pop(shape_of(row), None)
            if best is None:
                continue
            candidate, us, choice = best
            name = f'{candidate["family"]}, "{candidate["tile"]}", {candidate["split_k"]}'
            found[shape_of(row)] = (f'CATENARY_MEASURED({gpu}, "{shape_of(row)}", {name}, '
                                    f'{us:.2f}, {choice:.2f})\n')
    return [found[shape] for shape in sorted(found)]


def table(results):
    text = HEADER
    for gpu in sorted(folder for folder in results.iterdir() if folder.is_dir()):
        loaded = [json.loads(path.read_text()) for path in gpu.glob("*.json")]
        loaded = [one for one in loaded if isinstance(one, dict)]
        loaded.sort(key=lambda one: one.get("date", ""))
        text += "".join(rows_of(gpu.name, loaded))
    return text


def self_test():
    def candidate(tile, us, chosen=False, pdl_us=None):
        return {"tile": tile, "split_k": 1, "us": us, "pdl_us": pdl_us, "chosen": chosen,
                "family": "gemm_sm90"}

    def layer(m, tiles):
        return {"batch": 1, "m": m, "n": 64, "k": 32, "epilogue": "none", "candidates": tiles}

    slower = [candidate("128x64x64g2s4", 50.0, True), candidate("16x64x128w1x4s5", 40.0)]
    assert best_of(layer(9, slower))[0]["tile"] == "16x64x128w1x4s5"
    assert best_of(layer(9, slower[:1])) is None
    assert best_of(layer(9, [slower[0], candidate("x", 49.5)])) is None
    short = [candidate("128x64x64g2s4", 5.0, True), candidate("64x64x64g1s4", 4.0)]
    assert best_of(layer(9, short)) is None
    short[0]["pdl_us"], short[1]["pdl_us"] = 3.0, 3.5
    assert best_of(layer(9, short)) is None
    short[1]["pdl_us"] = 2.0
    assert best_of(layer(9, short))[1] == 2.0
    assert shape_of(layer(9, [])) == "16-bit 16x64x32"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        self_test()
        return
    text = table(ROOT / "bench/results")
    if not options.check:
        TABLE.write_text(text)
    elif TABLE.read_text() != text:
        sys.exit(f"{TABLE} is not what the records say: run bench/scripts/measured.py")


if __name__ == "__main__":
    main()
