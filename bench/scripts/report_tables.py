# SPDX-License-Identifier: Apache-2.0
"""report.py's tables, as Markdown: a function per marker, from what is known of one GPU."""
import math

from report_plots import SWEEP_FLOOR, geometric_mean, number, sweep_ratio
from report_text import micros, percent, ratio_text, table
from report_torch_tables import (decoder_layers_table, large_peers_table, model_brief_cells, peers_table,
                                 forms_table, quantised_peers_table, training_brief_cells, training_table, whole_models_table)


# README.md's table: a case and whether its time is the one with PDL. Losses are among them.
BRIEF = (("gemm/4096x4096x4096/bf16", False), ("swiglu/8192x4096x4096/bf16", False),
         ("grouped_bias_silu/2560x12x3072x1024/bf16", False),
         ("moe_even/4x16384x14336x4096/bf16", False),
         ("small/1x2048x4096/bf16", True), ("small/128x2048x4096/bf16", True))
BRIEF_TRAINING = 2  # rows
BRIEF_MODELS = 2


def rate(row):
    if not row.get("us"):
        return "–"
    if row.get("ceiling") == "gemm":
        return f"{row['flops'] / row['us'] * 1e-6:,.0f} TFLOP/s"
    return f"{row['bytes'] / row['us'] * 1e-6:.2f} TB/s"


def failed(row):
    """What a row without a time shows instead; None for a row with one."""
    if row["verified"] and row.get("us") is not None:
        return None
    return "wrong" if not row.get("error") and not row["verified"] else "failed"


# The columns of a table of cases: heading, text of a row. A column without any text is left out.
# A peer that all rows share is in the line above the table.
CASE_COLUMNS = (
    ("case", lambda r: r["case"]),
    ("µs", lambda r: failed(r) or micros(r["us"])),
    ("rate", rate),
    ("of copy rate",
     lambda r: percent(r.get("copy_share") if r.get("ceiling") == "copy" else None)),
    ("peer µs", lambda r: micros(r.get("peer_us"))),
    ("second peer µs", lambda r: micros(r.get("second_peer_us"))),
    ("speed against peer", lambda r: ratio_text(r.get("ratio"))),
    ("with PDL, µs", lambda r: micros(r.get("pdl_us"))),
    ("with PDL, of copy rate", lambda r: percent(r.get("pdl_copy_share"))),
    ("with PDL, speed against peer", lambda r: ratio_text(r.get("pdl_ratio"))),
    ("unfused µs", lambda r: micros(r.get("unfused_us"))),
    ("peer", lambda r: r.get("peer") or "–"),
    ("second peer", lambda r: r.get("second_peer") or "–"))


def case_cells(row):
    cells = [text(row) for _, text in CASE_COLUMNS]
    return cells if not failed(row) else cells[:2] + ["–"] * (len(cells) - 2)


def case_table(gpu, groups):
    rows = [row for row in gpu.rows.values() if groups is None or row.get("group") in groups]
    if not rows:
        return None
    head = [name for name, _ in CASE_COLUMNS]
    cells = [case_cells(row) for row in rows]
    lines = []
    keep = [i for i in range(len(head)) if i < 3 or any(c[i] != "–" for c in cells)]
    for i in [i for i in keep if head[i] in ("peer", "second peer")]:
        names = {c[i] for c in cells} - {"–"}
        if len(names) == 1:
            keep.remove(i)
            lines.append(f"{head[i].capitalize()}: {names.pop()}.")
    above = " ".join(lines) + "\n\n" if lines else ""
    return above + table([head[i] for i in keep], [[c[i] for i in keep] for c in cells])


def brief_cells(row, with_pdl):
    if failed(row):
        return [row["case"], failed(row)] + ["–"] * 3
    us, ratio = ((row.get("pdl_us"), row.get("pdl_ratio")) if with_pdl else
                 (row["us"], row.get("ratio")))
    return [row["case"] + (", PDL" if with_pdl else ""), micros(us), rate({**row, "us": us}),
            micros(row.get("peer_us")), ratio_text(ratio)]


