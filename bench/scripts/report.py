#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records of `catenary bench` -> tables and plots. The only writer of all of them.

    bench/scripts/report.py [--results DIR] [--readme FILE...]

Reads <results>/<gpu>/*.json. The newest row of each case counts; quick runs and runs with forced
tiles do not. Writes, of each GPU:
  <results>/<gpu>/README.md    every table (report_page.py)
  <results>/<gpu>/summary.svg  speed against the peer by workload: geometric mean, least and most
  <results>/<gpu>/sweep.svg    every shape of the sweep against its peer
and the text between a marker line `<!-- bench:NAME -->` and the next `<!-- /bench -->` of the pages
that --readme names. NAME is a table of report_tables.SPECIAL, `all`, or groups of cases joined by
`+` (`gemm+epilogue`); `h200/gemm` takes one GPU only.
Standard library only; the output depends on the records only.
"""
import argparse
import json
import pathlib
import re
import sys

from report_page import page
from report_plots import heat_map, summary
from report_tables import SPECIAL, case_table, shape_text

MARKED = re.compile(r"(<!-- bench:([^ ]+) -->\n)(.*?)(<!-- /bench -->)", re.DOTALL)


class Gpu:
    """Everything known of one GPU: the newest of each thing."""

    def __init__(self, name):
        self.name = name
        self.record = None  # the newest one with ceilings
        self.rows = {}
        self.launch = {}
        self.compile = {}
        self.sweep = {}  # rows by (m, k, n)
        self.choices = {}  # rows of the sweep of large contractions by shape
        self.peers = {}  # rows of peers.py by (bias_silu, k, n, m)
        self.large_peers = {}  # rows of peers_large.py by case
        self.counters = {}  # rows of counters.py by case
        self.tuned = {}  # rows of tune_gaps.py by shape
        self.commits = {}  # where they are from: commits in the order of their runs, by table

    def note(self, table, record):
        commit = (record.get("commit") or "")[:7]
        if commit and commit not in self.commits.setdefault(table, []):
            self.commits[table].append(commit)

    def add(self, record):
        if record.get("quick") or record.get("tuning"):
            return
        for name in ("sweep", "launch", "compile"):
            if record.get(name):
                self.note(name, record)
        if record.get("sweep"):
            self.add_sweep(record)
            return  # its ceilings are not a full run's
        if record.get("gemm_sweep"):
            self.note("choices", record)
            self.add_choices(record["gemm_sweep"])
            return
        if (record.get("ceilings") or {}).get("copy_tbs"):
            self.record = record
        for row in record.get("rows", []):
            # Rows move to the end, so that the order is that of the newest run.
            self.rows.pop(row["case"], None)
            self.rows[row["case"]] = {**row, "commit": row.get("commit") or record.get("commit")}
        for row in record.get("launch", []):
            self.launch[row["kernel"]] = row
        for row in record.get("compile", []):
            self.compile[row["chain"]] = row

    def add_sweep(self, record):
        sweep = record["sweep"]
        for values in sweep["rows"]:
            row = dict(zip(sweep["columns"], values))
            row["device"] = record.get("device")
            self.sweep[row["m"], row["k"], row["n"]] = row

    def add_choices(self, sweep):
        for values in sweep["rows"]:
            row = dict(zip(sweep["columns"], values))
            row["tiles"] = [dict(zip(sweep["tile_columns"], tile)) for tile in row["tiles"]]
            self.choices[tuple(row[key] for key in ("batch", "m", "n", "k", "gated"))] = row

    def add_peers(self, record):
        for row in record.get("large_peers", []):
            self.large_peers.pop(row["case"], None)
            self.large_peers[row["case"]] = row
        for row in record.get("peers", []):
            row["copy_tbs"] = record.get("copy_tbs")
            self.peers[row["bias_silu"], row["k"], row["n"], row["m"]] = row

    def add_counters(self, record):
        for row in record["counters"]:
            self.counters.pop(row["case"], None)
            self.counters[row["case"]] = row

    def add_tuned(self, record):
        for row in record["tuned"]:
            key = shape_text(row)
            self.tuned.pop(key, None)
            self.tuned[key] = row

    def add_any(self, record):
        for name in ("peers", "large_peers", "counters", "tuned"):
            if has_list(record, name):
                self.note(name, record)
        if has_list(record, "counters"):
            self.add_counters(record)
        elif has_list(record, "tuned"):
            self.add_tuned(record)
        elif is_peers(record):
            self.add_peers(record)
        else:
            self.add(record)


def is_record(data):
    if not isinstance(data, dict):
        return False
    return (is_peers(data) or has_list(data, "counters") or has_list(data, "tuned") or
            (isinstance(data.get("rows"), list) and "ceilings" in data))


def is_peers(data):
    return has_list(data, "peers") or has_list(data, "large_peers")


def has_list(data, key):
    return isinstance(data.get(key), list)


def load(results):
    """Gpus by name. Files that are not records of the benchmark are ignored."""
    gpus = {}
    for folder in sorted(p for p in results.iterdir() if p.is_dir()):
        records = []
        for path in sorted(folder.glob("*.json")):
            try:
                data = json.loads(path.read_text())
            except ValueError as error:
                raise SystemExit(f"{path} is not JSON ({error}): remove or repair it")
            if is_record(data):
                records.append(data)
        if not records:
            continue
        gpu = gpus.setdefault(folder.name, Gpu(folder.name))
        for record in sorted(records, key=lambda r: r.get("date") or ""):
            gpu.add_any(record)
    return gpus


def render(name, gpus):
    """The text for marker NAME. Refuses a name that no record knows."""
    chosen = gpus
    what = name
    if "/" in name:
        gpu, what = name.split("/", 1)
        chosen = {gpu: gpus[gpu]} if gpu in gpus else {}
    parts = []
    for gpu in chosen.values():
        if what in SPECIAL:
            text = SPECIAL[what](gpu)
        else:
            text = case_table(gpu, None if what == "all" else what.split("+"))
        if text:
            parts.append((f"On {gpu.name}:\n\n" if len(chosen) > 1 else "") + text)
    if not parts:
        raise SystemExit(f"no record has anything for the marker bench:{name}: "
                         "run the benchmark, or remove the marker")
    return "\n\n".join(parts) + "\n"


def rewrite(readme, gpus):
    return MARKED.sub(lambda m: m.group(1) + "\n" + render(m.group(2), gpus) + "\n" + m.group(4),
                      readme)


def write(path, text):
    if text is not None and not (path.is_file() and path.read_text(encoding="utf-8") == text):
        path.write_text(text, encoding="utf-8")


def main(arguments):
    bench = pathlib.Path(__file__).resolve().parents[1]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--results", type=pathlib.Path, default=bench / "results")
    parser.add_argument("--readme", type=pathlib.Path, nargs="+",
                        default=[bench.parent / "README.md"])
    options = parser.parse_args(arguments)
    if not options.results.is_dir():
        raise SystemExit(f"{options.results} is no folder: run `catenary bench` first")
    gpus = load(options.results)
    for gpu in gpus.values():
        folder = options.results / gpu.name
        write(folder / "summary.svg", summary(gpu))
        write(folder / "sweep.svg", heat_map(gpu))
        write(folder / "README.md", page(gpu))
    for path in options.readme:
        if path.is_file():
            write(path, rewrite(path.read_text(encoding="utf-8"), gpus))


if __name__ == "__main__":
    main(sys.argv[1:])
