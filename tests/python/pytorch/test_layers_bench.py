# SPDX-License-Identifier: Apache-2.0
"""bench/scripts/torch_layers.py at tiny sizes: its chains compute what its modules do; what differs is not timed."""

import datetime
import json
import sys

from conftest import ROOT

sys.path.insert(0, str(ROOT / "bench" / "scripts"))

import torch_layers


def row_of(tmp_path, model, *contenders):
    out = tmp_path / "record.json"
    torch_layers.main([str(out), "--tiny", "--models", model, "--rows", "3", "--contenders", ",".join(contenders)])
    record = json.loads(out.read_text())
    datetime.datetime.strptime(record["date"], "%Y-%m-%dT%H:%M:%SZ")  # with the time: records of one day have an order
    (row,) = record["table"]
    return row["contenders"]


def test_chains_are_the_modules(tmp_path):
    entries = row_of(tmp_path, "llama-3-8b", "eager", "catenary", "catenary-folded", "catenary-algebraic",
                     "catenary-int4")
    assert len(entries) == 5 and all("error" not in entry and entry["us"] > 0 for entry in entries.values())


def test_a_wrong_result_is_not_timed(tmp_path, monkeypatch):
    right = torch_layers.Layer.chain

    def swapped(self, *arguments):
        chain, names = right(self, *arguments)
        return chain, [{"wk": "wv", "wv": "wk"}.get(name, name) for name in names]

    monkeypatch.setattr(torch_layers, "TINY", (64, 96, 32, 0, True))  # no MLP
    monkeypatch.setattr(torch_layers.Layer, "chain", swapped)
    entries = row_of(tmp_path, "gpt-oss-20b", "eager", "catenary")
    assert "us" in entries["eager"]
    assert "error" in entries["catenary"] and "us" not in entries["catenary"]
