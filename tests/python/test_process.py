# SPDX-License-Identifier: Apache-2.0
"""What a process sees: handles are freed, a forked child is refused, the command, the README, the library's search."""

import gc
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from conftest import make_linear, run_python

import catenary as ctn
from catenary.errors import Handle


def test_handles_are_freed():
    def work():
        engine = ctn.Engine()
        chain = make_linear()
        chain.gradient()
        run = engine.prepare(chain)
        run(*(np.zeros(p.shape, np.float32) for p in chain.parameters))
        run.explain()
        ctn.Array("f32", (4, 4)).numpy()
        for _ in range(3):
            with pytest.raises(ctn.ChainError):
                ctn.Chain("")
        with pytest.raises(ctn.ParseError):
            ctn.Chain.parse("chain")

    work()  # what lives as long as the process: the stream of this thread
    gc.collect()
    before = len(Handle.live)
    for _ in range(3):
        work()
    gc.collect()
    assert len(Handle.live) == before


def test_memory_does_not_grow():
    code = """
import resource, catenary as ctn, numpy as np
chain = ctn.Chain.parse('chain c(input x: f32[256, 1024]) { y = relu(x) return y: f32 }')
run = ctn.Engine().prepare(chain); x = np.zeros((256, 1024), np.float32); use = []
for i in range(60):
    run(x); ctn.Chain.parse(chain.text).operands
    use.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
print((use[-1] - use[20]) // 1024)
"""
    # Every leaked call would add 2 MiB.
    assert int(run_python(code)) < 20


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_of_fork_is_refused():
    code = """
import os, sys, catenary as ctn, numpy as np
chain = ctn.Chain.parse('chain c(input x: f32[4]) { y = relu(x) return y: f32 }')
run = ctn.Engine().prepare(chain); x = np.ones(4, np.float32); run(x); sys.stdout.flush()
if os.fork() == 0:
    try:
        run(x)
    except ctn.DeviceError as error:
        print(error.code, error, flush=True)
    os._exit(0)
os.wait(); print(run(x)[0])
"""
    child, parent = run_python(code).splitlines()
    assert child.startswith("driver ") and "fork" in child and parent == "1.0"


def test_interpreter_ends_quietly_with_live_objects():
    code = """
import catenary as ctn, numpy as np
chain = ctn.Chain.parse('chain c(input x: f32[4]) { y = relu(x) return y: f32 }')
engine = ctn.Engine(); run = engine.prepare(chain); y = run(ctn.Array.of(np.ones(4, np.float32)))
ctn.set_log(lambda level, line: None)
"""
    assert run_python(code) == ""


def test_what_logs_after_the_interpreter_has_ended():
    code = """
import ctypes, catenary as ctn
from catenary._native import lib
ctn.set_log(lambda level, line: print(level), "debug")
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
# exit() calls it with the status, 0, for options, and with a place for the engine: that logs its cache.
libc.on_exit(lib.ctn_engine_create, ctypes.c_void_p(libc.malloc(8)))
lib.ctn_engine_create(None, ctypes.c_void_p(libc.malloc(8)))
print("end")
"""
    assert run_python(code).split() == ["debug", "end"]


def test_the_command_runs():
    def command(*words):
        return subprocess.run([sys.executable, "-m", "catenary", *words], capture_output=True, text=True)

    assert command("--version").stdout.split() == ["catenary", ctn.__version__]
    assert command("no-such").returncode == 2


def test_entry_points_load():
    """Those of an installed package: of the command, and of torch.compile(backend="catenary")."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        points = distribution("catenary").entry_points
    except PackageNotFoundError:
        pytest.skip("the package is not installed")
    assert {"console_scripts", "torch_dynamo_backends"} <= {point.group for point in points}
    for point in points:
        if point.group == "torch_dynamo_backends":
            pytest.importorskip("torch")
        assert callable(point.load())


def test_a_library_that_is_not_there():
    done = subprocess.run(
        [sys.executable, "-c", "import catenary"],
        capture_output=True,
        text=True,
        env={**os.environ, "CATENARY_LIBRARY": "/nonexistent"},
    )
    assert "ImportError: libcatenary.so is not in /nonexistent" in done.stderr


def test_a_library_that_is_none(tmp_path):
    file = tmp_path / "libcatenary.so"
    file.write_text("text")
    for place in (file, tmp_path):
        done = subprocess.run(
            [sys.executable, "-c", "import catenary"],
            capture_output=True,
            text=True,
            env={**os.environ, "CATENARY_LIBRARY": str(place)},
        )
        assert f"ImportError: {file} cannot be loaded (" in done.stderr and "leave it unset" in done.stderr


def test_folders_of_python_that_are_not_the_package_s(tmp_path):
    """One that cannot be searched, and one whose name is not UTF-8."""
    closed, odd = tmp_path / "closed", os.fsencode(tmp_path) + b"/\xff"
    (closed / "below").mkdir(parents=True)
    os.makedirs(odd + b"/nvidia/cu/lib")
    path = os.pathsep.join([str(closed / "below"), os.fsdecode(odd), os.environ.get("PYTHONPATH", "")])
    # Root may search every folder, so this refuses as the system does for other users.
    code = """
import errno, os, pathlib
def stat(path, *rest, plain=os.stat, **more):
    if "closed" in os.fspath(path): raise PermissionError(errno.EACCES, "Permission denied", path)
    return plain(path, *rest, **more)
os.stat = stat
pathlib.Path.stat = lambda path, **more: stat(os.fspath(path), **more)
import catenary as ctn
from catenary.__main__ import wheel_folders
from catenary.engine import find_nvrtc
find_nvrtc()
print(ctn.Engine().device, sum(os.fsencode(folder).endswith(b"/\\xff") for folder in wheel_folders()))
"""
    environment = dict(PYTHONPATH=path, CATENARY_NVRTC="", CATENARY_DEVICE="sim")
    assert run_python(code, **environment).split() == ["sim", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "catenary", "--version"], env={**os.environ, **environment}, capture_output=True
    )
    assert done.returncode == 0


def test_the_readme_s_lines_run(root):
    blocks = re.findall(r"```python\n(.*?)```", (root / "README.md").read_text(), re.S)
    assert blocks
    for block in blocks:
        output = run_python(block)
        said = re.findall(r"print\(.*#\s*(.+)", block)
        for words in said:
            assert words.strip() in output


def test_the_pages_lines_run(root):
    """Every python block of the pages that needs no framework; later blocks of a page go on after earlier ones."""
    blocks = re.findall(r"```python\n(.*?)```", (root / "docs/python.md").read_text(), re.S)
    assert len(blocks) > 3
    run_python("\n".join(blocks))


def test_the_notebook_runs_and_says_what_it_shows(root):
    cells = json.loads((root / "examples/chain.ipynb").read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    output = run_python("\n".join(code))
    shown = ["".join(o["text"]) for cell in cells for o in cell.get("outputs", []) if o["output_type"] == "stream"]
    assert len(shown) == 4
    for text in (shown[0], shown[1], shown[3]):  # the kernel is that of the device
        assert text.strip() in output


def test_importing_loads_no_framework():
    code = "import sys, catenary; print([m for m in ('torch', 'jax', 'ml_dtypes', 'cuda') if m in sys.modules])"
    assert run_python(code).strip() == "[]"
