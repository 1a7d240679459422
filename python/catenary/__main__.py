# SPDX-License-Identifier: Apache-2.0
"""`python -m catenary`: the `catenary` command, docs/command.md. This process becomes the program of the package."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from catenary._native import package_folders, wheel_folders


def command_path() -> Path:
    """The program: the package's own, else that of the build tree."""
    places = [folder / "bin/catenary" for folder in package_folders()]
    places.append(Path(__file__).resolve().parents[2] / "build/tools/catenary")
    for place in places:
        if place.is_file():
            return place
    words = " or ".join(map(str, places))
    sys.exit(f"catenary: the command is not in {words}: install the package with `pip install .`")


def main() -> None:
    """Runs the command with this process's arguments; does not return."""
    path = command_path()
    # NVRTC's wheel is searched in this Python's environment too.
    folders = [os.environ.get("CATENARY_NVRTC_PATH", ""), *map(str, wheel_folders())]
    environment = {**os.environ, "CATENARY_NVRTC_PATH": ":".join(folders)}
    os.execve(path, [str(path), *sys.argv[1:]], environment)


if __name__ == "__main__":
    main()
