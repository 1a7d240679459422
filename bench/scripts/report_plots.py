# SPDX-License-Identifier: Apache-2.0
"""report.py's plots, as SVG: workloads against their peers, every shape of the sweep against its peer."""
import html
import math

SWEEP_FLOOR = 0.97  # of the peer's speed: the goal for every layer of the sweep
CELL_WIDTH, CELL_HEIGHT = 44, 22


def number(value, digits=1, unit=""):
    return "–" if value is None else f"{value:,.{digits}f}{unit}"


def sweep_ratio(row, which):
    """The peer's time over ours; None where either is missing."""
    return row["peer_us"] / row[which] if row.get("peer_us") and row.get(which) else None


def svg_text(x, y, text, anchor="start", weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">'
            f"{html.escape(text)}</text>")


def geometric_mean(values):
    return math.exp(sum(math.log(value) for value in values) / len(values))


def case_ratios(gpu, wanted, with_pdl):
    key = "pdl_ratio" if with_pdl else "ratio"
    return [r[key] for r in gpu.rows.values() if wanted(r) and r.get(key) is not None]


def sweep_ratios(gpu, lo, hi, with_pdl):
    which = "pdl_us" if with_pdl else "us"
    ratios = [sweep_ratio(row, which) for row in gpu.sweep.values() if lo <= row["m"] <= hi]
    return [ratio for ratio in ratios if ratio is not None]


FUSED = ("grouped_bias_silu", "grouped_gated")


def in_group(group):
    return lambda row: row.get("group") == group


# Workloads of the summary: label, ratios of a GPU with or without PDL, whether PDL is what counts.
# It does where kernels are so short that launches decide.
WORKLOADS = (
    ("GEMM", lambda g, pdl: case_ratios(g, in_group("gemm"), pdl), False),
    ("GEMM + bias, GELU", lambda g, pdl: case_ratios(g, in_group("epilogue"), pdl), False),
    ("SwiGLU (dual GEMM)", lambda g, pdl: case_ratios(g, in_group("swiglu"), pdl), False),
    ("Grouped: forward, dgrad, wgrad", lambda g, pdl: case_ratios(
        g, lambda r: r.get("group") == "grouped" and not r["case"].startswith(FUSED), pdl), False),
    ("Grouped + bias, SiLU or gate", lambda g, pdl: case_ratios(
        g, lambda r: r.get("group") == "grouped" and r["case"].startswith(FUSED), pdl), False),
    ("Experts: forward, dgrad, wgrad", lambda g, pdl: case_ratios(g, in_group("moe"), pdl), False),
    ("Experts: decode", lambda g, pdl: case_ratios(g, in_group("moe_decode"), pdl), True),
    ("Linear, M = 1 to 16", lambda g, pdl: sweep_ratios(g, 1, 16, pdl), True),
    ("Linear, M = 17 to 64", lambda g, pdl: sweep_ratios(g, 17, 64, pdl), True),
    ("MLP, M = 1 to 64", lambda g, pdl: case_ratios(g, in_group("mlp"), pdl), True))

TICKS = (0.25, 0.5, 0.7, 1, 1.4, 2, 2.8, 4, 5.6, 8, 16)
BETTER, WORSE = "#2b6cb0", "#dd6b20"


def summary_row(y, label, ratios, hollow, place):
    """A whisker from the least to the greatest ratio, a dot at the geometric mean; `hollow`: the
    mean without PDL."""
    mean, least, most = geometric_mean(ratios), min(ratios), max(ratios)
    color = BETTER if mean >= 1 else WORSE
    out = [svg_text(200, y + 4, label, "end"),
           f'<line x1="{place(least):.1f}" y1="{y}" x2="{place(most):.1f}" y2="{y}" '
           f'stroke="{color}" stroke-width="2"/>']
    for end in (least, most):
        out.append(f'<line x1="{place(end):.1f}" y1="{y - 5}" x2="{place(end):.1f}" y2="{y + 5}" '
                   f'stroke="{BETTER if end >= 1 else WORSE}" stroke-width="2"/>')
    if least < 1:
        out.append(f'<line x1="{place(least):.1f}" y1="{y}" x2="{place(min(most, 1)):.1f}" y2="{y}" '
                   f'stroke="{WORSE}" stroke-width="2"/>')
    if hollow:
        out.append(f'<circle cx="{place(geometric_mean(hollow)):.1f}" cy="{y}" r="4" fill="white" '
                   f'stroke="{color}" stroke-width="1.5"/>')
    out.append(f'<circle cx="{place(mean):.1f}" cy="{y}" r="5" fill="{color}"/>')
    out.append(svg_text(640, y + 4, f"{mean:.2f}", "end", "bold"))
    out.append(svg_text(648, y + 4, f"{least:.2f} to {most:.2f}, {len(ratios)} "
                        f"case{'s' if len(ratios) > 1 else ''}"))
    return out


