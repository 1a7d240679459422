#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The packs of bench/cases/models -> a record of their size, build time and start-up. Needs no GPU.

    bench/scripts/packs.py --catenary build/tools/catenary [--out FILE] [--keep FOLDER]

Two packs are built. `models` has every layer for M in 1..64 and M = 4096, for sm_80, sm_90a and
sm_100a; it is built without the cache, and timed. `thousand` has the layers for 46 sizes of M for
one GPU; its kernels may come from the cache. `catenary bench --pack` measures both. The record has
also what zlib makes of the machine code, blob by blob. `report.py` makes README.md's lines of it
(marker `packs`).
Exit codes: 0 done, 1 a command failed.
"""
import argparse
import datetime
import json
import os
import pathlib
import resource
import struct
import subprocess
import sys
import tempfile
import time
import zlib

MODELS = pathlib.Path(__file__).resolve().parents[1] / "cases" / "models"
NAMES = {"llama3_8b": "Llama-3-8B", "qwen2_5_7b": "Qwen2.5-7B", "mixtral_8x7b": "Mixtral-8x7B",
         "gpt_oss_20b": "gpt-oss-20b"}
TARGETS = ("a100", "h200", "b200")
SYMBOL = "1..64,4096"
THOUSAND_TARGET = "h200"
# M of the second pack: 46 sizes, for 22 layers.
SIZES = [1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224,
         256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584,
         4096, 5120, 6144, 7168, 8192, 12288, 16384]

# The layout is that of runtime/pack/format.h.
BLOB_TABLE_AT = 48
BLOB_ROW = struct.Struct("<32sQQII")
CODE_ALIGN = 4096


def run(command, **more):
    """The command's JSON."""
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, **more)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(str(part) for part in command[:3])} ended with exit code "
                         f"{done.returncode}")
    return json.loads(done.stdout)


def build(catenary, output, targets, symbol, cache):
    """NVRTC runs in the command, so that its CPU time counts."""
    chains = sorted(MODELS.glob("*/*.chain"))
    return run([catenary, "pack", "build", "--json", "-o", output, "--arch", ",".join(targets),
                "--symbol", symbol] + ([] if cache else ["--no-cache"]) + chains,
               env={**os.environ, "CATENARY_HELPER": "off"})


def code_blobs(pack):
    """The machine code of a pack's bytes, blob by blob."""
    table, count = struct.unpack_from("<QQ", pack, BLOB_TABLE_AT)
    for i in range(count):
        _, offset, size, _, _ = BLOB_ROW.unpack_from(pack, table + i * BLOB_ROW.size)
        if offset % CODE_ALIGN == 0 and pack[offset:offset + 4] == b"\x7fELF":
            yield pack[offset:offset + size]


def zlib_share(pack):
    """Bytes of the machine code after zlib over bytes before."""
    before = after = 0
    for blob in code_blobs(pack):
        before += len(blob)
        after += len(zlib.compress(blob, 6))
    return after / before if before else None


def measure(catenary, path):
    record = run([catenary, "bench", "--json", "--pack", path])
    return record["pack"], record["commit"]


def cpu_seconds():
    """Of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return None


def load():
    """Other work of the host: processes that want to run, over the last minute."""
    return round(os.getloadavg()[0], 2)


def make_record(catenary, folder):
    models, thousand = folder / "models.ctnpack", folder / "thousand.ctnpack"
    before = load()
    start, cpu = time.monotonic(), cpu_seconds()
    built = build(catenary, models, TARGETS, SYMBOL, cache=False)
    seconds, cpu = time.monotonic() - start, cpu_seconds() - cpu
    build(catenary, thousand, [THOUSAND_TARGET], ",".join(str(m) for m in SIZES), cache=True)
    cost, commit = measure(catenary, models)
    many, _ = measure(catenary, thousand)
    return {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "commit": commit, "processor": processor(), "cores": os.cpu_count(),
            "load_before": before, "compilers": built["manifest"]["compilers"],
            "layers": len(list(MODELS.glob("*/*.chain"))),
            "models": list(NAMES.values()),
            "symbol": SYMBOL, "build_seconds": round(seconds, 1),
            "build_cpu_seconds": round(cpu, 1), "sha256": built["sha256"],
            "pack": cost, "zlib_share": round(zlib_share(models.read_bytes()), 3),
            "thousand": many}


def self_test():
    blob = b"\x7fELF" + b"code" * 100
    table = 4096
    pack = bytearray(8192 + len(blob))
    struct.pack_into("<QQ", pack, BLOB_TABLE_AT, table, 2)
    BLOB_ROW.pack_into(pack, table, b"a" * 32, 4200, 8, 0, 0)  # a text
    BLOB_ROW.pack_into(pack, table + BLOB_ROW.size, b"b" * 32, 8192, len(blob), 0, 0)
    pack[8192:] = blob
    assert list(code_blobs(bytes(pack))) == [blob]
    assert zlib_share(bytes(pack)) == len(zlib.compress(blob, 6)) / len(blob)
    chains = sorted(MODELS.glob("*/*.chain"))
    assert len(chains) * len(SIZES) >= 1000
    assert {chain.parent.name for chain in chains} == set(NAMES)
    for chain in chains:
        text = chain.read_text(encoding="utf-8")
        assert f"chain {chain.parent.name}_{chain.stem}[M in 1..64](" in text, chain


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--catenary", type=pathlib.Path, help="the command")
    parser.add_argument("--out", type=pathlib.Path, help="default: bench/results/packs/<date>.json")
    parser.add_argument("--keep", type=pathlib.Path, help="write the packs into this folder")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args(arguments)
    if options.self_test:
        self_test()
        return
    if options.catenary is None:
        raise SystemExit("--catenary is missing: name the command, as in build/tools/catenary")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        record = make_record(options.catenary.resolve(), folder)
    out = options.out or (MODELS.parents[1] / "results" / "packs" /
                          f"packs-{record['date'][:10].replace('-', '')}.json")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(f"wrote {out}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
