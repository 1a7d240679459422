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
        for page, name in (("catenary_8h.html", "ctn_chain_contract"), ("namespacectn.html", "silu"),
                           ("classctn_1_1Chain.html", "output")):
            if not (pages / page).exists() or name not in (pages / page).read_text():
                print(f"the reference lacks {name} on {page}")
                return 1
    return 1 if run.returncode != 0 or run.stdout.strip() else 0


if __name__ == "__main__":
    sys.exit(main())