def brief_table(gpu):
    """A dozen rows of cases, training steps and models in five columns, for README.md."""
    rows = [brief_cells(gpu.rows[case], with_pdl) for case, with_pdl in BRIEF if case in gpu.rows]
    training, models = list(gpu.training.items()), list(gpu.whole_models.values())
    rows += [training_brief_cells(name, row) for name, row in training[:BRIEF_TRAINING]]
    rows += [model_brief_cells(row) for row in models[:BRIEF_MODELS]]
    if not rows:
        return None
    return table(["case", "µs", "rate", "peer µs", "speed against peer"], rows)


def ceilings_table(gpu):
    if gpu.record is None:
        return None
    r = gpu.record
    c = r["ceilings"]
    return table(["device", "driver", "CUDA", "commit", "date", "device copy",
                  "8192³ bf16 by cuBLASLt"],
                 [[r.get("device") or "–", r.get("driver") or "–", r.get("cuda") or "–",
                   r.get("commit") or "–", (r.get("date") or "–")[:10],
                   number(c.get("copy_tbs"), 3, " TB/s"),
                   number(c.get("gemm_tflops") or None, 0, " TFLOP/s")]])


def machine_line(gpu):
    """The newest run with rows of `brief` as a sentence, with the commits of these rows, for README.md."""
    if gpu.record is None:
        return None
    shown = dict.fromkeys(gpu.rows[case].get("commit") for case, _ in BRIEF if case in gpu.rows)
    r = next((run for commit, run in reversed(gpu.runs.items()) if commit in shown), gpu.record)
    c = r["ceilings"]
    commits = ", ".join(commit[:7] for commit in shown if commit) or r.get("commit") or "–"
    return (f"{r.get('device') or gpu.name}, driver {r.get('driver') or '–'}, CUDA "
            f"{r.get('cuda') or '–'}, rows measured at commit {commits}, "
            f"{(r.get('date') or '–')[:10]}. In the same run a device copy reached "
            f"{number(c.get('copy_tbs'), 3, ' TB/s')} (bytes read and written), and cuBLASLt's "
            f"8192x8192x8192 bf16 GEMM {number(c.get('gemm_tflops') or None, 0, ' TFLOP/s')}.")


def other_commits_line(gpu):
    """Cases whose newest rows are of another commit than the run's."""
    if gpu.record is None:
        return None
    by_commit = {}
    for case, row in gpu.rows.items():
        commit = row.get("commit")
        if commit and commit != gpu.record.get("commit"):
            by_commit.setdefault(commit, []).append(f"`{case}`")
    if not by_commit:
        return None
    return "\n".join(f"Measured at commit {commit[:7]}: {', '.join(cases)}."
                     for commit, cases in by_commit.items())


def launch_table(gpu):
    if not gpu.launch:
        return None
    return table(["kernel", "Executable::launch, ns", "cuLaunchKernelEx, ns", "difference, ns"],
                 [[r["kernel"]] + [number(r[k], 0) for k in ("executable_ns", "bare_ns", "over_ns")]
                  for r in gpu.launch.values()])


def counters_table(gpu):
    if not gpu.counters:
        return None
    keys = ("tensor", "issue", "special", "l1", "l2_to_sm", "dram")
    return table(["case", "µs", "SM clock, GHz", "tensor pipe", "issue slots", "special functions",
                  "L1 data pipe", "L2 to SMs", "DRAM", "GB to SMs", "GB from and to L2"],
                 [[r["case"], micros(r["us"]), number(r["ghz"], 2)] + [percent(r[k]) for k in keys] +
                  [number(r.get(k), 2) for k in ("sm_gb", "l2_gb")]
                  for r in gpu.counters.values()])


def compile_table(gpu):
    if not gpu.compile:
        return None
    return table(["chain", "family", "parse, verify, plan, µs", "emit, µs", "NVRTC, ms per kernel",
                  "disk cache hit, µs"],
                 [[r["chain"], r["family"], number(r["frontend_us"], 0), number(r["emit_us"], 0),
                   number(r.get("nvrtc_ms"), 0), number(r.get("cache_hit_us"), 0)]
                  for r in gpu.compile.values()])


