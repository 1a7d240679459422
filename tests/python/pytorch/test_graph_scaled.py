# SPDX-License-Identifier: Apache-2.0
"""The pass over graphs with products of fp8. Torch has most of them on GPUs only: graphs are traced with fake tensors,
and the chains in their place computed on the device."""

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F
from torch._inductor.decomposition import select_decomp_table
from torch.fx.experimental.proxy_tensor import make_fx

import catenary.torch as ct
from catenary.torch.graph import CatenaryPass

E4M3 = torch.float8_e4m3fn
TENSOR, ROW, BLOCK = F.ScalingType.TensorWise, F.ScalingType.RowWise, F.ScalingType.BlockWise1x128
NODES = ("_scaled_mm", "_scaled_grouped_mm")


@pytest.fixture(autouse=True)
def nothing_decided():
    ct.decisions.clear()


def fp8(*shape, dtype=E4M3):
    return torch.randint(-4, 5, shape).float().to(dtype)


def passed(function, tensors, accept="always", mode="fake"):
    """The traced graph after the pass."""
    module = make_fx(function, select_decomp_table(), tracing_mode=mode)(*tensors)
    CatenaryPass(accept)(module.graph)
    module.recompile()
    return module


def left(module):
    return [str(n.target) for n in module.graph.nodes if any(name in str(n.target) for name in NODES)]


def taken():
    return [decision for decision in ct.decisions if decision.taken]


def wide(x, w, sx=1.0, sw=1.0):
    return (x.double() @ w.double().transpose(-1, -2)) * sx * sw


def v1(x, w, sx, sw, **options):
    return torch._scaled_mm(x, w.t(), sx, sw, out_dtype=torch.bfloat16, **options)


def v2(x, w, sx, sw, bias=None, output_dtype=torch.bfloat16, **options):
    rx, rw = (ROW if s.numel() > 1 else TENSOR for s in (sx, sw))
    return F.scaled_mm(x, w.t(), sx, rx, sw, rw, bias=bias, output_dtype=output_dtype, **options)


@pytest.mark.parametrize("call", [v1, v2])
@pytest.mark.parametrize("rows", [False, True], ids=["tensor", "row"])
@pytest.mark.parametrize("m", [1, 6])
def test_a_product_with_what_follows_is_one_chain(device, near, call, rows, m):
    x, w, r = fp8(m, 64), fp8(32, 64), torch.randn(m, 32)
    sx, sw = (torch.rand(m, 1), torch.rand(1, 32)) if rows else (torch.rand(()), torch.rand(1))
    tensors = [x, w, sx, sw, r]
    module = passed(lambda x, w, sx, sw, r: F.silu(call(x, w, sx, sw)).float() * r, tensors)
    assert not left(module) and "silu(" in taken()[0].chain and len(taken()) == 1
    got = module(*(t.to(device) for t in tensors))
    wanted = F.silu(wide(x, w, sx.double(), sw.double())) * r.double()
    near(got, wanted.to(device), torch.bfloat16)


def test_bias_fast_sums_and_a_result_of_f32(near):
    tensors = [fp8(6, 64), fp8(32, 64), torch.rand(6, 1), torch.rand(1, 32), torch.randn(32)]
    module = passed(lambda x, w, sx, sw, b: v2(x, w, sx, sw, b, torch.float32, use_fast_accum=True).relu(), tensors)
    (decision,) = taken()
    assert "fast_accum" in decision.chain and not left(module)
    x, w, sx, sw, b = tensors
    near(module(*tensors), (wide(x, w, sx.double(), sw.double()) + b.double()).relu())


def test_a_gated_layer_and_columns_of_a_packed_one(near):
    x, w, u = fp8(6, 64), fp8(32, 64), fp8(32, 64)
    sx, sw, su = torch.rand(6, 1), torch.rand(1, 32), torch.rand(1, 32)
    wanted = F.silu(wide(x, w, sx.double(), sw.double())) * wide(x, u, sx.double(), su.double())

    def gated(x, w, u, sx, sw, su):
        return F.silu(v1(x, w, sx, sw)) * v1(x, u, sx, su)

    module = passed(gated, [x, w, u, sx, sw, su])
    assert taken()[0].chain.count("contract") == 2 and not left(module)
    near(module(x, w, u, sx, sw, su), wanted, torch.bfloat16)
    ct.decisions.clear()

    def packed(x, w, sx, sw):
        gate, up = v1(x, w, sx, sw).chunk(2, -1)
        return F.silu(gate) * up

    joined = [x, torch.cat([w.float(), u.float()]).to(E4M3), sx, torch.cat([sw, su], 1)]
    module = passed(packed, joined)
    assert taken()[0].chain.count("contract") == 2 and not left(module)
    near(module(*joined), wanted, torch.bfloat16)


