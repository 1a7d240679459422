# SPDX-License-Identifier: Apache-2.0
"""Machine code of a chain for one architecture, its kernels, and its plan as text, data and a table."""

from __future__ import annotations

import ctypes
import functools
import html
import json
import os
from dataclasses import dataclass
from typing import Any

from catenary import _native
from catenary._native import JSON, TEXT, lib
from catenary.arguments import encode, file_path
from catenary.chain import Chain
from catenary.errors import Handle, UnsupportedError, check, copied, result, text


class Plan(str):
    """The plan of a chain as text; `data` has the same facts, and a notebook shows them as a table."""

    data: dict[str, Any]

    def __new__(cls, words: str, data: dict[str, Any]) -> Plan:
        plan = super().__new__(cls, words)
        plan.data = data
        return plan

    def __repr__(self) -> str:
        return str(self)

    def __getnewargs__(self):
        return str(self), self.data

    def _repr_html_(self) -> str:
        rows = [_row("th", ["", "kernel", "family", "computes", "config", "predicted", "limit"])]
        number = 0
        for bucket in self.data["buckets"]:
            if bucket["hi"] > 0:
                rows.append(f"<tr><td colspan=7><b>{bucket['lo']} to {bucket['hi']}</b></td></tr>")
            for kernel in bucket["kernels"]:
                rows.append(
                    _row(
                        "td",
                        [
                            number,
                            kernel["symbol"],
                            kernel["family"],
                            ", ".join(kernel["values"]),
                            kernel["config"],
                            f"{kernel['predicted']['us']:.2f} µs",
                            _limit(kernel),
                        ],
                        title=kernel["why"],
                    )
                )
                number += 1
        return (
            f"<table>{''.join(rows)}</table>"
            f"<details><summary>the whole plan</summary><pre>{html.escape(str(self))}</pre></details>"
        )


def _row(tag: str, cells: list[Any], title: str = "") -> str:
    body = "".join(f"<{tag} style='text-align:left'>{html.escape(str(cell))}</{tag}>" for cell in cells)
    return f"<tr title='{html.escape(title, quote=True)}'>{body}</tr>"


def _limit(kernel: dict[str, Any]) -> str:
    """The term of the roofline that is largest."""
    terms = {
        name.removesuffix("_us"): us
        for name, us in kernel["predicted"].items()
        if name in ("sm_us", "l2_us", "power_us", "latency_us", "dram_us")
    }
    return max(terms, key=terms.__getitem__) if terms else ""


@dataclass(frozen=True)
class Kernel:
    """Facts of one kernel."""

    name: str
    """The entry point in the machine code."""
    arch: str
    """ "sm_90a"; "host:sm_90a" for the simulator."""
    source: str
    """The emitted CUDA source; "" for a pack without sources."""
    cubin: bytes
    """Machine code, an ELF file."""
    threads: int
    """Threads per CTA."""
    registers: int
    """Registers per thread."""
    smem_bytes: int
    """Dynamic shared memory per CTA."""

    def __repr__(self) -> str:
        return (
            f"<catenary.Kernel {self.name} for {self.arch}: {self.threads} threads, {self.registers} registers, "
            f"{self.smem_bytes} bytes of shared memory, {len(self.cubin)} bytes of code>"
        )


class Compiled:
    """A chain as machine code for one architecture. `Engine.load` makes it executable."""

    def __init__(self, *call: Any):
        self._handle = Handle(lib.ctn_compiled_destroy, *call)

    @classmethod
    def open(cls, path: str | os.PathLike[str], expected_sha256: str = "") -> Compiled:
        """What `save` wrote. PackError: the file is damaged or has another SHA-256."""
        options = _native.PackOptions(expected_sha256=encode(expected_sha256) or None)
        return cls(lib.ctn_compiled_open, file_path(path, "path"), ctypes.byref(options))

    def __reduce__(self):
        raise copied()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it as a pack of one entry."""
        check(lib.ctn_compiled_save(self._handle.pointer, file_path(path, "path")))

    @functools.cached_property
    def chain(self) -> Chain:
        """The chain that was compiled."""
        return Chain._adopt(lib.ctn_compiled_chain, self._handle.pointer)

    def explain(self) -> Plan:
        """The plan: kernels, the reason of every fusion boundary, alternatives, predicted times in µs."""
        return make_plan(lambda kind, out: lib.ctn_compiled_explain(self._handle.pointer, kind, out))

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels of all buckets of the symbol, those of each bucket in launch order."""
        count = result(ctypes.c_size_t, lib.ctn_compiled_kernel_count, self._handle.pointer)
        return [self._kernel(index) for index in range(count)]

    def _kernel(self, index: int) -> Kernel:
        facts = _native.Kernel()
        check(lib.ctn_compiled_kernel(self._handle.pointer, index, ctypes.byref(facts)))
        try:
            source = text(lib.ctn_compiled_kernel_source, self._handle.pointer, index)
        except UnsupportedError:
            source = ""
        return Kernel(
            facts.name.decode(),
            facts.arch.decode(),
            source,
            ctypes.string_at(facts.cubin, facts.cubin_bytes),
            facts.threads,
            facts.registers,
            facts.smem_bytes,
        )


def make_plan(explain: Any) -> Plan:
    """The Plan of `explain(format, result)`, a function of the C ABI."""
    return Plan(text(explain, TEXT), json.loads(text(explain, JSON)))
