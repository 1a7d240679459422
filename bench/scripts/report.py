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
`+` (`gemm+epilogue`); `h200/gemm` takes one GPU only. `packs` is the newest <results>/packs/*.json.
Standard library only; the output depends on the records only.
"""
import argparse
import pathlib
import re
import sys

from records import load, load_packs
from report_page import page
from report_plots import heat_map, summary
from report_tables import SPECIAL, case_table, packs_lines

MARKED = re.compile(r"(<!-- bench:([^ ]+) -->\n)(.*?)(<!-- /bench -->)", re.DOTALL)


def render(name, gpus, packs):
    """The text for marker NAME. Refuses a name that no record knows."""
    if name == "packs" and packs:
        return packs_lines(packs) + "\n"
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


def rewrite(readme, gpus, packs):
    return MARKED.sub(lambda m: (m.group(1) + "\n" + render(m.group(2), gpus, packs) + "\n" +
                                 m.group(4)), readme)


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
    packs = load_packs(options.results)
    for gpu in gpus.values():
        folder = options.results / gpu.name
        write(folder / "summary.svg", summary(gpu))
        write(folder / "sweep.svg", heat_map(gpu))
        write(folder / "README.md", page(gpu))
    for path in options.readme:
        if path.is_file():
            write(path, rewrite(path.read_text(encoding="utf-8"), gpus, packs))


if __name__ == "__main__":
    main(sys.argv[1:])