def ratio_cells(rows, which):
    """Geometric mean, worst with its shape, number of shapes below the floor."""
    ratios = [(sweep_ratio(row, which), row) for row in rows]
    ratios = [pair for pair in ratios if pair[0] is not None]
    if not ratios:
        return ["–"] * 3
    mean = geometric_mean([ratio for ratio, _ in ratios])
    worst, at = min(ratios, key=lambda pair: pair[0])
    losses = sum(ratio < SWEEP_FLOOR for ratio, _ in ratios)
    return [f"{mean:.2f}", f"{worst:.2f} (M={at['m']} K={at['k']} N={at['n']})",
            f"{losses} of {len(ratios)}"]


def sweep_table(gpu):
    if not gpu.sweep:
        return None
    rows = list(gpu.sweep.values())
    lines = []
    for m in sorted({row["m"] for row in rows}) + [None]:
        chosen = [row for row in rows if m is None or row["m"] == m]
        failed = sum(not row["verified"] or row.get("us") is None for row in chosen)
        lines.append(["all" if m is None else str(m), str(len(chosen)), str(failed)]
                     + ratio_cells(chosen, "pdl_us") + ratio_cells(chosen, "us"))
    return table(["M", "shapes", "wrong or failed", "with PDL: geometric mean", "worst",
                  f"below {SWEEP_FLOOR}", "without PDL: geometric mean", "worst",
                  f"below {SWEEP_FLOOR}"], lines)


def spread_cells(ratios):
    """Geometric mean, tenth percentile, worst."""
    if not ratios:
        return ["–"] * 3
    ordered = sorted(ratios)
    at = 0.1 * (len(ordered) - 1)
    low = ordered[math.floor(at)]
    p10 = low + (ordered[math.ceil(at)] - low) * (at - math.floor(at))
    return [f"{geometric_mean(ratios):.3f}", f"{p10:.3f}", f"{ordered[0]:.3f}"]


def layers_table(gpu, name):
    """A sweep's layers by kind: the peer's time over ours, with PDL where that was measured."""
    rows = list(gpu.layers[name].values())
    if not rows:
        return None
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    lines = []
    for kind in kinds + [None]:
        chosen = [row for row in rows if kind in (None, row["kind"])]
        timed = [row for row in chosen if row["ratio"] and row["best_ratio"]]
        lines.append([kind or "all", str(len(chosen)), str(len(chosen) - len(timed))]
                     + spread_cells([row["best_ratio"] for row in timed])
                     + spread_cells([row["ratio"] for row in timed]))
    return table(["kind", "layers", "not timed", "with PDL: geometric mean", "tenth percentile", "worst",
                  "without PDL: geometric mean", "tenth percentile", "worst"], lines)


def calibration_table(gpu):
    if not gpu.calibration:
        return None
    return table(["what", "measured"],
                 [[row["name"], number(row["value"], 3, " " + row["unit"])]
                  for row in gpu.calibration.values()])


def choice(row):
    """The best candidate's time over that of the planner's choice; None where it was not timed."""
    timed = [tile for tile in row["tiles"] if tile["us"]]
    chosen = [tile["us"] for tile in timed if tile["chosen"]]
    return min(tile["us"] for tile in timed) / chosen[0] if chosen else None


def correlation(pairs):
    """Pearson's, None of fewer than three pairs or of constant ones."""
    if len(pairs) < 3:
        return None
    mean_x, mean_y = (sum(values) / len(pairs) for values in zip(*pairs))
    xx = sum((x - mean_x) ** 2 for x, _ in pairs)
    yy = sum((y - mean_y) ** 2 for _, y in pairs)
    xy = sum((x - mean_x) * (y - mean_y) for x, y in pairs)
    return xy / math.sqrt(xx * yy) if xx and yy else None


