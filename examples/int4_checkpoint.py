# SPDX-License-Identifier: Apache-2.0
"""A linear layer from a checkpoint of compressed-tensors: weights of 4 bits, a scale for 128 columns of a row.

    python examples/int4_checkpoint.py

The checkpoint is made here, from random weights; that of a model has the same names. Its words are put into the packed
layout once, and the chain takes them as any other weight. Without a GPU the simulator runs the kernel.
Needs torch, compressed-tensors and safetensors.
"""

import pathlib
import sys
import tempfile

import safetensors.torch
import torch
from compressed_tensors.compressors.pack_quantized.base import PackedQuantizationCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from compressed_tensors.quantization.utils import calculate_qparams

import catenary as ctn

ROWS, IN, OUT, GROUP = 4, 512, 192, 128
SCHEME = QuantizationScheme(
    targets=["Linear"], weights=QuantizationArgs(num_bits=4, symmetric=True, strategy="group", group_size=GROUP)
)


def write_checkpoint(path):
    """What a quantising tool writes for one linear layer."""
    weight = torch.randn(OUT, IN, generator=torch.Generator().manual_seed(0)) / IN**0.5
    groups = weight.reshape(OUT, IN // GROUP, GROUP)
    scale, _ = calculate_qparams(groups.amin(-1), groups.amax(-1), SCHEME.weights)
    state = {"weight": weight, "weight_scale": scale.to(torch.bfloat16)}
    stored = PackedQuantizationCompressor.compress(state, SCHEME)
    safetensors.torch.save_file({f"proj.{name}": tensor for name, tensor in stored.items()}, path)


def layer_of(out, columns, group):
    """y = silu(x w^T) for 1 to 16 rows of x."""
    chain = ctn.Chain("int4_checkpoint")
    m = chain.symbol("M", 1, 16)
    x = chain.input("x", ctn.bf16, (m, columns))
    q = chain.weight("q", ctn.i4, (out, columns), packed=True)
    s = chain.weight("s", ctn.bf16, (out, columns // group))
    chain.output(ctn.silu(ctn.linear(x, ctn.dequant(q, s, 1, group))), ctn.bf16)
    return chain


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.safetensors"
        write_checkpoint(path)
        state = safetensors.torch.load_file(path)
    out, columns = state["proj.weight_shape"].tolist()
    scale = state["proj.weight_scale"]
    packed = torch.from_numpy(ctn.repack(state["proj.weight_packed"], "compressed-tensors", ctn.i4))

    engine = ctn.Engine()
    layer = engine.prepare(layer_of(out, columns, columns // scale.shape[1]))
    x = torch.randn(ROWS, columns, generator=torch.Generator().manual_seed(1)).to(torch.bfloat16)
    place = "cpu" if engine.device == "sim" else engine.device
    y = layer(x.to(place), packed.to(place), scale.to(place)).cpu().float()

    stored = {name.removeprefix("proj."): tensor for name, tensor in state.items()}
    stored["weight_scale"] = scale.float()
    weight = PackedQuantizationCompressor.decompress(stored, SCHEME)["weight"]
    want = torch.nn.functional.silu(x.double() @ weight.double().T)
    wrong = int(((y - want).abs() > want.abs() * 2**-7 + 1e-3).sum())
    print(f"{layer.kernels[0].name} on {engine.device}: {y.numel()} elements compared, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
