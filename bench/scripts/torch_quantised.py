#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Products of a few rows with weights of int4 and int8, against public kernels: torch_quantised.py OUT.json

A step is one CUDA graph of products with weights of their own, so that none stays in L2; contenders take turns, each
round in another order; a time is the median over the rounds, per product. All contenders have the same values:
(q - 8) * scale for int4, with a scale for each 128 columns of a row, q * scale for int8, with one for each row. Results
are compared with those of the dequantised weight; a contender that differs is not timed. Contenders:

    bf16       F.linear of the dequantised weight
    catenary   one chain, with PDL
    catenary-rounded  the same with the word rounded_weights (not by default)
    tinygemm   PyTorch's own kernel of int4, as torchao takes it
    humming    the package humming-kernels, as it chooses its tiles; from the words of compressed-tensors

`copy_share` is the bytes of q and scales (of bf16: the weight's) over the time, over the rate of a device copy in the
same run, which counts the bytes read and written.
"""

import argparse
import json
import statistics
from pathlib import Path

import torch
import torch.nn.functional as F

import catenary
from torch_layers import copy_tbs
from torch_models import Replay, commit, in_turns, timestamp

# N x K
SHAPES = ((4096, 4096), (8192, 8192), (28672, 4096), (4096, 14336), (37888, 3584))
TINY = ((48, 256),)
GROUP = 128  # of int4
FORMATS = ("int4", "int8")
CONTENDERS = ("bf16", "catenary", "tinygemm", "humming")
LARGEST_ERROR = 0.02  # of the largest value: contenders round the dequantised weight to bf16, or the sum, or neither


class Weight:
    """q [n, k] from 0 to 2^bits - 1, scale bf16 [n, groups]; the value is (q - 2^(bits - 1)) * scale."""

    def __init__(self, bits, n, k, device):
        self.bits, self.n, self.k = bits, n, k
        self.group = GROUP if bits == 4 else k
        self.q = torch.randint(2**bits, (n, k), device=device, dtype=torch.uint8)
        self.scale = ((torch.rand(n, k // self.group, device=device) + 0.5) / 2**bits / k**0.5).bfloat16()

    def wide(self):
        signed = self.q.float() - 2 ** (self.bits - 1)
        return (signed.reshape(self.n, -1, self.group) * self.scale.float().unsqueeze(2)).reshape(self.n, self.k).bfloat16()

    def words(self):
        """As compressed-tensors packs them: int32 [n, k * bits / 32], the first value in the low bits."""
        values = 32 // self.bits
        q = self.q.to(torch.int64).reshape(self.n, -1, values)
        sums = (q << (torch.arange(values, device=q.device) * self.bits)).sum(2)
        return torch.where(sums >= 2**31, sums - 2**32, sums).to(torch.int32)

    def bytes(self):
        return self.q.numel() * self.bits // 8 + self.scale.numel() * 2


def of_bf16(weight, x, copies):
    """Products with copies of the weight; their results are in `out`. Returns the step, `out`, and what else it says."""
    weights, out = clones(weight.wide(), copies), []

    def step():
        out[:] = [F.linear(x, one) for one in weights]
    return step, out, {}


def of_catenary(weight, x, copies, word=""):
    dtype = f"i{weight.bits}"
    chain = catenary.Chain.parse(
        f"chain product{word}(input x: bf16[{x.shape[0]}, {weight.k}], weight q: {dtype}[{weight.n}, {weight.k}] packed,\n"
        f"    weight s: bf16[{weight.n}, {weight.k // weight.group}]) {{\n"
        f'  w = dequant(q, s) block (1, {weight.group})\n  y = contract "mk,nk->mn"(x, w)\n  return y: bf16 }}')
    engine = catenary.Engine(device=None if x.is_cuda else "sim")
    executable = engine.prepare(chain)
    packed = torch.from_numpy(catenary.repack(weight.words().cpu(), "compressed-tensors", dtype)).to(x.device)
    weights = list(zip(clones(packed, copies), clones(weight.scale, copies)))
    out = [x.new_empty(x.shape[0], weight.n) for _ in weights]

    def step():
        for (q, s), y in zip(weights, out):
            executable(x, q, s, out=y, allow_pdl=True)
    return step, out, {"plan": str(executable.explain())}


def of_catenary_rounded(weight, x, copies):
    return of_catenary(weight, x, copies, " rounded_weights")


def of_tinygemm(weight, x, copies):
    if weight.bits != 4:
        raise ValueError("int4 only")
    inner_k_tiles = 8
    halves = weight.q[:, ::2] << 4 | weight.q[:, 1::2]
    packed = torch.ops.aten._convert_weight_to_int4pack(halves, inner_k_tiles)
    scales = weight.scale.t().contiguous()
    scales_and_zeros = torch.stack([scales, torch.zeros_like(scales)], 2)
    weights, out = list(zip(clones(packed, copies), clones(scales_and_zeros, copies))), []

    def step():
        out[:] = [torch.ops.aten._weight_int4pack_mm(x, q, weight.group, s) for q, s in weights]
    return step, out, {}


def of_humming(weight, x, copies):
    import humming
    from humming.layer import HummingLayer
    config = {"quant_method": "compressed-tensors", "format": "pack-quantized", "type": "int", "num_bits": weight.bits,
              "symmetric": True, **({"strategy": "group", "group_size": weight.group} if weight.bits == 4
                                    else {"strategy": "channel"})}
    tensors = {"weight_packed": weight.words(), "weight_scale": weight.scale}
    layers, out = [], [x.new_empty(x.shape[0], weight.n) for _ in range(copies)]
    for _ in range(copies):
        layer = HummingLayer(shape_n=weight.n, shape_k=weight.k, weight_config=dict(config), torch_dtype=torch.bfloat16)
        layer.load_from_tensors({name: tensor.clone() for name, tensor in tensors.items()})
        layers.append(layer.to(x.device))
        layers[-1].transform()

    def step():
        for layer, y in zip(layers, out):
            layer(x, outputs=y)
    return step, out, {"version": humming.__version__}


MAKERS = {"bf16": of_bf16, "catenary": of_catenary, "catenary-rounded": of_catenary_rounded, "tinygemm": of_tinygemm, "humming": of_humming}


def clones(tensor, count):
    return [tensor.clone() for _ in range(count)]


def measure(weight, rows, options, device):
    """The row of a product."""
    x = torch.randn(rows, weight.k, device=device, dtype=torch.bfloat16)
    expected = F.linear(x, weight.wide()).float()
    row = {"format": f"int{weight.bits}", "m": rows, "n": weight.n, "k": weight.k, "group": weight.group, "contenders": {}}
    replays, bytes_of = {}, {}
    for name in options.contenders:
        entry = row["contenders"][name] = {}
        bytes_of[name] = weight.n * weight.k * 2 if name == "bf16" else weight.bytes()
        copies = max(2, -(-options.weights_mib * 2**20 // bytes_of[name]))
        try:
            step, out, more = MAKERS[name](weight, x, copies)
            replays[name] = Replay(step, torch.nn.Module())
            replays[name].run()
            error = max(float((y.float() - expected).abs().max() / expected.abs().max()) for y in out)
        except Exception as failure:  # a contender that fails is a row of the record
            entry["error"] = f"{type(failure).__name__}: {failure}"[:300]
            replays.pop(name, None)
            continue
        entry |= {"copies": copies, "error_of_largest": error, **more}
        if not error < LARGEST_ERROR:
            entry["error"] = "differs from the dequantised weight: not timed"
            del replays[name]
    for name, steps in (in_turns(replays, options)[0] if replays else {}).items():
        entry = row["contenders"][name]
        values = [us / entry["copies"] for us in steps]
        entry |= {"us": round(statistics.median(values), 3), "spread": [round(min(values), 3), round(max(values), 3)]}
        entry["copy_share"] = round(bytes_of[name] / entry["us"] / options.copy_tbs / 1e6, 4)
    return row


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", help="the record, JSON; written after each row")
    parser.add_argument("--formats", default=",".join(FORMATS), help=f"of {', '.join(FORMATS)}")
    parser.add_argument("--shapes", default=",".join(f"{n}x{k}" for n, k in SHAPES), help="N x K")
    parser.add_argument("--rows", default="1,4,8,16,32", help="rows of x")
    parser.add_argument("--contenders", default=",".join(CONTENDERS), help=f"of {', '.join(MAKERS)}")
    parser.add_argument("--weights-mib", type=int, default=256, help="of a contender's step")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--round-ms", type=float, default=10, help="of one contender in one round")
    parser.add_argument("--tiny", action="store_true", help="a small size and one round: a test of this script")
    options = parser.parse_args(arguments)
    options.contenders = options.contenders.split(",")
    shapes = TINY if options.tiny else [tuple(map(int, shape.split("x"))) for shape in options.shapes.split(",")]
    if options.tiny:
        options.rounds, options.weights_mib = 1, 0
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    options.copy_tbs = copy_tbs(device)
    record = {"kind": "quantised peers", "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
              "torch": torch.__version__, "cuda": torch.version.cuda, "catenary": catenary.__version__, "commit": commit(),
              "date": timestamp(), "rounds": options.rounds, "copy_tbs": round(options.copy_tbs, 4),
              "table": []}
    for bits in (int(name.removeprefix("int")) for name in options.formats.split(",")):
        for n, k in shapes:
            torch.manual_seed(0)
            weight = Weight(bits, n, k, device)
            for rows in map(int, options.rows.split(",")):
                row = measure(weight, rows, options, device)
                record["table"].append(row)
                Path(options.out).write_text(json.dumps(record, indent=1) + "\n")
                for name, entry in row["contenders"].items():
                    text = entry.get("error") or f"{entry['us']:8.2f} us, {entry['copy_share']:.3f} of the copy rate"
                    print(f"int{bits} {n}x{k} M={rows:<3} {name:9} {text}", flush=True)


if __name__ == "__main__":
    main()
