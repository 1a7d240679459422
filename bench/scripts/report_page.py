# SPDX-License-Identifier: Apache-2.0
"""<results>/<gpu>/README.md: every table of one GPU, with what its columns mean."""
from report_tables import SPECIAL, case_table, other_commits_line

HEAD = """# Measurements on {device}

Written by `bench/scripts/report.py` from the JSON records in this folder: do not edit. The protocol is in
[bench/README.md](../../README.md), what limits the rows that fall short in [bench/LIMITS.md](../../LIMITS.md).

- Every row was compared with the float64 reference in the run that timed it. Times are medians; contenders take turns in one process.
- *rate*: TFLOP/s, or TB/s where the bytes decide; each input and weight is counted once, each output once.
- *speed against peer*: the time of the (faster) peer divided by ours. Above 1, in bold, ours is faster.
- *µs*: without programmatic dependent launch (PDL): no kernel starts before the previous one has ended. *with PDL*: all launch edges are
  programmatic, inside a chain and from one launch to the next.
- *of copy rate*: TB/s over that of a device copy in the same run, which counts the bytes read and written. A kernel that mostly reads can
  exceed it.
- *unfused*: the same chain with one kernel per operation.
"""

# Heading, groups of cases or a table of SPECIAL, what a reader must know beside the columns.
SECTIONS = (
    ("Run", "ceilings", ""),
    ("GEMM", ["gemm"], "Cases are M x N x K / dtype."),
    ("GEMM with an epilogue", ["epilogue"], "`gelu` is the tanh form, as in cuBLASLt's `GELU_BIAS`."),
    ("Dual GEMM", ["swiglu"], "SwiGLU: two contractions over one A, in one kernel."),
    ("Grouped", ["grouped"],
     "B x G x N x K. Activations are [B,G,K], or [G,B,K] (`gbk`); weights [G,N,K], or [G,K,N] (`gkn`). `gated` is a dual GEMM."),
    ("Experts", ["moe"],
     "E x M x N x K: M rows of E experts, group ends in device memory. Groups are `even`, `skewed`, of `odd` sizes, partly `empty`, or "
     "`many` (64 experts of 1 to 300 rows). The peer's loop knows the group sizes on the host."),
    ("Experts that decode", ["moe_decode"], "E x M x N x K. Each row has a random expert; experts without rows do not count as bytes."),
    ("Small M", ["small"], "CUDA graphs of 100 launches over distinct weights."),
    ("Small M with bias and SiLU", ["small_bias_silu"], ""),
    ("MLP at small M", ["mlp"], "M x hidden x model: a SwiGLU dual GEMM and the projection down."),
    ("Several weights over one activation", ["qkv", "wgrads"],
     "M x N x K of all of them together: queries, keys and values (N is that of the three), and the gradients of gate and up (M is that of both). "
     "The peer has one GEMM for each."),
    ("Epilogues that read tensors", ["tensor_epilogue"],
     "M x N x K, M x G x N x K: a product and a residual, or the backward of a gate (it reads two tensors of the size of the result and writes "
     "three) and of GELU. The peer is cuBLASLt and our pointwise kernel."),
    ("Weights of int4 and int8", ["quantised"],
     "M x N x K, int4 with a scale for each 128 columns, int8 with one for each row. The peer multiplies bf16 weights."),
    ("fp8", ["fp8"],
     "Operands of e4m3 with a scale for each row; `fast` sums stay in the tensor cores, the others are added to f32 every 128 of K. M x N x K, "
     "B x G x N x K, E x M x N x K. Where the peer's name says so, it multiplies without scales."),
    ("Rows", ["rows"], "Sums, norms and softmax of the rows of x, M x K. There is no peer."),
    ("No contraction", ["pseudo_linear", "pseudo_chain8"], "`relu(x * w + b)`, and a chain of eight of them. There is no peer."),
    ("Sweep of small M", "sweep",
     "bf16 linear layers, all 64 pairs of K and N in 512, 1024, 2048, 4096, 7168, 8192, 14336, 28672, against cuBLASLt's best. Every "
     "shape is in [sweep.svg](sweep.svg)."),
    ("Layers of models", "models",
     "bf16 linear layers of Llama 3, Qwen2.5, gpt-oss, DeepSeek-V3, Mixtral and Phi-3 (`bench/sweep/layers.def`) by M, against cuBLASLt's best. "
     "Above 1, ours is faster; with PDL where layers are short."),
    ("Random layers", "random",
     "Drawn by `catenary bench --sweep random`, against cuBLASLt's best."),
    ("PyTorch, small M", "peers", "One process, CUDA graphs; `torch.compile` with max-autotune."),
    ("PyTorch, large layers", "large_peers",
     "One process; each layer in the ways that PyTorch has for it, `torch.compile` with max-autotune. M x N x K, B x G x N x K, E x M x N x K."),
    ("Training steps", "training",
     "Forward and gradients of x and of all parameters, bf16, one process (`bench/scripts/torch_training.py`): PyTorch eager (a loop over "
     "groups), batched (bmm, grouped_mm), `torch.compile` of that with max-autotune. Ours by autograd; dgrad and wgrad by its gradient chains. "
     "*held*: what the forward leaves for the backward beside its result; *h repeated*: `recompute=\"none\"`. B x G x N x K, M x N x K, E x M x N x K."),
    ("Whole models", "whole_models",
     "Models of transformers with random weights, bf16 (`bench/scripts/torch_models.py`): each contender is one CUDA graph of a step, in turns in "
     "one process. Decode steps have a static cache of 1,024 positions; decode-N has N rows. `torch.compile` and "
     "`torch.compile(backend=\"catenary\")`, both with max-autotune. *linear layers*: all of the step by F.linear in one graph."),
    ("Layers of decoders", "decoder_layers",
     "Norms, QKV as three weights, O with the residual, SwiGLU and down with the residual, for few rows (`bench/scripts/torch_layers.py`): layers with weights of "
     "their own in one CUDA graph, in turns in one process; ours one chain for each layer, with PDL. *folded*: the norms' gains multiplied into the weights "
     "that follow them; *algebraic*: with `algebraic_norms`. *of copy rate*: the weights' bytes over the time, over the rate of a device copy in that run."),
    ("Forms of a layer", "forms",
     "Layers of models of a few rows in several forms, launches with PDL in one CUDA graph over weights larger than L2, in turns "
     "(`bench/scripts/torch_forms.py`). *batch_invariant* against the free plan; a layer with RMSNorm *inside* (`algebraic_norms`), *rounded* as PyTorch rounds, "
     "and *apart*, in a chain of its own, against the product without it; Q, K and V as *several* weights of a chain and as three *launches*, against one matrix."),
    ("Quantised weights against public kernels", "quantised_peers",
     "A few rows of bf16 by weights of int4, a scale for each 128 columns, and of int8, one for each row, in one process (`bench/scripts/torch_quantised.py`): "
     "products with weights of their own in one CUDA graph, in turns; ours with PDL. tinygemm is PyTorch's kernel, humming the package humming-kernels. "
     "*of copy rate*: the bytes of q and scales over the time, over the rate of a device copy in that run."),
    ("Rates and latencies of the device", "calibration", "`catenary bench --calibrate`, for the cost model."),
    ("Host time of a launch", "launch", ""),
    ("Time to compile", "compile", "One kernel at a time. Needs no GPU; hosts differ."),
    ("Counters", "counters",
     "One launch each under Nsight Compute (`bench/scripts/counters.py`), cold caches, a cool card. Shares of what the unit could do in that "
     "time. GB to SMs: the bytes that reach the SMs; GB from and to L2: the sectors that L2 reads and writes for them, which are fewer "
     "where SMs request the same line at about the same time."),
    ("First choices of the cost model", "choices",
     "`catenary bench --sweep gemm`: the planner's choice against the best of the candidates that were timed, without PDL."),
    ("What `catenary tune` gains", "tuned",
     "Shapes of that sweep where the first choice was 5% or more slower than the best; one contest each."),
)


def section(gpu, heading, what, text):
    found = SPECIAL[what](gpu) if isinstance(what, str) else case_table(gpu, what)
    if found is None:
        return None
    commits = gpu.commits.get(what, []) if isinstance(what, str) else []
    if commits:
        text = (text + f" Commit {', '.join(commits)}.").strip()
    if what == "ceilings":
        text = other_commits_line(gpu) or ""
    return "\n\n".join(part for part in (f"## {heading}", text, found) if part) + "\n"


def page(gpu):
    device = (gpu.record or {}).get("device") or gpu.name
    sections = [section(gpu, *one) for one in SECTIONS]
    return "\n".join([HEAD.format(device=device)] + [text for text in sections if text])
