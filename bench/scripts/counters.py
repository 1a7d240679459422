#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hardware counters of benchmark cases, by Nsight Compute: which unit a kernel keeps busy.

    bench/scripts/counters.py --catenary build/tools/catenary [--cases A,B] [--out FILE]

One launch of a case's fused kernel each, with cold caches, on a card that is not hot: the clock is
higher than in `catenary bench`, where long kernels reach the power limit. Clocks are left as they
are (`--clock-control none`). The record is JSON; `report.py` makes a table of it (marker
`counters`). Needs `ncu` on PATH and the rights to read counters. Exit codes: 0 done, 1 a case
failed, 3 no ncu.
"""
import argparse
import csv
import datetime
import io
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

CASES = ("gemm/8192x4096x4096/bf16,gemm_bias_gelu/8192x3072x768/bf16,"
         "gemm_bias_gelu/512x11008x4096/bf16,gemm_bias_gelu/4096x4096x4096/bf16,"
         "swiglu/8192x4096x4096/bf16,grouped/2560x12x3072x1024/bf16,"
         "grouped_bias_silu/2560x12x3072x1024/bf16,grouped_dgrad/2560x12x3072x1024/bf16,"
         "moe_even/4x16384x14336x4096/bf16,moe_wgrad_even/4x16384x14336x4096/bf16,"
         "moe_wgrad_odd/4x16384x14336x4096/bf16,moe_wgrad_empty/8x16384x14336x4096/bf16,"
         "moe_wgrad_many/64x10431x14336x4096/bf16,small/16x2048x4096/bf16,small/32x2048x4096/bf16,"
         "small/64x2048x4096/bf16,small/16x4096x4096/bf16,small/64x4096x4096/bf16,"
         "small/64x28672x4096/bf16")

ELAPSED = ".avg.pct_of_peak_sustained_elapsed"
# Ours: ncu's. Shares of what the unit can do in the kernel's time.
METRICS = {
    "us": "gpu__time_duration.sum",
    "ghz": "sm__cycles_elapsed.avg.per_second",
    "tensor": "sm__pipe_tensor_cycles_active" + ELAPSED,
    "issue": "sm__issue_active" + ELAPSED,
    "special": "sm__inst_executed_pipe_xu" + ELAPSED,
    "l1": "l1tex__data_pipe_lsu_wavefronts" + ELAPSED,
    "l2_to_sm": "lts__lts2xbar_cycles_active" + ELAPSED,
    "dram": "gpu__dram_throughput" + ELAPSED,
    "sm_gb": "l1tex__m_xbar2l1tex_read_bytes.sum",  # what reaches the SMs
    "l2_gb": "lts__t_sectors_srcunit_tex.sum",  # what L2 is asked for them, and what they write
}
SCALE = {"nsecond": 1e-3, "ns": 1e-3, "usecond": 1, "us": 1, "msecond": 1e3, "ms": 1e3,
         "hz": 1e-9, "Hz": 1e-9, "Khz": 1e-6, "Mhz": 1e-3, "MHz": 1e-3, "Ghz": 1, "GHz": 1, "%": 1e-2,
         "byte": 1e-9, "Kbyte": 1e-6, "Mbyte": 1e-3, "Gbyte": 1, "sector": 32e-9, "": 32e-9}


def parse(text):
    """ncu's raw page -> the row of the first kernel: its name and METRICS."""
    lines = text.splitlines()
    begin = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if begin is None:
        raise ValueError("ncu reported no kernel")
    rows = list(csv.DictReader(io.StringIO("\n".join(lines[begin:]))))
    units, values = rows[0], rows[1]
    row = {"kernel": values["Kernel Name"]}
    for name, metric in METRICS.items():
        row[name] = float(values[metric].replace(",", "")) * SCALE[units[metric]]
    return row


def profile(catenary, case, scratch):
    command = ["ncu", "--clock-control", "none", "--csv", "--page", "raw", "-k", "regex:^ctn_",
               "--launch-count", "1", "--metrics", ",".join(METRICS.values()), str(catenary), "bench",
               "--quick", "--cases", case, "--out", str(scratch / "record.json")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return {"case": case, **parse(run.stdout)}
    except (ValueError, KeyError, IndexError) as error:
        tail = (run.stdout + run.stderr)[-400:]
        raise RuntimeError(f"{case}: {error}: {tail}") from error


SAMPLE = '''==PROF== Connected to process 7
"ID","Kernel Name","dram","gpu__time_duration.sum"
"","","%","msecond"
"0","ctn_gemm_k0","29.5","1,003.5"
'''


def self_test():
    """The parser on what ncu prints; no GPU."""
    kept = dict(METRICS)
    METRICS.clear()
    METRICS.update({"us": "gpu__time_duration.sum", "dram": "dram"})
    try:
        row = parse(SAMPLE)
        if row["kernel"] != "ctn_gemm_k0" or row["us"] != 1003500 or abs(row["dram"] - 0.295) > 1e-9:
            raise AssertionError(row)
        try:
            parse("==PROF== nothing")
        except ValueError:
            return 0
        raise AssertionError("a report without kernels was taken")
    finally:
        METRICS.update(kept)


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--catenary", type=pathlib.Path, required=True)
    options.add_argument("--cases", default=CASES, help="comma-separated names, no patterns")
    options.add_argument("--out", type=pathlib.Path, default=pathlib.Path("counters.json"))
    options.add_argument("--commit", default="")
    given = options.parse_args(arguments)
    if shutil.which("ncu") is None:
        print("counters.py: no ncu on PATH: install Nsight Compute", file=sys.stderr)
        return 3
    smi = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                         capture_output=True, text=True, check=False).stdout
    device, driver = (smi.strip().splitlines() or ["?, ?"])[0].split(", ")
    record = {"device": device, "driver": driver, "commit": given.commit,
              "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
              "counters": []}
    failed = False
    with tempfile.TemporaryDirectory() as scratch:
        for case in given.cases.split(","):
            try:
                row = profile(given.catenary, case, pathlib.Path(scratch))
            except RuntimeError as error:
                print(error, file=sys.stderr)
                failed = True
                continue
            record["counters"].append(row)
            given.out.write_text(json.dumps(record, indent=1) + "\n")
            print(case, {k: round(v, 3) for k, v in row.items() if isinstance(v, float)}, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
