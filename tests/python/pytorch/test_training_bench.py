# SPDX-License-Identifier: Apache-2.0
"""bench/scripts/torch_training.py at tiny sizes: that it runs, finds wrong results, and writes what report.py reads."""

import json
import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "bench" / "scripts"))

import torch_training
import training_rows


def run(tmp_path, *arguments):
    out = tmp_path / "training.json"
    code = torch_training.main(["--scale", "64", "--rounds", "1", "--round-ms", "0.1", "--out", str(out), *arguments])
    return code, json.loads(out.read_text())


def test_every_row_runs_by_every_contender_but_the_compiler(tmp_path):
    code, record = run(tmp_path, "--peers", "eager,batched")
    assert code == 0, record
    assert [row["row"].split("/")[0] for row in record["training"]] == [
        "grouped", "grouped_bias_silu", "grouped_gated_mlp", "swiglu_mlp", "gelu_mlp", "silu", "bias_silu",
        "experts_even", "experts_odd"
    ]  # fmt: skip
    for row in record["training"]:
        ours = row["contenders"]["catenary chains"]
        assert row["problems"] == {} and set(ours["phases"]) == {"forward", "dgrad", "wgrad"}, row
        assert set(row["contenders"]) >= {"eager", "catenary", "catenary none", "catenary recompute"}
        assert ("products" in row["contenders"]) == (not row["row"].startswith("experts")), row
        assert all(kernel["config"] for kernels in ours["kernels"].values() for kernel in kernels)


def test_the_bound_multiplies_what_the_layer_does():
    rows = [row for row in training_rows.all_rows(64) if row.products]
    assert len(rows) == 7
    for row in rows:
        step = torch_training.ProductsStep(row, list(row.tensors("cpu").values()))
        assert step.flops == row.flops, row.name
        for run in step.phases.values():
            run()


def test_a_wrong_contender_is_a_problem_and_loses_no_other(tmp_path, monkeypatch):
    make = torch_training.make_step

    def doubled(name, row, tensors, dy):
        return make(name, row, tensors, 2 * dy if name == "catenary" else dy)

    monkeypatch.setattr(torch_training, "make_step", doubled)
    code, record = run(tmp_path, "--peers", "eager", "--rows", "gelu*")
    (row,) = record["training"]
    assert code == 1 and "wrong: the error is" in row["problems"]["catenary"]
    assert set(row["contenders"]) == {"eager", "catenary none", "catenary recompute", "catenary chains", "products"}


def test_a_row_that_fails_is_a_line(tmp_path, monkeypatch):
    rows = training_rows.all_rows(64)[:2]
    rows[0].text = "chain broken("
    rows[0].forms = {}
    monkeypatch.setattr(torch_training, "all_rows", lambda scale: rows)
    code, record = run(tmp_path, "--peers", "", "--ours", "catenary chains", "--bounds", "")
    assert code == 1 and "KeyError" in record["training"][0]["problems"]["row"]
    assert record["training"][1]["problems"] == {}


def test_arguments_are_checked(tmp_path, capsys):
    with pytest.raises(SystemExit):
        torch_training.main(["--peers", "jax"])
    assert "'jax' is none of eager, batched, compile" in capsys.readouterr().err
