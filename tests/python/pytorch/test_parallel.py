# SPDX-License-Identifier: Apache-2.0
"""Two processes over gloo: FSDP2 and tensor parallel give what one process gives."""

import copy
import os
import socket
import subprocess
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


def sequence_parallel(rank, size):
    """A gated MLP whose x and result are parts of the sequence; it stays one call."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    from catenary.torch import functional

    model, x = model_and_input()
    model, x = model.mlp, x.transpose(0, 1).contiguous()
    wanted_x = x.clone().requires_grad_()
    wanted = copy.deepcopy(model)
    z = wanted(wanted_x)
    z.square().sum().backward()
    mesh = init_device_mesh("cpu", (size,))
    columns, rows = ColwiseParallel(input_layouts=Shard(1)), RowwiseParallel(output_layouts=Shard(1))
    parallelize_module(model, mesh, {"gate_proj": columns, "up_proj": columns, "down_proj": rows})
    mine = x.chunk(size, 1)[rank].contiguous().requires_grad_()
    called, real = [], functional.glu_mlp
    functional.glu_mlp = lambda *given, **named: called.append(1) or real(*given, **named)
    y = model(mine)
    assert called
    close(y, z.chunk(size, 1)[rank])
    y.square().sum().backward()
    close(mine.grad, wanted_x.grad.chunk(size, 1)[rank])
    for p, q in zip(model.parameters(), wanted.parameters(), strict=True):
        close(full(p.grad), q.grad)


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
    with pytest.raises(Exception, match="fuse_wgrad_accumulation takes no DTensors"):
        ct.linear(place(x, Replicate()), place(w, Shard(0)).requires_grad_(), fuse_wgrad_accumulation=True)
    # Under autocast the sum and the bias have the dtype of autocast.
    with torch.autocast("cpu", torch.bfloat16):
        y = ct.linear(place(x, Shard(1)), place(w, Shard(1)), place(torch.randn(6), Replicate()))
    assert y.dtype == torch.bfloat16
    batch = ct.linear(place(x, Shard(0)), place(w, Replicate()))
    assert batch.placements == (Shard(0),)
    close(batch.full_tensor(), torch.nn.functional.linear(full(place(x, Shard(0))), full(place(w, Replicate()))))


def uneven(rank, size):
    """Layers whose columns, rows or batch are no equal parts; a process may have none of them."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (size,))
    torch.manual_seed(0)
    f = torch.nn.functional
    mlp = lambda x, g, u, d: f.linear(f.silu(f.linear(x, g)) * f.linear(x, u), d)
    gated = lambda x, g, u, b, c: f.silu(f.linear(x, g, b)) * f.linear(x, u, c)
    parameters = lambda n, k: (torch.randn(n, k), torch.randn(n))

    def compare(function, theirs, tensors, places):
        a = [distribute_tensor(t, mesh, [p]).requires_grad_() for t, p in zip(tensors, places, strict=True)]
        b = [t.clone().requires_grad_() for t in tensors]
        y, z = function(*a), theirs(*b)
        assert (y.shape, y.stride()) == (z.shape, z.stride())
        close(full(y), z)
        out = torch.randn_like(z)
        (full(y) * out).sum().backward()
        (z * out).sum().backward()
        for p, q in zip(a, b, strict=True):
            close(full(p.grad), q.grad)

    x, columns, rows, whole = torch.randn(3, 2, 5), Shard(0), Shard(1), Replicate()
    for n in (7, 1):
        w, b = parameters(n, 5)
        compare(ct.linear, f.linear, (x, w, b), (whole, columns, columns))
        compare(ct.linear, f.linear, (x, w, b), (Shard(0), whole, whole))
        compare(ct.linear, f.linear, (x, w, b), (Shard(2), rows, whole))
        u, c = parameters(n, 5)
        compare(ct.glu, gated, (x, w, u, b, c), (whole, *[columns] * 4))
        compare(ct.glu, gated, (x, w, u, b, c), (Shard(0), *[whole] * 4))
        d = torch.randn(5, n)
        compare(ct.glu_mlp, mlp, (x, w, u, d), (whole, columns, columns, rows))
        compare(ct.glu_mlp, mlp, (x, w, u, d), (Shard(0), whole, whole, whole))
    layer = ct.Linear(5, 7, activation="silu")
    wanted = layer(x)
    layer.weight, layer.bias = (
        torch.nn.Parameter(distribute_tensor(t.detach(), mesh, [columns])) for t in (layer.weight, layer.bias)
    )
    close(layer(x), wanted)  # a plain x has a plain result


