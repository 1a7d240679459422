# SPDX-License-Identifier: Apache-2.0
"""bench/scripts/torch_quantised.py at a tiny size: contenders have one weight; what differs or fails is not timed."""

import json
import sys

import pytest
import torch
from conftest import ROOT

sys.path.insert(0, str(ROOT / "bench" / "scripts"))

import torch_quantised


def rows_of(tmp_path, *contenders):
    out = tmp_path / "record.json"
    torch_quantised.main([str(out), "--tiny", "--rows", "3", "--contenders", ",".join(contenders)])
    return json.loads(out.read_text())["table"]


def test_contenders_have_one_weight(tmp_path):
    rows = rows_of(tmp_path, "bf16", "catenary", "catenary-rounded")
    assert [row["format"] for row in rows] == ["int4", "int8"]
    for row in rows:
        assert all("error" not in entry and entry["us"] > 0 for entry in row["contenders"].values())


def test_a_wrong_or_failing_contender_is_not_timed(tmp_path, monkeypatch):
    def wrong(weight, x, copies):
        weight.scale *= 1.5
        return torch_quantised.of_bf16(weight, x, copies)

    monkeypatch.setitem(torch_quantised.MAKERS, "catenary", wrong)
    for row in rows_of(tmp_path, "bf16", "catenary", "humming"):
        assert "us" in row["contenders"]["bf16"]
        for name in ("catenary", "humming"):
            assert "error" in row["contenders"][name] and "us" not in row["contenders"][name]


@pytest.mark.parametrize("bits", [4, 8])
def test_words_hold_the_values(bits):
    weight = torch_quantised.Weight(bits, 8, 256, torch.device("cpu"))
    words = weight.words().to(torch.int64) % 2**32
    values = torch.stack([words >> shift & 2**bits - 1 for shift in range(0, 32, bits)], 2).reshape(8, 256)
    assert torch.equal(values, weight.q.to(torch.int64))
