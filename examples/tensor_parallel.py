# SPDX-License-Identifier: Apache-2.0
"""A gated MLP over several GPUs: its weights are divided by columns and by rows, and training steps give what one GPU
gives. On two GPUs by NCCL; without GPUs by gloo on the CPU:

    torchrun --standalone --nproc-per-node 2 examples/tensor_parallel.py
"""

import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import catenary.torch as ct

STEPS, TOKENS, HIDDEN, INNER = 5, 64, 128, 384


def losses(model, x, target):
    """The loss of each of a few steps of SGD."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    found = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), target)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def make(device):
    """The same model and data in every process."""
    torch.manual_seed(0)
    model = ct.SwiGLU(HIDDEN, INNER, device=device)
    return model, torch.randn(TOKENS, HIDDEN, device=device), torch.randn(TOKENS, HIDDEN, device=device)


def main():
    gpu = torch.cuda.is_available()
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    torch.set_float32_matmul_precision("highest")
    dist.init_process_group("nccl" if gpu else "gloo")
    mesh = init_device_mesh(device.type, (size,))

    single = losses(*make(device))
    model, x, target = make(device)
    columns, rows = ColwiseParallel(), RowwiseParallel()
    parallelize_module(model, mesh, {"gate_proj": columns, "up_proj": columns, "down_proj": rows})
    together = losses(model, x, target)

    largest = max(abs(a - b) / a for a, b in zip(single, together, strict=True))
    if rank == 0:
        part = tuple(model.gate_proj.weight.to_local().shape)
        print(f"{size} x {device.type}: each has {part} of the gate's ({INNER}, {HIDDEN}) weight")
        print(
            f"losses {', '.join(f'{loss:.6f}' for loss in together)}, largest difference from one device {largest:.1e}"
        )
    if largest > 1e-4:
        raise SystemExit(f"process {rank}: losses differ from those of one device: {together}, {single}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
