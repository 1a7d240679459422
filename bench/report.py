#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records of `catenary bench` -> the tables between markers in README.md, and one plot per GPU.

    bench/report.py [--results DIR] [--readme FILE]

Reads <results>/<gpu>/*.json. Of each case the newest row counts; quick runs and runs with forced
tiles do not. A marker line `<!-- bench:NAME -->` and the next `<!-- /bench -->` enclose a table.
NAME is `ceilings`, `launch`, `compile`, `all`, or groups of cases joined by `+` (`gemm+epilogue`);
`h200/gemm` takes one GPU only. The plot is <results>/<gpu>/summary.svg: each case against its peer,
losses beside wins. Standard library only; the output depends on the records alone.
"""
import argparse
import html
import json
import pathlib
import re
import sys

MARKED = re.compile(r"(<!-- bench:([^ ]+) -->\n)(.*?)(<!-- /bench -->)", re.DOTALL)


class Gpu:
    """Everything known of one GPU: the newest of each thing."""

    def __init__(self, name):
        self.name = name
        self.record = None  # the newest one with ceilings
        self.rows = {}
        self.launch = {}
        self.compile = {}

    def add(self, record):
        if record.get("quick") or record.get("tuning"):
            return
        if (record.get("ceilings") or {}).get("copy_tbs"):
            self.record = record
        for row in record.get("rows", []):
            # Rows move to the end, so that the order is that of the newest run.
            self.rows.pop(row["case"], None)
            self.rows[row["case"]] = row
        for row in record.get("launch", []):
            self.launch[row["kernel"]] = row
        for row in record.get("compile", []):
            self.compile[row["chain"]] = row


def is_record(data):
    return isinstance(data, dict) and isinstance(data.get("rows"), list) and "ceilings" in data


def load(results):
    """Gpus by name. Files that are no records of the benchmark are passed over."""
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
            gpu.add(record)
    return gpus


def number(value, digits=1, unit=""):
    return "–" if value is None else f"{value:,.{digits}f}{unit}"


def percent(share):
    return number(None if share is None else share * 100, 1, "%")


def micros(value):
    return number(value, 2 if value is not None and value < 100 else 1)


def rate(row):
    if not row.get("us"):
        return "–"
    if row.get("ceiling") == "gemm":
        return f"{row['flops'] / row['us'] * 1e-6:,.0f} TFLOP/s"
    return f"{row['bytes'] / row['us'] * 1e-6:.2f} TB/s"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def ratio_text(ratio):
    if ratio is None:
        return "–"
    return f"**{ratio:.2f}**" if ratio >= 1 else f"{ratio:.2f}"


def case_row(row):
    if not row["verified"] or row.get("us") is None:
        state = "wrong" if not row.get("error") and not row["verified"] else "failed"
        return [row["case"], state] + ["–"] * 9
    return [row["case"], micros(row["us"]), rate(row), percent(row.get("of_ceiling")),
            row.get("peer") or "–", micros(row.get("peer_us")), ratio_text(row.get("ratio")),
            micros(row.get("unfused_us")), micros(row.get("overlap_us")),
            percent(row.get("overlap_copy_share")), ratio_text(row.get("overlap_ratio"))]


def case_table(gpu, groups):
    rows = [row for row in gpu.rows.values() if groups is None or row.get("group") in groups]
    if not rows:
        return None
    head = ["case", "µs", "rate", "of ceiling", "peer", "peer µs", "speed against peer",
            "unfused µs", "overlapped µs", "overlapped, of copy rate",
            "overlapped, speed against peer"]
    cells = [case_row(row) for row in rows]
    # Columns that say nothing in this table are left out.
    keep = [i for i in range(len(head)) if i < 4 or any(c[i] != "–" for c in cells)]
    return table([head[i] for i in keep], [[c[i] for i in keep] for c in cells])


def ceilings_table(gpu):
    if gpu.record is None:
        return None
    r = gpu.record
    c = r["ceilings"]
    return table(["device", "driver", "CUDA", "commit", "date", "copy", "8192³ bf16"],
                 [[r.get("device") or "–", r.get("driver") or "–", r.get("cuda") or "–",
                   r.get("commit") or "–", (r.get("date") or "–")[:10],
                   number(c.get("copy_tbs"), 3, " TB/s"),
                   number(c.get("gemm_tflops") or None, 0, " TFLOP/s")]])


def launch_table(gpu):
    if not gpu.launch:
        return None
    return table(["kernel", "Executable::launch, ns", "cuLaunchKernelEx, ns", "difference, ns"],
                 [[r["kernel"]] + [number(r[k], 0) for k in ("executable_ns", "bare_ns", "over_ns")]
                  for r in gpu.launch.values()])


def compile_table(gpu):
    if not gpu.compile:
        return None
    return table(["chain", "family", "parse, verify, plan, µs", "emit, µs", "NVRTC, ms per kernel",
                  "disk cache hit, µs"],
                 [[r["chain"], r["family"], number(r["frontend_us"], 0), number(r["emit_us"], 0),
                   number(r.get("nvrtc_ms"), 0), number(r.get("cache_hit_us"), 0)]
                  for r in gpu.compile.values()])


SPECIAL = {"ceilings": ceilings_table, "launch": launch_table, "compile": compile_table}


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


def svg_text(x, y, text, anchor="start", weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">'
            f"{html.escape(text)}</text>")


def plot(gpu):
    """Speed against the peer, one bar per case, 1 being the peer's speed; None without any."""
    rows = [r for r in gpu.rows.values() if r.get("ratio") is not None]
    if not rows:
        return None
    left, width, step, top = 330, 420, 20, 56
    most = max(1.2, max(r["ratio"] for r in rows) * 1.05)
    height = top + step * len(rows) + 24
    scale = width / most
    record = gpu.record or {}
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 70}" height="{height}" '
           'font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>',
           svg_text(12, 20, f"Catenary against its peers, {record.get('device') or gpu.name}",
                    weight="bold"),
           svg_text(12, 38, "speed, peer = 1 (blue: at least as fast, orange: slower)")]
    for i, row in enumerate(rows):
        y = top + step * i
        ratio = row["ratio"]
        color = "#2b6cb0" if ratio >= 1 else "#dd6b20"
        out.append(svg_text(left - 8, y + 12, row["case"], "end"))
        out.append(f'<rect x="{left}" y="{y + 2}" width="{ratio * scale:.1f}" height="{step - 6}" '
                   f'fill="{color}"/>')
        out.append(svg_text(left + ratio * scale + 5, y + 13, f"{ratio:.2f}"))
    line = left + scale
    out.append(f'<line x1="{line:.1f}" y1="{top - 6}" x2="{line:.1f}" y2="{height - 18}" '
               'stroke="#333" stroke-dasharray="4 3"/>')
    out.append(svg_text(line, height - 5, "peer", "middle"))
    return "\n".join(out + ["</svg>"]) + "\n"


def main(arguments):
    root = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--results", type=pathlib.Path, default=root / "results")
    parser.add_argument("--readme", type=pathlib.Path, default=root.parent / "README.md")
    options = parser.parse_args(arguments)
    if not options.results.is_dir():
        raise SystemExit(f"{options.results} is no folder: run `catenary bench` first")
    gpus = load(options.results)
    for gpu in gpus.values():
        picture = plot(gpu)
        if picture:
            (options.results / gpu.name / "summary.svg").write_text(picture)
    if options.readme.is_file():
        old = options.readme.read_text()
        new = rewrite(old, gpus)
        if new != old:
            options.readme.write_text(new)


if __name__ == "__main__":
    main(sys.argv[1:])
