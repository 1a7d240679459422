# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of the Python package: a cache of their own, chains, and a summary per file as ctest prints it.

The device is a GPU where there is one, else the simulator; CATENARY_DEVICE=sim asks for it.
"""

import collections
import os
import pathlib
import subprocess
import sys
import tempfile
import threading

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Kernels of earlier runs would hide what a machine cannot compile.
_cache = tempfile.TemporaryDirectory(prefix="catenary-python-tests-")
os.environ["CATENARY_CACHE_DIR"] = _cache.name

import catenary as ctn


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def engine():
    return ctn.Engine()


@pytest.fixture
def linear_chain():
    return make_linear()


def make_linear(m=16, n=32, k=24, dtype=ctn.f32, name="layer", true_f32=False):
    """y = silu(x w^T + b)."""
    chain = ctn.Chain(name)
    x = chain.input("x", dtype, (m, k))
    w = chain.weight("w", dtype, (n, k))
    b = chain.weight("b", dtype, (n,))
    chain.output(ctn.silu(ctn.contract("mk,nk->mn", x, w, true_f32=true_f32) + b), dtype)
    return chain


def data(chain, size=0, seed=0):
    rng = np.random.default_rng(seed)
    out = []
    for p in chain.parameters:
        if p.role == ctn.Role.scalar:
            out.append(0.5)
            continue
        array = rng.standard_normal(p.shape_for(size)).astype(np.float32)
        out.append(cast(array, p.dtype))
    return out


def cast(array, dtype):
    if dtype == ctn.bf16:
        return array.astype(pytest.importorskip("ml_dtypes").bfloat16)
    return array.astype({ctn.f16: np.float16, ctn.f32: np.float32, ctn.i32: np.int32}[dtype])


def run_python(code, **environment):
    """A process of its own: `code` under this interpreter; its output, once it has ended with 0."""
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def in_threads(count, work):
    """The results of `work()` in threads that live at the same time."""
    results, all_done = [], threading.Barrier(count)

    def run():
        try:
            results.append(work())
        finally:
            all_done.wait(60)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == count
    return results


class Meeting:
    """Counts the threads that are inside at the same time: each waits a moment for another."""

    def __init__(self):
        self.inside, self.most, self.another = 0, 0, threading.Event()

    def __enter__(self):
        self.inside += 1
        self.most = max(self.most, self.inside)
        if self.inside > 1:
            self.another.set()
        self.another.wait(0.5)

    def __exit__(self, *failure):
        self.inside -= 1


_files = collections.defaultdict(lambda: [0, 0, 0, 0.0])  # passed, failed, skipped, seconds


def pytest_runtest_logreport(report):
    counts = _files[report.nodeid.split("::")[0]]
    counts[3] += report.duration
    if report.failed:
        counts[1] += 1
    elif report.skipped:
        counts[2] += 1
    elif report.when == "call":
        counts[0] += 1


def pytest_collectreport(report):
    # A file that needs a package which is not installed is skipped as a whole.
    if report.skipped and report.nodeid.endswith(".py"):
        _files[report.nodeid][2] += 1


def pytest_terminal_summary(terminalreporter):
    write = terminalreporter.write_line
    for number, (path, (passed, failed, skipped, seconds)) in enumerate(sorted(_files.items()), 1):
        name = f"{pathlib.Path(path).stem} "
        outcome = "***Failed" if failed else "   Passed" if passed else "***Skipped"
        note = f"  {passed} passed" + f", {failed} failed" * bool(failed) + f", {skipped} skipped" * bool(skipped)
        write(f"{number:2}/{len(_files)} Test #{number}: {name:.<40} {outcome} {seconds:8.2f} sec{note}")
    failed = sum(bool(counts[1]) for counts in _files.values())
    share = 100 * (len(_files) - failed) // max(len(_files), 1)
    write(f"{share}% of files passed, {failed} failed out of {len(_files)}")