def operators(rank, size):
    """Chains as operators on DTensors: placements of results and gradients, and their values."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (size,))
    torch.manual_seed(0)

    def compare(function, theirs, tensors, places, result, factor=1):
        a = [distribute_tensor(t, mesh, [p]).requires_grad_() for t, p in zip(tensors, places, strict=True)]
        b = [t.double().requires_grad_() for t in tensors]
        y, z = function(*a), theirs(*b)
        assert y.placements == (result,), y.placements
        close(full(y).double(), z)
        out = torch.randn_like(z)
        (full(y) * out.float()).sum().backward()
        (z * out).sum().backward()
        for p, q in zip(a, b, strict=True):
            close(full(p.grad).double(), q.grad)

    x, w = torch.randn(4, 6, 16), torch.randn(8, 16)
    product = ct.chain(
        'chain p[M in 1..64](input x: f32[M, 4], weight w: f32[6, 4]) { y = contract "mk,nk->mn" f32(x, w)'
        " return y: f32 }", exact=False)  # fmt: skip
    linear = torch.nn.functional.linear
    compare(product, linear, (x, w), (Shard(0), Replicate()), Shard(0))
    compare(product, linear, (x, w), (Shard(1), Replicate()), Shard(1))
    compare(product, linear, (x, w), (Replicate(), Shard(0)), Shard(2))
    compare(product, linear, (x, w), (Shard(2), Shard(1)), Partial())
    compare(product, linear, (x, w), (Replicate(), Replicate()), Replicate())
    silu = ct.chain(product._text.replace("return y", "z = silu(y) return z"), exact=False)
    activated = lambda x, w: torch.nn.functional.silu(linear(x, w))
    compare(silu, activated, (x, w), (Replicate(), Shard(0)), Shard(2))
    with torch.no_grad():  # an activation of a sum needs the whole sum
        y = silu(*(distribute_tensor(t, mesh, [p]) for t, p in ((x, Shard(2)), (w, Shard(1)))))
    assert not isinstance(y.placements[0], Partial)
    close(full(y), activated(x, w))
    groups = lambda x, w: torch.einsum("mgk,gnk->mgn", x, w)
    g, v = torch.randn(3, 4, 16), torch.randn(4, 8, 16)
    compare(ct.grouped_linear, groups, (g, v), (Shard(1), Shard(0)), Shard(1))
    exact = ct.chain(product._text.replace("[M in 1..64]", "").replace("M, 4", "4, 16").replace("6, 4", "8, 16"))
    compare(exact, linear, (x[:, 0], w), (Shard(0), Replicate()), Shard(0))
    compare(exact, linear, (x[:, 0], w), (Replicate(), Shard(0)), Shard(1))
    compare(exact, linear, (x[:, 0], w), (Shard(1), Shard(1)), Partial())
    compare(exact, linear, (x[:, 0], w), (Shard(1), Shard(0)), Shard(1))  # x is smaller: it moves
    offs = torch.tensor([1, 1, 3, 4], dtype=torch.int32)
    parts = [(x[:, 0], Replicate()), (v, Shard(1)), (offs, Replicate())]
    a, b, c = (distribute_tensor(t, mesh, [p]) for t, p in parts)
    with torch.no_grad():
        y = ct.grouped_linear(a.contiguous(), b, offs=c)
    assert y.placements == (Shard(1),)
    close(full(y), torch.stack([linear(x[i, 0], v[e]) for i, e in enumerate((0, 2, 2, 3))]))


def exact_chains(rank, size):
    """Chains for exact sizes: with a symbol, sizes without equal parts, strides, an epilogue, outputs of the caller."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor

    from catenary.torch import operators

    mesh = init_device_mesh("cpu", (size,))
    torch.manual_seed(0)
    place = lambda t, p: distribute_tensor(t, mesh, [p])
    linear = torch.nn.functional.linear
    text = (
        "chain e[M in 2..64](input x: f32[M, 16], weight w: f32[6, 16] strides[1, 6], scalar s: f32) {{\n"
        '  c = contract "mk,nk->mn" f32(x, w)\n  y = scale({}, s)\n  return y: f32\n}}\n'
    )
    silu = ct.chain(text.format("silu(c)"))
    w = torch.randn(16, 6).t()
    for rows, placed, result in ((8, Shard(0), Shard(0)), (7, Shard(0), Replicate()), (2, Shard(0), Shard(0))):
        x = torch.randn(rows, 16)
        with torch.no_grad():
            y = silu(place(x, placed), place(w, Replicate()), 2.0)
        # 7 rows are not two equal parts: columns are.
        assert y.placements == (result,) or (rows == 7 and y.placements == (Shard(1),)), y.placements
        close(full(y), 2 * torch.nn.functional.silu(linear(x, w)))
    x = torch.randn(8, 16)
    y = silu(x, place(w, Shard(0)), 1.0)  # a plain x is whole everywhere
    assert y.placements == (Shard(1),)
    close(full(y), torch.nn.functional.silu(linear(x, w)))

    product = ct.chain(text.format("c"))
    wanted = linear(x, w)
    for px, pw, out in (
        (Shard(0), Replicate(), Shard(0)), (Replicate(), Replicate(), Shard(1)), (Shard(1), Shard(1), Partial()),
        (Shard(1), Shard(1), Replicate()), (Shard(0), Shard(0), Shard(1)),
    ):  # fmt: skip
        whole = distribute_tensor(torch.zeros(8, 6), mesh, [Replicate() if out == Partial() else out])
        outs = whole if out != Partial() else type(whole).from_local(whole.to_local(), mesh, [out], run_check=False)
        operators.run_out(product.form, [place(x, px), place(w, pw)], [outs], [1.0])
        close(full(outs), wanted)
    with pytest.raises(Exception, match="no rule for outputs placed as P"):
        silu_outs = type(whole).from_local(torch.zeros(8, 6), mesh, [Partial()], run_check=False)
        operators.run_out(silu.form, [place(x, Replicate()), place(w, Replicate())], [silu_outs], [1.0])

    for exact in (True, False):  # in place of an input
        add = ct.chain("chain add(input a: f32[4, 6], input b: f32[4, 6]) { c = add(a, b) return c: f32 inplace b }",
                       exact=exact)  # fmt: skip
        a, b = torch.randn(4, 6), torch.randn(4, 6)
        for p in (Shard(0), Shard(1), Replicate()):
            sums = place(b.clone(), p)
            operators.run_out(add.form, [place(a, Shard(0))], [sums])
            assert sums.placements == (p,)
            close(full(sums), a + b)


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


def test_the_example_by_torchrun(root):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*command, str(root / "examples/tensor_parallel.py")], capture_output=True, text=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "2 x cpu: each has (192, 128)" in done.stdout


@pytest.mark.parametrize(
    "name", ["tensor_parallel", "sequence_parallel", "data_parallel", "refusals", "uneven", "operators", "exact_chains"]
)
def test_two_processes(name):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(process, args=(2, port, name), nprocs=2)
