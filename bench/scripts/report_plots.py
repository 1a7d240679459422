# SPDX-License-Identifier: Apache-2.0
"""report.py's plots, as SVG: each case, and each layer of the sweep over small M, against its peer."""
import html

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


def plot(gpu):
    """Speed against the peer, one bar per case, 1 being the peer's speed; None without any."""
    rows = [r for r in gpu.rows.values() if r.get("ratio") is not None]
    if not rows:
        return None
    left, width, step, top = 330, 420, 20, 56
    most = max(1.2, max(r["ratio"] for r in rows) * 1.05)
    groups = []  # in the order of their first rows; rows of a group are together
    for row in rows:
        if row.get("group") not in groups:
            groups.append(row.get("group"))
    lines = []  # a group's name, or one of its rows
    for group in groups:
        lines += [group] + [row for row in rows if row.get("group") == group]
    height = top + step * len(lines) + 24
    scale = width / most
    record = gpu.record or {}
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 70}" height="{height}" '
           'font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>',
           svg_text(12, 20, f"Catenary against its peers, {record.get('device') or gpu.name}",
                    weight="bold"),
           svg_text(12, 38, "speed, peer = 1 (blue: at least as fast, orange: slower)")]
    for i, row in enumerate(lines):
        y = top + step * i
        if not isinstance(row, dict):
            out.append(svg_text(12, y + 14, row or "", weight="bold"))
            continue
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


def heat_color(ratio):
    """Orange below the floor, pale at 1, deeper blue up to 2."""
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
