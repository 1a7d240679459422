# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of catenary.torch. They run on the CPU, where the reference computes, and on a GPU where there is
one; `--record FILE` writes what ran on which device, and the largest errors, as JSON."""

import json
import os
import pathlib

import pytest

# Inductor tries every kind of vector instructions in each process, with a compile and an interpreter that imports
# torch. Its own loops are not what is tested here, so they are scalar.
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "0")

torch = pytest.importorskip("torch")

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
_record = []


def pytest_addoption(parser):
    parser.addoption("--record", default=None, help="a JSON file with the results of each device")


@pytest.fixture(params=DEVICES)
def device(request):
    return torch.device(request.param)


@pytest.fixture(autouse=True)
def fresh():
    """Every test has the same random numbers and compiles its own graphs."""
    torch.manual_seed(0)
    torch._dynamo.reset()


@pytest.fixture
def near(request):
    """near(got, wanted, dtype): both agree within the rounding of `dtype`; keeps the error for the record."""

    def check(got, wanted, dtype=torch.float32, factor=1.0):
        # f32: sums in another order. bf16, f16: one rounding of the result, 2^-9 or 2^-12, and of intermediates.
        bound = {torch.float32: 2e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}[dtype] * factor
        wanted = wanted.detach().double()
        scale = max(wanted.abs().max().item(), 1e-6) if wanted.numel() else 1.0
        error = (got.detach().double() - wanted).abs().max().item() / scale if wanted.numel() else 0.0
        assert got.shape == wanted.shape
        _record.append({"test": request.node.nodeid, "device": str(got.device), "error_of_largest": error})
        assert error <= bound

    return check


@pytest.fixture
def calls(monkeypatch):
    """How many chains run on plain tensors."""
    from catenary.torch import operators

    real, count = operators.run, [0]

    def counting(*arguments, **named):
        outputs = real(*arguments, **named)
        count[0] += not operators.in_functorch()
        return outputs

    monkeypatch.setattr(operators, "run", counting)
    return count


@pytest.fixture
def same(near):
    """same(ours, theirs, *tensors): the results agree, theirs in float64."""

    leaves = torch.utils._pytree.tree_leaves

    def check(ours, theirs, *tensors, dtype=torch.float32, factor=4):
        wide = [t.double() if t.is_floating_point() else t for t in tensors]
        got, wanted = leaves(ours(*tensors)), leaves(theirs(*wide))
        for y, z in zip(got, wanted, strict=True):
            near(y, z, dtype, factor)

    return check


def pytest_sessionfinish(session):
    path = session.config.getoption("--record")
    if path:
        name = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
        rows = {"device": name, "torch": torch.__version__, "failed": session.testsfailed, "checks": _record}
        pathlib.Path(path).write_text(json.dumps(rows, indent=1) + "\n")
