# SPDX-License-Identifier: Apache-2.0
"""Cells and tables in Markdown."""
from report_plots import number


def percent(share):
    return number(None if share is None else share * 100, 1, "%")


def micros(value):
    return number(value, 2 if value is not None and value < 100 else 1)


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def ratio_text(ratio):
    if ratio is None:
        return "–"
    return f"**{ratio:.2f}**" if ratio >= 1 else f"{ratio:.2f}"