def choice_cells(rows):
    """Shapes, failures, mean and worst of choice(), how often the choice was best; then the
    correlation of predicted and measured times: of all candidates, in logarithms, and within each
    shape (the mean over the shapes), which is what a choice depends on."""
    shares = [(choice(row), row) for row in rows]
    shares = [pair for pair in shares if pair[0] is not None]
    if not shares:
        return [str(len(rows)), str(len(rows))] + ["–"] * 5
    mean = geometric_mean([share for share, _ in shares])
    worst, at = min(shares, key=lambda pair: pair[0])
    batch = f"{at['batch']} x " if at["batch"] > 1 else ""
    points = [[(math.log(tile["predicted_us"]), math.log(tile["us"])) for tile in row["tiles"]
               if tile["us"]] for row in rows]
    within = [value for value in map(correlation, points) if value is not None]
    return [str(len(rows)), str(len(rows) - len(shares)), f"{mean:.3f}",
            f"{worst:.3f} ({batch}{at['m']}x{at['n']}x{at['k']})",
            f"{sum(share > 0.99 for share, _ in shares)} of {len(shares)}",
            number(correlation([point for one in points for point in one]), 3),
            number(sum(within) / len(within) if within else None, 3)]


def choices_table(gpu):
    if not gpu.choices:
        return None
    rows = list(gpu.choices.values())
    kinds = [("dense, M to 256", lambda r: r["batch"] == 1 and not r["gated"] and r["m"] <= 256),
             ("dense, larger M", lambda r: r["batch"] == 1 and not r["gated"] and r["m"] > 256),
             ("batched", lambda r: r["batch"] > 1), ("dual", lambda r: r["gated"]),
             ("all", lambda r: True)]
    lines = [[name] + choice_cells([row for row in rows if wanted(row)])
             for name, wanted in kinds if any(wanted(row) for row in rows)]
    return table(["contractions", "shapes", "not timed", "choice against best: geometric mean",
                  "worst", "within 1%", "correlation of predicted and measured", "within a shape"],
                 lines)


def choice_text(tile, split):
    return tile + (f", split-K {split}" if split > 1 else "")


def tuned_table(gpu):
    """What `catenary tune` measured for shapes whose first choice was slower, a contest each."""
    if not gpu.tuned:
        return None
    return table(["shape", "first choice", "its µs", "tuned", "its µs", "faster by"],
                 [[shape, choice_text(r["model_tile"], r["model_split_k"]), micros(r["model_us"]),
                   choice_text(r["tile"], r["split_k"]), micros(r["us"]),
                   percent(r["model_us"] / r["us"] - 1 if r["model_us"] and r["us"] else None)]
                  for shape, r in gpu.tuned.items()])


def listed(names):
    return ", ".join(names[:-1]) + " and " + names[-1]


def packs_lines(record):
    """What packs cost, in three lines for README.md."""
    pack, many = record["pack"], record["thousand"]
    mib = lambda count: f"{count / 2 ** 20:.1f} MiB"
    parts = lambda rows: ", ".join(f"{row['name']} {mib(row['bytes'])}" for row in rows)
    target = many["targets"][0]
    busy = " beside other work" if record.get("load_before", 0) > record["cores"] else ""
    return "\n".join((
        f"- {listed(record['models'])}: {record['layers']} layers for M in "
        f"{record['symbol'].replace(',', ' and M = ')}, for {len(pack['archs'])} architectures, are "
        f"{pack['entries']} entries and {mib(pack['bytes'])}. Building the pack takes "
        f"{number(record['build_cpu_seconds'], 0)} s of processor time on {record['cores']} cores{busy}.",
        f"- Machine code: {parts(pack['families'])}; {parts(pack['archs'])}.",
        f"- A pack of {many['entries']:,} entries ({mib(many['bytes'])}) opens in "
        f"{number(many['open_us'], 0)} µs; to map the file takes {number(many['map_us'], 0)} µs. "
        f"`prepare` of an entry takes {number(target['prepare_us'], 0)} µs (slowest "
        f"{number(target['prepare_worst_us'], 0)} µs) and the driver's load."))


SPECIAL = {"machine": machine_line, "brief": brief_table, "ceilings": ceilings_table,
           "calibration": calibration_table,
           "models": lambda gpu: layers_table(gpu, "models"),
           "random": lambda gpu: layers_table(gpu, "random"),
           "launch": launch_table, "compile": compile_table, "sweep": sweep_table,
           "choices": choices_table, "peers": peers_table, "large_peers": large_peers_table,
           "counters": counters_table, "tuned": tuned_table, "training": training_table,
           "whole_models": whole_models_table, "decoder_layers": decoder_layers_table,
           "quantised_peers": quantised_peers_table, "forms": forms_table}
