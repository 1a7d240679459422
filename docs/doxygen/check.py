#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on any warning of doxygen about the public headers. Exit code 77: no doxygen."""
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    if shutil.which("doxygen") is None:
        print("skipped: no doxygen")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        text = (ROOT / "docs/doxygen/Doxyfile").read_text() + f"\nOUTPUT_DIRECTORY = {folder}\n"
        run = subprocess.run(["doxygen", "-"], input=text, cwd=ROOT, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        print(run.stdout, end="")
        pages = pathlib.Path(folder, "html")
        for page in ("catenary_8h.html", "classctn_1_1Chain.html"):
            if "silu" not in (pages / "namespacectn.html").read_text() or not (pages / page).exists():
                print(f"the reference lacks {page}")
                return 1
    return 1 if run.returncode != 0 or run.stdout.strip() else 0


if __name__ == "__main__":
    sys.exit(main())