def summary(gpu):
    """Speed against the peer by workload; None without any."""
    rows = [(label + (", PDL" if pdl else ""), ratios(gpu, pdl), ratios(gpu, False) if pdl else [])
            for label, ratios, pdl in WORKLOADS]
    rows = [row for row in rows if row[1]]
    if not rows:
        return None
    every = [ratio for _, ratios, hollow in rows for ratio in ratios]
    low = math.log2(min(0.85, min(every) / 1.04))
    high = math.log2(max(2, max(every) * 1.04))
    left, right, top, step = 214, 590, 62, 21
    bottom = top + step * len(rows)

    def place(ratio):
        return left + (right - left) * (math.log2(ratio) - low) / (high - low)

    device = (gpu.record or {}).get("device") or gpu.name
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="820" height="{bottom + 34}" '
           'font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>',
           svg_text(12, 20, f"Speed against cuBLASLt on one {device}", weight="bold"),
           svg_text(12, 38, "Peer: cuBLASLt's fastest heuristic algorithm with its own epilogue, "
                            "else with our pointwise kernel; a call per expert.")]
    for tick in TICKS:
        if low <= math.log2(tick) <= high:
            x = place(tick)
            out.append(f'<line x1="{x:.1f}" y1="{top - 12}" x2="{x:.1f}" y2="{bottom - 8}" '
                       f'stroke="{"#333" if tick == 1 else "#ddd"}"/>')
            out.append(svg_text(x, bottom + 6, f"{tick:g}", "middle"))
    for i, (label, ratios, hollow) in enumerate(rows):
        out += summary_row(top + step * i, label, ratios, hollow, place)
    out.append(svg_text(12, bottom + 24, "Dot: geometric mean; line: least to greatest; 1: as fast as the "
                        "peer, right of it faster. Hollow dot: mean without PDL."))
    return "\n".join(out + ["</svg>"]) + "\n"


def heat_color(ratio):
    """Orange below the floor, pale around 1, deeper blue up to 2 and beyond."""
    if ratio is None:
        return "#dddddd"
    if ratio < SWEEP_FLOOR:
        return "#dd6b20"
    part = min(max(ratio - 1, 0), 1)
    return "#" + "".join(f"{round(a + (b - a) * part):02x}"
                         for a, b in ((0xeb, 0x2b), (0xf4, 0x6c), (0xff, 0xb0)))


def heat_panel(rows, m, left, top):
    """One M: K downwards, N to the right, the ratio with PDL in each cell."""
    ks = sorted({key[1] for key in rows})
    ns = sorted({key[2] for key in rows})
    out = [svg_text(left, top - 24, f"M = {m}", weight="bold")]
    for j, n in enumerate(ns):
        out.append(svg_text(left + j * CELL_WIDTH + CELL_WIDTH / 2, top - 6, str(n), "middle"))
    for i, k in enumerate(ks):
        y = top + i * CELL_HEIGHT
        out.append(svg_text(left - 4, y + 15, str(k), "end"))
        for j, n in enumerate(ns):
            row = rows.get((m, k, n))
            if row is None:
                continue
            ratio = sweep_ratio(row, "pdl_us")
            x = left + j * CELL_WIDTH
            out.append(f'<rect x="{x}" y="{y}" width="{CELL_WIDTH - 1}" '
                       f'height="{CELL_HEIGHT - 1}" fill="{heat_color(ratio)}"/>')
            out.append(svg_text(x + CELL_WIDTH / 2, y + 15, number(ratio, 2), "middle"))
    return out


def heat_map(gpu):
    """The sweep, one panel per M, two side by side; None without one."""
    if not gpu.sweep:
        return None
    ms = sorted({key[0] for key in gpu.sweep})
    wide = 64 + CELL_WIDTH * len({key[2] for key in gpu.sweep})
    high = 60 + CELL_HEIGHT * len({key[1] for key in gpu.sweep})
    device = next(iter(gpu.sweep.values())).get("device") or gpu.name
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * wide + 20}" '
           f'height="{50 + high * ((len(ms) + 1) // 2)}" font-family="sans-serif" font-size="11">',
           '<rect width="100%" height="100%" fill="white"/>',
           svg_text(12, 20, f"Small M against cuBLASLt, {device}", weight="bold"),
           svg_text(12, 36, "peer's time over ours, with PDL; K down, N to the right; "
                            f"orange: below {SWEEP_FLOOR}")]
    for i, m in enumerate(ms):
        out += heat_panel(gpu.sweep, m, 56 + wide * (i % 2), 96 + high * (i // 2))
    return "\n".join(out + ["</svg>"]) + "\n"
