#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Doxygen's input filter: makes the headers' plain comments documentation.

A comment is about the declarations that follow it up to the next blank line or comment; one at the
end of a line is about that line. A comment that a blank line follows is about the section.
"""
import re
import sys


def is_comment(line):
    text = line.strip()
    return text.startswith("//") or text.startswith("/*")


def blocks(lines):
    """(is a comment, its lines) in order."""
    i = 0
    while i < len(lines):
        begin = i
        if lines[i].strip().startswith("/*"):
            while "*/" not in lines[i]:
                i += 1
            i += 1
            yield True, lines[begin:i]
        elif lines[i].strip().startswith("//"):
            while i < len(lines) and lines[i].strip().startswith("//"):
                i += 1
            yield True, lines[begin:i]
        else:
            i += 1
            yield False, lines[begin:i]


def text_of(comment):
    text = []
    for line in comment:
        line = line.strip()
        line = re.sub(r"^(//|/\*|\*(?!/))\s?", "", line)
        text.append(re.sub(r"\s*\*/$", "", line))
    return [escaped(line) for line in text]


def escaped(text):
    """As plain text: no commands, no markup, no links."""
    return re.sub(r"([\\@<>&#%\"*_`~])", lambda m: "\\" + m[1] if m[1] in "\\@<>&#%\"" else m[1], text)


def documented(comment):
    text = text_of(comment)
    return ["/** " + text[0]] + ["    " + line for line in text[1:]] + ["*/"]


def with_end_comments(line):
    """A comment at the end of a line of code."""
    line = re.sub(r"(\S.*?)\s*/\*\s*(.*?)\s*\*/\s*$", lambda m: f"{m[1]} /**< {escaped(m[2])} */", line)
    if "/**<" in line or line.strip().startswith("#"):
        return line
    line = re.sub(r"^(.*;)\s*/\*\s+([^*]*)$", lambda m: f"{m[1]} /**< {escaped(m[2])}", line)
    return re.sub(r"^(.*[;,{}(]\s*)//\s+(.*)$", lambda m: f"{m[1]}/**< {escaped(m[2])} */", line)


def run_after(lines):
    """The lines up to the first blank line or comment outside of braces; declarations among them."""
    depth = 0
    count = 0
    for i, line in enumerate(lines):
        text = re.sub(r"//.*|/\*.*?(\*/|$)", "", line).strip()
        if depth == 0 and (not line.strip() or is_comment(line) or text.startswith("}")):
            return lines[:i], count
        depth += text.count("{") - text.count("}")
        if depth == 0 and text.endswith((";", "}")):
            count += 1
    return lines, count


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        lines = file.read().split("\n")
    parts = list(blocks(lines))
    out = []
    close_at = -1  # the end of a group of declarations that share a comment
    at = 0
    for comment, block in parts:
        end = at + len(block)
        if at == close_at:
            out.append("/**@}*/")
        if not comment:
            out += [with_end_comments(line) for line in block]
        elif at == 0:
            text = text_of(block)
            out += ["/** @file", *["    " + line for line in text if "SPDX" not in line], "*/"]
        elif end < len(lines) and lines[end].strip() and not lines[end].startswith("#endif"):
            out += documented(block)
            run, count = run_after(lines[end:])
            if count > 1 and not re.search(r"^\s*(typedef )?(class|struct|enum)\b.*{", "\n".join(run), re.M):
                out.append("/**@{*/")
                close_at = end + len(run)
        else:
            out += block
        at = end
    sys.stdout.write("\n".join(out))


if __name__ == "__main__":
    main()
