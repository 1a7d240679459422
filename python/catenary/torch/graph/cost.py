# SPDX-License-Identifier: Apache-2.0
"""Whether a chain is faster than what it replaces, by the planner's cost model."""

from __future__ import annotations

import bisect
import functools
import re

import torch

from catenary.chain import Chain
from catenary.engine import Engine
from catenary.errors import Error

# cuBLASLt's time over ours for one product, by its rows: geometric means of bench/results/h200/sweep-20261123.json up
# to 64 rows, and of models-*of6-20261124.json above.
_ROWS = (1, 2, 3, 4, 8, 16, 17, 32, 48, 64, 128, 512, 4096)
_PEER = (1.154, 1.132, 1.130, 1.143, 1.129, 1.098, 1.087, 1.048, 1.033, 1.010, 0.98, 0.94, 0.99)

ROW_SUM = 0.94
"""Inductor's time of a product of one row, which it computes as a sum, over ours (RESULTS torch-2)."""


def peer_ratio(rows: int) -> float:
    """By what a product of this many rows is slower in cuBLASLt than the planner predicts for ours."""
    return _PEER[min(bisect.bisect_left(_ROWS, max(rows, 1)), len(_PEER) - 1)]


@functools.cache
def _engine() -> Engine:
    return Engine()


@functools.lru_cache(maxsize=4096)
def _planned(text: str, target: str) -> tuple[float, str]:
    try:
        plan = _engine().explain(Chain.parse(text), target).data
    except Error:
        return float("inf"), ""
    return float(plan["totals"]["predicted_us"]), "; ".join(plan["buckets"][0]["kept_apart"])


def predicted_us(text: str, target: str) -> float:
    """The predicted time of a chain in microseconds; infinite: no kernel has it."""
    return _planned(text, target)[0]


def kept_apart(text: str, target: str) -> str:
    """Why norms of a chain have kernels of their own; "": they have none."""
    return _planned(text, target)[1]


def target_of(device: torch.device) -> str:
    """The planner's name of a device; "h200" for the CPU, where plans are only looked at."""
    if device.type != "cuda":
        return "h200"
    name = torch.cuda.get_device_name(device).lower()
    for known in ("b200", "h200", "h100", "a100", "a10", "l4", "rtx 4090"):
        if re.search(rf"\b{known}\b", name):
            return known.replace(" ", "")
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}" + ("a" if major in (9, 10) else "")
