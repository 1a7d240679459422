# SPDX-License-Identifier: Apache-2.0
"""Two processes over gloo: FSDP2 and tensor parallel give what one process gives."""

import os
import socket
import sys
import traceback

import pytest

torch = pytest.importorskip("torch")
import torch.distributed as dist
import torch.multiprocessing as mp

import catenary.torch as ct

if not dist.is_available():
    pytest.skip("torch without distributed", allow_module_level=True)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = ct.Linear(16, 24, activation="silu")
        self.down = ct.Linear(24, 16)
        self.mlp = ct.SwiGLU(16, 32)

    def forward(self, x):
        return self.mlp(self.down(self.up(x))) + x


def model_and_input():
    torch.manual_seed(0)
    return Model(), torch.randn(4, 3, 16)


def reference():
    """Output and gradients of one process."""
    model, x = model_and_input()
    x.requires_grad_()
    y = model(x)
    y.square().sum().backward()
    return y.detach(), x.grad, {name: p.grad for name, p in model.named_parameters()}


def close(got, wanted):
    assert got.shape == wanted.shape
    assert (got - wanted).abs().max() <= 1e-4 * max(wanted.abs().max().item(), 1), (got - wanted).abs().max()


def full(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def tensor_parallel(rank, size):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    model, x = model_and_input()
    mesh = init_device_mesh("cpu", (size,))
    parallelize_module(model, mesh, {
        "up": ColwiseParallel(use_local_output=False),
        "down": RowwiseParallel(),
        "mlp.gate_proj": ColwiseParallel(), "mlp.up_proj": ColwiseParallel(), "mlp.down_proj": RowwiseParallel(),
    })  # fmt: skip
    x.requires_grad_()
    y = full(model(x))
    y.square().sum().backward()
    wanted, x_grad, grads = reference()
    close(y, wanted)
    close(x.grad, x_grad)
    for name, parameter in model.named_parameters():
        close(full(parameter.grad), grads[name])
    assert model.up.weight.to_local().shape == (24 // size, 16)


def data_parallel(rank, size):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model, x = model_and_input()
    mesh = init_device_mesh("cpu", (size,))
    for part in (model.up, model.down, model.mlp):
        fully_shard(part, mesh=mesh)
    fully_shard(model, mesh=mesh)
    mine = x.chunk(size)[rank]
    y = model(mine)
    y.square().sum().backward()
    wanted, _, grads = reference()
    close(y, wanted.chunk(size)[rank])
    for name, parameter in model.named_parameters():
        close(parameter.grad.full_tensor() * size, grads[name])  # FSDP takes the mean


def refusals(rank, size):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (size,))
    place = lambda t, p: distribute_tensor(t, mesh, [p])
    x, w, u = torch.randn(4, 8), torch.randn(6, 8), torch.randn(6, 8)
    with pytest.raises(Exception, match="no rule for weights placed as"):
        ct.glu(place(x, Replicate()), place(w, Shard(0)), place(u, Replicate()))
    with pytest.raises(Exception, match="shard its weights by columns"):
        ct.glu(place(x, Replicate()), place(w, Shard(1)), place(u, Shard(1)))
    with pytest.raises(Exception, match="no rule for DTensors"):
        ct.grouped_linear(place(torch.randn(2, 2, 8), Replicate()), place(torch.randn(2, 6, 8), Shard(0)))
    batch = ct.linear(place(x, Shard(0)), place(w, Replicate()))
    assert batch.placements == (Shard(0),)
    close(batch.full_tensor(), torch.nn.functional.linear(full(place(x, Shard(0))), full(place(w, Replicate()))))


def process(rank, size, port, name):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=size)
    try:
        globals()[name](rank, size)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    dist.barrier()
    dist.destroy_process_group()
    sys.stdout.flush()
    # gloo's threads may still run: at a normal end they can abort the process.
    os._exit(0)


@pytest.mark.parametrize("name", ["tensor_parallel", "data_parallel", "refusals"])
def test_two_processes(name):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(process, args=(2, port, name), nprocs=2)
