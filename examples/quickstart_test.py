#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""README.md shows quickstart.cpp as it is, and prints what it prints in the simulator.

    quickstart_test.py PROGRAM
"""
import os
import pathlib
import re
import subprocess
import sys

EXAMPLES = pathlib.Path(__file__).resolve().parent
BLOCKS = re.compile(r"```cpp\n(#include <catenary/.*?)```\n.*?```\n(.*?)```\n", re.DOTALL)


def main(program):
    found = BLOCKS.search((EXAMPLES.parent / "README.md").read_text(encoding="utf-8"))
    if not found:
        sys.exit("README.md has no C++ block with the output after it: show examples/quickstart.cpp")
    source = (EXAMPLES / "quickstart.cpp").read_text(encoding="utf-8")
    if found.group(1) != source.split("\n", 1)[1]:  # without the licence line
        sys.exit("README.md's first C++ block is not examples/quickstart.cpp: copy the file")
    printed = subprocess.run([program], env={**os.environ, "CATENARY_DEVICE": "sim"}, check=True,
                             capture_output=True, text=True).stdout
    if printed != found.group(2):
        sys.exit(f"README.md shows the output {found.group(2)!r}, the program prints {printed!r}")


if __name__ == "__main__":
    main(*sys.argv[1:])
