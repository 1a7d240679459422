#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plain technical English: fails on words that docs/glossary.md replaces and on turns of phrase that
stop a reader. Looks at comments, test titles, messages and documents.

    tests/style/prose.py [PATH ...]     files or folders; without an argument all that git does not ignore
    tests/style/prose.py --self-test
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# (pattern, what to say instead)
TICS = [
    (r"\bbehind\b", "after, past"),
    (r"\b(?:stands?|lies?) (?:in|at|on|there|here|side|where|for|behind|before|between)\b", "is"),
    (r"\balone\b(?=[\s]*[,.;:)\]]|$)", "only"),
    (r"\b(?:nobody|somebody|anybody)\b", "no CTA, another group, a caller"),
    (r"\blets? (?:\w+ ){0,4}in\b(?! the)", "triggers the next kernel"),
    (r"\bon (?:its|their) way\b", "in flight"),
    (r"\bof which\b", "one idea a sentence"),
    (r"\bheld to\b", "clamped to, at most"),
    (r"\bmend(?:s|ed|ing)?\b", "fix"),
    (r"\bthe way of (?!a chain)", "the path of"),
    (r"\btwins?\b", "host shim"),
    (r"\bfew rows\b", "small M"),
    (r"\bK splits?\b|\bsplits? of K\b", "split-K"),
    (r"\b(?:tensor|bulk) cop(?:y|ies)\b(?! engine)", "TMA load or store, bulk load"),
    (r"\bwalks?\b(?! through)", "visits, coordinate, schedule"),
    (r"\bplain (?:edges?|launch(?:es)?)\b", "without PDL"),
    (r"\boverlapped launch(?:es)?\b", "with PDL"),
    (r"\b(?:parities|parity)\b(?! \d)", "phase"),
    (r"\bforeign\b", "of other groups"),
    (r"\bthreads cop(?:y|ied)\b|\bcopied by threads\b", "cp.async fallback loads"),
    (r"\bgated pairs?\b", "dual GEMM"),
]
STARTS = [(r"Of (?!course)", "a sentence with a subject")]

CODE = {".h", ".hpp", ".cpp", ".c", ".cuh", ".cu", ".def", ".py", ".cmake"}
SKIPPED = ("bench/results/", "tests/golden/", "tests/style/", "tests/mutants/REPORT.md", "LICENSE", "docs/glossary.md")


def prose_of(path, text):
    """(line number, text) of what a person reads."""
    suffix = path.suffix
    for number, line in enumerate(text.splitlines(), 1):
        if suffix == ".md":
            yield number, re.sub(r"`[^`]*`", "``", line)
        elif suffix in (".py", ".cmake") or path.name == "CMakeLists.txt":
            found = re.search(r"#\s?(.*)", line)
            if found:
                yield number, found.group(1)
        else:
            code, _, comment = line.partition("//")
            if comment:
                yield number, re.sub(r"`[^`]*`", "``", comment.strip())
            for quoted in re.findall(r'"((?:[^"\\]|\\.)*)"', code):
                if " " in quoted and "contract" not in quoted and ";" not in quoted:
                    yield number, quoted


def check(path, text):
    wrong = []
    previous = ""
    for number, line in prose_of(path, text):
        for pattern, say in TICS:
            found = re.search(pattern, line, re.IGNORECASE)
            if found:
                wrong.append((number, found.group(0), say))
        starts = not previous or previous.rstrip().endswith((".", ":", "|"))
        for pattern, say in STARTS:
            if starts and re.match(r"[-*\s|]*" + pattern, line):
                wrong.append((number, line[:30], say))
            if re.search(r"[.:;] " + pattern, line):
                wrong.append((number, "Of ...", say))
        previous = line
    return wrong


def listed(arguments):
    """Names of files below ROOT. In a checkout, files that git ignores are left out."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *arguments]
    if (ROOT / ".git").exists():
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        return sorted(name for name in done.stdout.split("\0") if name)
    places = [ROOT / argument for argument in arguments] or [
        entry for entry in ROOT.iterdir() if not entry.name.startswith(("build", "."))]
    found = [path for place in places for path in ([place] if place.is_file() else place.rglob("*"))]
    return sorted(str(path.relative_to(ROOT)) for path in found if path.is_file())


def files(arguments):
    for name in listed(arguments):
        path = pathlib.Path(name)
        known = path.suffix in CODE or path.suffix == ".md" or path.name == "CMakeLists.txt"
        if known and not name.startswith(SKIPPED):
            yield name, ROOT / name


def self_test():
    assert check(pathlib.Path("a.cpp"), "// the rows behind the last end\n")
    assert check(pathlib.Path("a.cpp"), "// Of its rows, some.\n")
    assert check(pathlib.Path("a.cpp"), 'x("no tile lies in it")\n')
    assert check(pathlib.Path("a.md"), "phase 0 alone.\n")
    assert not check(pathlib.Path("a.cpp"), "// after the last group\nint behind = 0;\n")
    assert not check(pathlib.Path("a.md"), "the `behind` word\n")


def main():
    self_test()
    if sys.argv[1:] == ["--self-test"]:
        return 0
    count = 0
    for name, path in files(sys.argv[1:]):
        if not path.is_file():  # deleted and not yet committed
            continue
        for number, found, say in check(pathlib.Path(name), path.read_text(encoding="utf-8")):
            print(f"{name}:{number}: '{found}': say: {say}")
            count += 1
    if count:
        print(f"{count} places are not plain English", file=sys.stderr)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