@pytest.mark.parametrize("groups", [1, 3])
def test_groups(near, groups):
    x, w, u = fp8(12, 32), fp8(groups, 24, 32), fp8(groups, 24, 32)
    offs = torch.tensor([12] if groups == 1 else [5, 5, 12], dtype=torch.int32)
    sx, sw, su = torch.rand(12), torch.rand(groups, 24), torch.rand(groups, 24)

    def layer(x, w, u, sx, sw, su, offs):
        options = dict(offs=offs, out_dtype=torch.bfloat16)
        gate = torch._scaled_grouped_mm(x, w.transpose(1, 2), sx, sw, **options)
        return F.silu(gate) * torch._scaled_grouped_mm(x, u.transpose(1, 2), sx, su, **options)

    tensors = [x, w, u, sx, sw, su, offs]
    module = passed(layer, tensors)
    (decision,) = taken()
    assert decision.chain.count("ragged") == 2 and decision.chain.count("i32[") == 1 and not left(module)
    of = torch.bucketize(torch.arange(12), offs, right=True)

    def product(v, sv):
        return torch.stack([wide(x[i], v[g], sx[i].double(), sv[g].double()) for i, g in enumerate(of)])

    near(module(*tensors), F.silu(product(w, sw)) * product(u, su), torch.bfloat16)


def test_a_result_that_is_quantised_at_once(near):
    """What stays within fp8 is rounded in the chain, and stored as bf16 is not read as fp8; another cast is left."""

    def layer(x, w, sx, sw, inverse):
        y = v1(x, w, sx, sw).relu()
        return (y * inverse).clamp(-448, 448).to(E4M3), y

    tensors = [fp8(6, 64), fp8(32, 64), torch.rand(()), torch.rand(()), torch.tensor(8.0)]
    module = passed(layer, tensors)
    assert ": e4m3" in taken()[0].chain.split("return")[1]
    q, y = module(*tensors)
    wanted = wide(tensors[0], tensors[1], tensors[2].double(), tensors[3].double()).relu()
    near(y, wanted, torch.bfloat16)
    assert q.dtype == E4M3 and q.float().max() == 448
    near(q.float(), (8 * wanted).clamp(-448, 448), torch.bfloat16, factor=4)  # 2^-4 of a rounding to e4m3
    ct.decisions.clear()
    module = passed(lambda x, w, sx, sw: v1(x, w, sx, sw).relu().to(E4M3), tensors[:4])
    assert "e4m3" not in taken()[0].chain.split("return")[1]


@pytest.mark.parametrize(
    "function, reason",
    [
        (lambda x, w, s: F.scaled_mm(x, w.t(), s.expand(128, 1), BLOCK, s.expand(1, 128), BLOCK), "BlockWise1x128"),
        (lambda x, w, s: torch._scaled_mm(x, w.t(), s, s, scale_result=s, out_dtype=torch.bfloat16), "scale_result"),
        (lambda x, w, s: torch._scaled_mm(x, w.t(), s, s), "out_dtype is torch.float8_e4m3fn"),
        (lambda x, w, s: torch._scaled_mm(x, w.to(torch.float8_e5m2).t(), s, s, out_dtype=torch.bfloat16),
         "float8_e4m3fn and torch.float8_e5m2: chains multiply two of"),
    ],
    ids=["blocks", "scale_result", "fp8 result", "mixed"],
)  # fmt: skip
def test_left_with_the_reason(function, reason):
    module = passed(function, [fp8(128, 128), fp8(128, 128), torch.rand(1, 1)])
    assert left(module) and not taken() and reason in ct.decisions[0].reason


def test_on_a_gpu_what_is_predicted_to_be_faster_is_taken():
    """Tensors of the meta device are decided for an H200."""

    def layer(x, w, sx, sw, r):
        return (v1(x, w, sx, sw).float() * r).to(torch.bfloat16) + 1

    sizes = [(4096, 4096), (4096, 4096), (4096, 1), (1, 4096), (4096, 4096)]
    tensors = [torch.empty(n, device="meta", dtype=E4M3 if i < 2 else torch.float32) for i, n in enumerate(sizes)]
    module = passed(layer, tensors, "faster")
    assert not left(module) and taken()[0].predicted_us < taken()[0].replaced_us
    ct.decisions.clear()
    module = passed(lambda x, w, sx, sw: v1(x, w, sx, sw), tensors[:4], "faster")
    assert left(module) and "not to be faster" in ct.decisions[0].reason


def test_dynamic_rows(near):
    function = lambda x, w, sx, sw: F.silu(v1(x, w, sx, sw))
    tensors = [fp8(6, 64), fp8(32, 64), torch.rand(6, 1), torch.rand(1, 32)]
    module = passed(function, tensors, mode="symbolic")
    assert not left(module) and "[M in" in taken()[0].chain
    for rows in (3, 9):
        x, sx = fp8(rows, 64), torch.rand(rows, 1)
        wanted = F.silu(wide(x, tensors[1], sx.double(), tensors[3].double()))
        near(module(x, tensors[1], sx, tensors[3]), wanted, torch.bfloat16)


def test_inductor_with_the_pass(near):
    """On the CPU torch has the product with scales per tensor."""
    tensors = [fp8(6, 64), fp8(32, 64), torch.rand(()), torch.rand(())]
    function = lambda x, w, sx, sw: F.silu(v1(x, w, sx, sw))
    options = {"catenary.accept": "always", "fx_graph_cache": False}
    got = ct.compile(function, fullgraph=True, options=options)(*tensors)
    assert "contract" in taken()[0].chain
    near(got, function(*tensors).double(), torch.bfloat16)
