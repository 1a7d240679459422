#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""report.py on small made-up records: which rows count, what tables, plots and pages show."""
import json
import pathlib
import shutil
import tempfile
import unittest
import xml.etree.ElementTree

import report


def row(case, us, ratio=None, **more):
    data = {"case": case, "family": "gemm_sm80", "dtype": "bf16", "shape": "2x3x4", "us": us,
            "of_ceiling": 0.5, "peer": "cuBLASLt best" if ratio else None,
            "peer_us": us * ratio if us and ratio else None, "ratio": ratio, "verified": True,
            "worst_error_ratio": 0.25, "group": "gemm", "ceiling": "gemm", "flops": 4e8,
            "bytes": 2e6}
    data.update(more)
    return data


def record(date, rows, **more):
    data = {"device": "NVIDIA H200", "driver": "580.159", "cuda": "13.0", "commit": "abc",
            "date": date, "seed": 1, "ceilings": {"copy_tbs": 4.2, "gemm_tflops": 800.0},
            "rows": rows}
    data.update(more)
    return data


class ReportTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)
        self.results = self.root / "results"
        (self.results / "h200").mkdir(parents=True)
        self.readme = self.root / "README.md"

    def save(self, name, data):
        (self.results / "h200" / name).write_text(json.dumps(data))

    def run_report(self, readme):
        self.readme.write_text(readme)
        report.main(["--results", str(self.results), "--readme", str(self.readme)])
        return self.readme.read_text()

    def test_newest_row_counts_and_text_around_stays(self):
        self.save("b.json", record("2026-11-20T00:00:00Z", [row("gemm/a", 10.0, 0.5)]))
        self.save("a.json", record("2026-11-21T00:00:00Z", [row("gemm/a", 8.0, 0.625)]))
        text = self.run_report(
            "before\n<!-- bench:gemm -->\nold\n<!-- /bench -->\nafter\n")
        self.assertTrue(text.startswith("before\n<!-- bench:gemm -->\n"))
        self.assertTrue(text.endswith("<!-- /bench -->\nafter\n"))
        self.assertNotIn("old", text)
        self.assertIn("Peer: cuBLASLt best.\n\n| case | µs | rate | peer µs | speed against peer |\n",
                      text)
        self.assertIn("| gemm/a | 8.00 | 50 TFLOP/s | 5.00 | 0.62 |\n", text)

    def test_quick_and_tuning_runs_and_other_files_do_not_count(self):
        self.save("a.json", record("2026-11-20T00:00:00Z", [row("gemm/a", 10.0)]))
        self.save("b.json", record("2026-11-21T00:00:00Z", [row("gemm/a", 1.0)], quick=True))
        self.save("c.json", record("2026-11-22T00:00:00Z", [row("gemm/a", 2.0)], tuning=True))
        self.save("d.json", {"counts": 400})
        text = self.run_report("<!-- bench:h200/all -->\n<!-- /bench -->\n")
        self.assertIn("| gemm/a | 10.00 |", text)

    def test_columns_of_pdl_show_if_a_row_has_them_by_old_names_too(self):
        self.save("a.json", record("2026-11-20T00:00:00Z", [
            row("small/a", 10.0, 1.25, group="small", overlap_us=8.0, overlap_ratio=1.5625,
                overlap_copy_share=0.875, plain_overlap_us=7.875),
            row("small/b", 10.0, 1.25, group="small", pdl_us=5.0, pdl_ratio=2.5, pdl_copy_share=0.5),
            row("gemm/b", 10.0, 1.25)]))
        text = self.run_report("<!-- bench:small -->\n<!-- /bench -->\n"
                               "<!-- bench:gemm -->\n<!-- /bench -->\n")
        small, gemm = text.split("<!-- /bench -->\n")[:2]
        self.assertIn("| **1.25** | 8.00 | 87.5% | **1.56** |\n", small)
        self.assertIn("| **1.25** | 5.00 | 50.0% | **2.50** |\n", small)
        self.assertNotIn("PDL", gemm)

    def test_second_peer_has_columns_where_there_is_one(self):
        self.save("a.json", record("2026-11-20T00:00:00Z", [
            row("grouped/a", 10.0, 1.25, group="grouped", second_peer="loop of 12 cuBLASLt best",
                second_peer_us=12.5),
            row("gemm/b", 10.0, 1.25)]))
        text = self.run_report("<!-- bench:grouped -->\n<!-- /bench -->\n"
                               "<!-- bench:gemm -->\n<!-- /bench -->\n")
        grouped, gemm = text.split("<!-- /bench -->\n")[:2]
        self.assertIn("Peer: cuBLASLt best. Second peer: loop of 12 cuBLASLt best.\n", grouped)
        self.assertIn("| 12.50 | 12.50 | **1.25** |", grouped)
        self.assertNotIn("econd peer", gemm)

    def test_peers_that_differ_have_a_column(self):
        self.save("a.json", record("2026-11-20T00:00:00Z", [
            row("gemm/a", 10.0, 1.25), row("gemm/b", 10.0, 1.25, peer="cuBLASLt best + BIAS")]))
        text = self.run_report("<!-- bench:gemm -->\n<!-- /bench -->\n")
        self.assertNotIn("Peer:", text)
        self.assertIn("| **1.25** | cuBLASLt best + BIAS |\n", text)

    def test_brief_takes_the_time_with_pdl_where_that_counts(self):
        self.save("a.json", record("2026-11-20T00:00:00Z", [
            row("gemm/4096x4096x4096/bf16", 10.0, 0.5), row("gemm/other", 10.0, 0.5),
            row("small/1x2048x4096/bf16", 8.0, 1.25, ceiling="copy", overlap_us=4.0,
                overlap_ratio=2.5)]))
        text = self.run_report("<!-- bench:brief -->\n<!-- /bench -->\n")
        self.assertIn("| gemm/4096x4096x4096/bf16 | 10.00 | 40 TFLOP/s | 5.00 | 0.50 |\n", text)
        self.assertIn("| small/1x2048x4096/bf16, PDL | 4.00 | 0.50 TB/s | 10.00 | **2.50** |\n", text)
        self.assertNotIn("other", text)

    def test_page_has_every_table_and_the_commits_of_older_rows(self):
        self.save("a.json", record("2026-11-20T00:00:00Z", [
            row("gemm/a", 10.0, 0.5), row("moe_x", 10.0, 0.5, group="moe")]))
        self.save("b.json", record("2026-11-21T00:00:00Z", [row("gemm/a", 8.0, 0.5)], commit="new"))
        self.save("c.json", self.sweep("2026-11-20T00:00:00Z", [
            [1, 512, 1024, True, 4.0, 2.0, 1.0, 0, "algorithm 1 of 8", None]], commit="0123456789"))
        self.run_report("nothing marked\n")
        page = (self.results / "h200" / "README.md").read_text()
        self.assertTrue(page.startswith("# Measurements on NVIDIA H200\n"))
        self.assertIn("Measured at commit abc: `moe_x`.\n", page)
        self.save("c.json", record("2026-11-22T00:00:00Z", [row("small/1x2048x4096/bf16", 8.0, 0.5)], commit="fresh"))
        self.save("d.json", record("2026-11-23T00:00:00Z", [row("moe_x", 8.0, 0.5)], commit="later"))
        text = self.run_report("<!-- bench:machine -->\n<!-- /bench -->\n")
        self.assertIn("rows measured at commit fresh, 2026-11-22", text)
        self.assertIn("| gemm/a | 8.00 |", page)
        self.assertRegex(page, "Sweep of small M\n\n.* Commit 0123456.\n")
        self.assertNotIn("## Counters", page)
        self.assertNotIn("of ceiling", page)

    def test_wrong_and_failed_rows_show(self):
        self.save("a.json", record("2026-11-20T00:00:00Z", [
            row("gemm/wrong", None, verified=False),
            row("gemm/failed", None, verified=False, error="no tile fits")]))
        text = self.run_report("<!-- bench:gemm -->\n<!-- /bench -->\n")
        self.assertIn("| gemm/wrong | wrong |", text)
        self.assertIn("| gemm/failed | failed |", text)

    def test_packs_are_three_lines_of_the_newest_record(self):
        self.save("a.json", record("2026-11-20T00:00:00Z", [row("gemm/a", 10.0, 0.5)]))
        folder = self.results / "packs"
        folder.mkdir()
        part = {"name": "skinny", "kernels": 2, "bytes": 3 << 20}
        pack = {"entries": 132, "bytes": 9 << 20, "archs": [{**part, "name": "sm_80"}],
                "families": [part]}
        many = {"entries": 1012, "bytes": 50 << 20, "open_us": 16.4, "map_us": 9.6,
                "targets": [{"prepare_us": 140.2, "prepare_worst_us": 505.0}]}
        data = {"date": "2026-11-24T00:00:00Z", "models": ["A-8B", "B-7B", "C"], "layers": 22,
                "symbol": "1..64,4096", "cores": 2, "build_cpu_seconds": 70.5, "pack": pack,
                "thousand": many}
        (folder / "new.json").write_text(json.dumps(data))
        (folder / "old.json").write_text(json.dumps({**data, "date": "2026-11-23T00:00:00Z",
                                                     "layers": 7}))
        text = self.run_report("<!-- bench:packs -->\n<!-- /bench -->\n")
        self.assertIn("- A-8B, B-7B and C: 22 layers for M in 1..64 and M = 4096, for 1 architectures, "
                      "are 132 entries and 9.0 MiB. Building the pack takes 70 s of processor time on 2 cores.\n", text)
        self.assertIn("- Machine code: skinny 3.0 MiB; sm_80 3.0 MiB.\n", text)
        (folder / "new.json").write_text(json.dumps({**data, "load_before": 8.5}))
        busy = self.run_report("<!-- bench:packs -->\n<!-- /bench -->\n")
        self.assertIn("of processor time on 2 cores beside other work.\n", busy)
        self.assertIn("- A pack of 1,012 entries (50.0 MiB) opens in 16 µs; to map the file takes "
                      "10 µs. `prepare` of an entry takes 140 µs (slowest 505 µs) and the driver's "
                      "load.\n", text)

    def test_groups_and_specials(self):
        self.save("a.json", record("2026-11-20T00:00:00Z", [
            row("gemm/a", 10.0, 1.25),
            row("pl/b", 20.0, group="pseudo", ceiling="copy", copy_share=0.93)]))
        self.save("b.json", record(
            "2026-11-21T00:00:00Z", [], ceilings={"copy_tbs": 0, "gemm_tflops": 0},
            launch=[{"kernel": "k", "executable_ns": 2100.0, "bare_ns": 1900.0, "over_ns": 200.0}],
            compile=[{"chain": "gemm", "family": "gemm_sm80", "target": "h200", "kernels": 1,
                      "frontend_us": 100.0, "emit_us": 50.0, "nvrtc_ms": None,
                      "cache_hit_us": None}]))
        text = self.run_report("".join(f"<!-- bench:{name} -->\n<!-- /bench -->\n" for name in (
            "pseudo", "gemm+pseudo", "ceilings", "launch", "compile")))
        pseudo, both, ceilings, launch, compiled = text.split("<!-- /bench -->\n")[:5]
        self.assertIn("| pl/b | 20.00 | 0.10 TB/s | 93.0% |", pseudo)
        self.assertNotIn("peer", pseudo)
        self.assertNotIn("gemm/a", pseudo)
        self.assertIn("**1.25**", both)
        self.assertIn("pl/b", both)
        self.assertIn("4.200 TB/s | 800 TFLOP/s", ceilings)
        self.assertIn("| k | 2,100 | 1,900 | 200 |", launch)
        self.assertIn("| gemm | gemm_sm80 | 100 | 50 | – | – |", compiled)

    def sweep(self, date, rows, **more):
        return record(date, [], sweep={
            "columns": ["m", "n", "k", "verified", "us", "overlap_us", "peer_us", "config",
                        "peer_config", "note"],
            "configs": ["gemm_sm80 16x64", "skinny"], "rows": rows}, **more)

    def test_sweep_merges_shards_and_counts_losses(self):
        self.save("full.json", record("2026-11-19T00:00:00Z", [row("gemm/a", 10.0, 0.5)]))
        self.save("a.json", self.sweep("2026-11-20T00:00:00Z", [
            [1, 512, 1024, True, 4.0, 2.0, 1.0, 0, "algorithm 1 of 8", None],
            [1, 2048, 1024, True, 4.0, 2.0, 4.0, 0, "algorithm 1 of 8", None]]))
        self.save("b.json", self.sweep("2026-11-21T00:00:00Z", [
            [1, 512, 1024, True, 4.0, 2.0, 16.0, 1, "algorithm 2 of 8", None],
            [16, 512, 1024, True, 4.0, 4.0, 3.0, 1, "algorithm 2 of 8", None],
            [16, 2048, 1024, False, None, None, None, 1, None, "WRONG"]],
            ceilings={"copy_tbs": 4.0, "gemm_tflops": 0}))
        text = self.run_report("<!-- bench:sweep -->\n<!-- /bench -->\n"
                               "<!-- bench:ceilings -->\n<!-- /bench -->\n")
        self.assertIn("| 1 | 2 | 0 | 4.00 | 2.00 (M=1 K=1024 N=2048) | 0 of 2 | "
                      "2.00 | 1.00 (M=1 K=1024 N=2048) | 0 of 2 |", text)
        self.assertIn("| 16 | 2 | 1 | 0.75 | 0.75 (M=16 K=1024 N=512) | 1 of 1 |", text)
        self.assertIn("| all | 4 | 1 |", text)
        self.assertIn("800 TFLOP/s", text)  # a sweep's ceilings do not count
        picture = (self.results / "h200" / "sweep.svg").read_text()
        xml.etree.ElementTree.fromstring(picture)
        self.assertIn(">8.00<", picture)
        self.assertEqual(picture.count("#dd6b20"), 1)
        self.assertEqual(picture.count("#dddddd"), 1)

    def test_choices(self):
        tiles = ["tile", "split_k", "predicted_us", "us", "chosen", "registers", "note"]
        columns = ["batch", "m", "n", "k", "gated", "verified", "tiles", "note"]

        def save(name, rows):
            self.save(name, record("2026-11-20T00:00:00Z", [], ceilings={}, gemm_sweep={
                "columns": columns, "tile_columns": tiles, "rows": rows}))
        save("a.json", [
            [1, 64, 256, 512, False, True, [["a", 1, 10.0, 10.0, True, 90, None],
                                            ["b", 1, 20.0, 20.0, False, 90, None],
                                            ["c", 1, 30.0, None, False, 90, "WRONG"]], None],
            [1, 128, 256, 512, False, True, [["a", 1, 10.0, 20.0, True, 90, None],
                                             ["b", 2, 20.0, 10.0, False, 90, None],
                                             ["c", 1, 40.0, 5.0, False, 90, None]], None]])
        save("b.json", [
            [4, 512, 256, 512, True, False, [["a", 1, 10.0, None, True, 90, "no"]], "no"]])
        text = self.run_report("<!-- bench:choices -->\n<!-- /bench -->\n")
        self.assertIn("| dense, M to 256 | 2 | 0 | 0.500 | 0.250 (128x256x512) | 1 of 2 |", text)
        self.assertIn("| -1.000 |\n", text)  # the second shape's times fall as predictions rise
        self.assertIn("| dual | 1 | 1 | – | – | – | – | – |", text)
        self.assertIn("| all | 3 | 1 |", text)
        self.assertNotIn("larger M", text)

    def layers(self, date, name, rows, **more):
        """A record of a sweep; of each row kind, m, n, k, epilogue, us, PDL us, peer us, candidates."""
        columns = ["kind", "shape", "dtype", "epilogue", "verified", "us", "pdl_us", "peer_us",
                   "ratio", "best_ratio", "candidates", "note", "batch", "m", "n", "k"]
        lines = []
        for kind, m, n, k, epilogue, us, pdl, peer, candidates in rows:
            lines.append([kind, f"{m}x{n}x{k}", "bf16", epilogue, us is not None, us, pdl, peer,
                          peer and us and peer / us, peer and us and peer / (pdl or us), candidates,
                          None, 1, m, n, k])
        return record(date, [], ceilings={}, sweep_name=name, layers={
            "columns": columns, "rows": lines,
            "candidate_columns": ["family", "tile", "split_k", "predicted_us", "us", "pdl_us",
                                  "chosen", "registers", "note"]}, **more)

    def test_random_layers_of_the_newest_commit_count(self):
        self.save("a.json", self.layers("2026-11-20T00:00:00Z", "random", [
            ["dense", 1, 8, 8, "none", 4.0, None, 4.0, []]], commit="aaaaaaa"))
        self.save("b.json", self.layers("2026-11-21T00:00:00Z", "random", [
            ["dense", 2, 8, 8, "none", 4.0, None, 8.0, []]], commit="bbbbbbb"))
        self.save("c.json", self.layers("2026-11-22T00:00:00Z", "random", [
            ["dense", 3, 8, 8, "none", 4.0, None, 16.0, []]], commit="bbbbbbb"))
        text = self.run_report("<!-- bench:random -->\n<!-- /bench -->\n")
        self.assertIn("| dense | 2 | 0 | 2.828 | 2.200 | 2.000 |", text)

    def test_sweeps_of_layers(self):
        self.save("a.json", self.layers("2026-11-20T00:00:00Z", "random", [
            ["dense", 1, 8, 8, "none", 4.0, None, 4.0, []],
            ["dense", 2, 8, 8, "bias", 4.0, None, 16.0, []],
            ["small_m", 1, 8, 8, "none", 4.0, 2.0, 6.0, []],
            ["small_m", 3, 8, 8, "none", None, None, None, []]]))
        self.save("b.json", self.layers("2026-11-21T00:00:00Z", "random", [
            ["dense", 1, 8, 8, "none", 4.0, None, 1.0, []]]))
        self.save("c.json", self.layers("2026-11-21T00:00:00Z", "models", [
            ["m1", 1, 8, 8, "none", 4.0, 2.0, 4.0, []]]))
        self.save("d.json", self.layers("2026-11-21T00:00:00Z", "small", [
            ["m1", 1, 512, 1024, "none", 4.0, 2.0, 8.0, []]]))
        choice = [["gemm_sm90", "a", 1, 9.0, 10.0, None, True, 90, None],
                  ["skinny", "b", 1, 9.5, 8.0, None, False, 90, None]]
        self.save("e.json", self.layers("2026-11-21T00:00:00Z", "gemm", [
            ["dual", 64, 256, 512, "swiglu", 10.0, None, None, choice]]))
        text = self.run_report("".join(f"<!-- bench:{name} -->\n<!-- /bench -->\n" for name in (
            "random", "models", "sweep", "choices")))
        random, models, small, choices = text.split("<!-- /bench -->\n")[:4]
        self.assertIn("| dense | 2 | 0 | 1.000 | 0.625 | 0.250 | 1.000 | 0.625 | 0.250 |", random)
        self.assertIn("| small_m | 2 | 1 | 3.000 | 3.000 | 3.000 | 1.500 |", random)
        self.assertIn("| all | 4 | 1 |", random)
        self.assertIn("| m1 | 1 | 0 | 2.000 |", models)
        self.assertIn("| 1 | 1 | 0 | 4.00 | 4.00 (M=1 K=1024 N=512) |", small)
        self.assertIn("| dual | 1 | 0 | 0.800 | 0.800 (64x256x512) | 0 of 1 |", choices)

    def test_calibration(self):
        self.save("a.json", record("2026-11-20T00:00:00Z", [], ceilings={}, calibration=[
            {"name": "dram_copy", "value": 4280.4, "unit": "GB/s", "note": None},
            {"name": "l2_read", "value": None, "unit": "GB/s", "note": "no NVRTC"}]))
        text = self.run_report("<!-- bench:calibration -->\n<!-- /bench -->\n")
        self.assertIn("| dram_copy | 4,280.400 GB/s |\n| l2_read | – |\n", text)

    def test_peers(self):
        times = {"F.linear": 10.0, "torch.compile": 8.0, "catenary": 6.0,
                 "catenary overlapped": 4.0}
        rows = [{"m": m, "n": 2048, "k": 4096, "bias_silu": silu, "bytes": 16e6, "problems": {},
                 "times": {name: {"us": us, "p10": us, "p90": us} for name, us in times.items()}}
                for silu in (False, True) for m in (16, 1)]
        del rows[0]["times"]["torch.compile"]
        self.save("p.json", {"device": "NVIDIA H200", "date": "20261121T000000Z", "copy_tbs": 4.0,
                             "peers": rows})
        text = self.run_report("<!-- bench:peers -->\n<!-- /bench -->\n")
        self.assertIn("| 1x2048x4096 | – | 10.00 | 8.00 | 6.00 | 4.00 | 100.0% | **2.00** |\n"
                      "| 16x2048x4096 | – | 10.00 | – | 6.00 | 4.00 | 100.0% | **2.50** |\n"
                      "| 1x2048x4096 | bias + SiLU | 10.00 |", text)

    def test_large_peers(self):
        times = {"F.linear": 12.0, "F.linear, torch.compile": 10.0, "catenary": 8.0}
        rows = [{"case": "swiglu/1x2x3", "flops": 8e9, "problems": {},
                 "times": {name: {"us": us, "p10": us, "p90": us} for name, us in times.items()}},
                {"case": "moe/1x2x3x4", "flops": 8e9, "problems": {"catenary": "failed"},
                 "times": {}}]
        self.save("p.json", {"device": "NVIDIA H200", "date": "20261121T000000Z", "copy_tbs": 4.0,
                             "large_peers": rows})
        text = self.run_report("<!-- bench:large_peers -->\n<!-- /bench -->\n")
        self.assertIn("| swiglu/1x2x3 | 8.00 | 1,000 TFLOP/s | F.linear, torch.compile | 10.00 | "
                      "**1.25** | F.linear 12.00 |\n"
                      "| moe/1x2x3x4 | – | – | – | – | – | – |", text)

    def test_counters(self):
        counted = {"case": "gemm/a", "kernel": "k", "us": 371.2, "ghz": 1.5531, "tensor": 0.934,
                   "issue": 0.26, "special": 0.05, "l1": 0.71, "l2_to_sm": 0.8, "dram": 0.29,
                   "sm_gb": 3.0199, "l2_gb": 2.24}
        for name, date, us in (("c.json", "2026-11-22T00:00:00Z", 400.0),
                               ("d.json", "2026-11-23T00:00:00Z", 371.2)):
            self.save(name, {"device": "NVIDIA H200", "date": date,
                             "counters": [{**counted, "us": us}]})
        text = self.run_report("<!-- bench:counters -->\n<!-- /bench -->\n")
        self.assertIn("| gemm/a | 371.2 | 1.55 | 93.4% | 26.0% | 5.0% | 71.0% | 80.0% | 29.0% | "
                      "3.02 | 2.24 |\n", text)
        self.assertNotIn("400", text)

    def test_tuned(self):
        shape = {"batch": 2, "m": 64, "n": 256, "k": 128, "gated": True}
        tuned = {**shape, "model_tile": "a", "model_split_k": 1, "model_us": 11.0, "tile": "b",
                 "split_k": 4, "us": 10.0, "sweep_gap": 1.1}
        self.save("t.json", {"device": "NVIDIA H200", "date": "2026-11-23T00:00:00Z",
                             "tuned": [tuned, {**tuned, "batch": 1, "model_us": None}]})
        text = self.run_report("<!-- bench:tuned -->\n<!-- /bench -->\n")
        self.assertIn("| 2 x 64x256x128, dual | a | 11.00 | b, split-K 4 | 10.00 | 10.0% |\n"
                      "| 64x256x128, dual | a | – | b, split-K 4 | 10.00 | – |", text)

    def test_training(self):
        def entry(us, held=None, **phases):
            return {"us": us, "phases": phases} | ({"held_bytes": held * 2 ** 20} if held is not None else {})

        ours = {"catenary": entry(10.0, 3, forward=4.0, backward=6.0),
                "catenary chains": entry(9.0, forward=4.0, dgrad=3.0, wgrad=2.0),
                "catenary none": entry(11.0, 4, forward=4.0, backward=7.0),
                "catenary recompute": entry(12.0, 0, forward=4.0, backward=8.0)}
        first = {"row": "gelu_mlp/2x3x4", "flops": 8e9, "problems": {},
                 "contenders": {**ours, "eager": entry(20.0, 4), "compile": entry(1.0, 4), "products": entry(9.5)}}
        # A later record of the same row has the same contender anew, and ours in that process.
        again = {"row": "gelu_mlp/2x3x4", "flops": 8e9, "problems": {},
                 "contenders": {"catenary": entry(16.0, 3, forward=8.0, backward=8.0), "compile": entry(12.0, 5)}}
        failed = {"row": "experts/1x2", "flops": 1e9, "problems": {"row": "no memory"}, "contenders": {}}
        for name, date, rows, quick in (("a.json", "20261122T000000Z", [first, failed], False),
                                        ("b.json", "20261123T000000Z", [again], False),
                                        ("c.json", "20261124T000000Z", [first], True)):
            self.save(name, {"device": "NVIDIA H200", "date": date, "training": rows, "quick": quick})
        text = self.run_report("<!-- bench:training -->\n<!-- /bench -->\n<!-- bench:brief -->\n<!-- /bench -->\n")
        self.assertIn("| experts/1x2 | – | – | – | – | – | – | – | – | – | – | – | – | – | – | – | – | – | – |\n"
                      "| gelu_mlp/2x3x4 | 8.00 | 8.00 | 3.00 | 2.00 | 16.00 | 500 TFLOP/s | 20.00 | – | 12.00 | 9.50 | compile | "
                      "0.75 | 3 | 5 | 11.00 | 4 | 12.00 | 0 |\n", text)
        self.assertIn("| training gelu_mlp/2x3x4, PyTorch compile | 16.00 | 500 TFLOP/s | 12.00 | 0.75 |\n", text)
        self.assertIn("## Training steps", (self.results / "h200" / "README.md").read_text())

    def test_decoder_layers(self):
        def layer(us, **more):
            return {"model": "m", "rows": 16, "weight_bytes": 1,
                    "contenders": {"catenary": {"us": us, "copy_share": 0.9}, **more}}
        first = layer(10.0, inductor={"us": 12.0, "copy_share": 0.7}, **{"catenary-algebraic": {"us": 6.0, "copy_share": 0.95}})
        for day, row in (("22", first), ("23", layer(8.0))):
            self.save(f"{day}.json", {"kind": "decoder layers", "device": "NVIDIA H200", "date": f"2026-11-{day}", "table": [row]})
        text = self.run_report("<!-- bench:decoder_layers -->\n<!-- /bench -->\n")
        self.assertIn("| m, 16 rows | 8.00 | – | 6.00 | – | 12.00 | – | 0.90 | – | 0.95 | – | **1.50** | – | **2.00** | – |", text)

    def test_quantised_peers(self):
        def product(us, **more):
            return {"format": "int4", "m": 4, "n": 8, "k": 256, "group": 128,
                    "contenders": {"bf16": {"us": 30.0}, "catenary": {"us": us, "copy_share": 0.8}, **more}}
        slower = product(12.0, humming={"us": 6.0}, tinygemm={"error": "no such operator"})
        for day, row in (("22", product(11.0)), ("23", slower)):
            self.save(f"{day}.json", {"kind": "quantised peers", "device": "NVIDIA H200", "date": f"2026-11-{day}", "table": [row]})
        text = self.run_report("<!-- bench:quantised_peers -->\n<!-- /bench -->\n")
        self.assertIn("| int4, 4x8x256 | 12.00 | 0.80 | – | 6.00 | 0.50 | 30.00 | **2.50** |", text)
        self.assertIn("## Quantised weights against public kernels", (self.results / "h200" / "README.md").read_text())

    def test_whole_models(self):
        row = {"model": "llama", "layers": 8, "workload": "decode-1", "linear_us": 5.0, "contenders": {
            "eager": {"us": 30.0, "first_call_s": 1.0}, "inductor": {"us": 12.0, "first_call_s": 40.4},
            "catenary": {"us": 10.0, "first_call_s": 20.0, "regions": [{"taken": True}, {"taken": False}]}}}
        failed = {"model": "x", "layers": 2, "workload": "train", "contenders": {"catenary": {"error": "no memory"}}}
        self.save("m.json", {"kind": "whole models", "device": "NVIDIA H200", "date": "2026-11-23", "rows": [row, failed]})
        text = self.run_report("<!-- bench:whole_models -->\n<!-- /bench -->\n<!-- bench:brief -->\n<!-- /bench -->\n")
        self.assertIn("| Llama-3-8B, 8 layers, decode-1 | 10.00 | 12.00 | **1.20** | 30.00 | 5.00 | 1 | 40 | 20 |\n"
                      "| x, 2 layers, train | – | – | – | – | – | 0 | – | – |\n", text)
        self.assertIn("| Llama-3-8B, 8 layers, decode-1, torch.compile | 10.00 | – | 12.00 | **1.20** |\n", text)
        self.assertIn("## Whole models", (self.results / "h200" / "README.md").read_text())

    def test_repository_shows_its_records(self):
        bench = pathlib.Path(__file__).resolve().parents[1]
        shutil.copytree(bench / "results", self.results, dirs_exist_ok=True)
        readme = (bench.parent / "README.md").read_text()
        self.assertEqual(readme, self.run_report(readme), "run bench/scripts/report.py")
        for path in (bench / "results").glob("*/*"):
            if path.suffix in (".md", ".svg"):
                written = self.results / path.relative_to(bench / "results")
                self.assertEqual(path.read_text(), written.read_text(), "run bench/scripts/report.py")

    def test_marker_without_data_is_refused(self):
        self.save("a.json", record("2026-11-20T00:00:00Z", [row("gemm/a", 10.0)]))
        with self.assertRaisesRegex(SystemExit, "bench:moe"):
            self.run_report("<!-- bench:moe -->\n<!-- /bench -->\n")

    def test_summary_has_mean_and_range_by_workload_and_is_stable(self):
        self.save("a.json", record("2026-11-20T00:00:00Z", [
            row("gemm/win", 10.0, 1.25), row("gemm/loss", 10.0, 0.8),
            row("grouped/a", 10.0, 0.75, group="grouped"),
            row("grouped_gated/a", 10.0, 1.5, group="grouped"),
            row("mlp/a", 10.0, 1.1, group="mlp", overlap_ratio=1.2), row("pl", 5.0)]))
        self.run_report("nothing marked\n")
        path = self.results / "h200" / "summary.svg"
        first = path.read_text()
        xml.etree.ElementTree.fromstring(first)
        for text in (">1.00<", ">0.80 to 1.25, 2 cases<", ">0.75 to 0.75, 1 case<",
                     ">1.50 to 1.50, 1 case<", ">MLP, M = 1 to 64, PDL<", ">1.20<"):
            self.assertIn(text, first)
        self.assertEqual(first.count('fill="white" stroke='), 1)  # the mean without PDL
        self.assertNotIn("1.10", first)
        self.assertNotIn("SwiGLU", first)  # no rows
        self.run_report("nothing marked\n")
        self.assertEqual(first, path.read_text())


if __name__ == "__main__":
    unittest.main()
