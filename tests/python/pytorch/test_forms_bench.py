# SPDX-License-Identifier: Apache-2.0
"""bench/scripts/torch_forms.py at a tiny size: every form computes what PyTorch does in float64; what differs is not timed."""

import json
import sys

from conftest import ROOT

sys.path.insert(0, str(ROOT / "bench" / "scripts"))

import report_torch_tables
import torch_forms


def rows_of(tmp_path, *arguments):
    out = tmp_path / "record.json"
    torch_forms.main([str(out), "--tiny", "--rows", "3", *arguments])
    return {row["form"]: row["contenders"] for row in json.loads(out.read_text())["table"]}


def test_every_form_is_timed(tmp_path):
    rows = rows_of(tmp_path)
    assert {form: tuple(entries) for form, entries in rows.items()} == torch_forms.FORMS
    for form, (base, others) in report_torch_tables.FORMS.items():
        assert (base, *others) == torch_forms.FORMS[form]
    for entries in rows.values():
        assert all("error" not in entry and entry["us"] > 0 for entry in entries.values())
    assert "batch-invariant" in rows["invariant"]["batch_invariant"]["plans"][0]
    assert "batch-invariant" not in rows["invariant"]["free"]["plans"][0]
    assert len(rows["norm"]["apart"]["plans"]) == 2 and len(rows["weights"]["launches"]["plans"]) == 3


def test_a_wrong_result_is_not_timed(tmp_path, monkeypatch):
    monkeypatch.setattr(torch_forms, "expected_of", lambda name, x, weight: x.double() @ weight.double().T)
    entries = rows_of(tmp_path, "--forms", "norm")["norm"]
    assert "us" in entries["product"]
    assert all("error" in entries[name] and "us" not in entries[name] for name in ("inside", "rounded", "apart"))
