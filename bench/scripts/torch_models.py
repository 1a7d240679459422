#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole models of transformers with random weights: eager, torch.compile and Catenary in turns in one process.

    bench/scripts/torch_models.py OUT.json                     # all models and workloads; needs a GPU
    bench/scripts/torch_models.py OUT.json --models llama --workloads decode-1,train
    bench/scripts/torch_models.py OUT.json --tiny              # small sizes, on the CPU too: that it runs

Every contender is one CUDA graph of a step, replayed; contenders take turns, each round in another order; a time is the
median over the rounds. Half of a turn is not timed: the card's clock then is that of the contender's own power.
Outputs are compared with eager's. `linear_share` is the time of the step's nn.Linear layers by F.linear in one graph,
over eager's. `first_call_s` is the first call, with all compiling. Contenders:

    eager          the model as it is
    inductor       torch.compile, mode max-autotune-no-cudagraphs
    catenary       torch.compile(backend="catenary"), the same mode
    catenary-pdl   the same with catenary.torch.set_pdl(True), inference only
"""

import argparse
import copy
import datetime
import gc
import json
import random
import statistics
import subprocess
import time
from pathlib import Path

import torch
import torch.nn.functional as F
import transformers as hf

import catenary
import catenary.torch as ct

MODE = "max-autotune-no-cudagraphs"
CONTENDERS = ("eager", "inductor", "catenary", "catenary-pdl")


def llama(tiny, layers=16):
    sizes = dict(hidden_size=64, intermediate_size=96, num_attention_heads=4, num_key_value_heads=2, vocab_size=128) if (
        tiny) else dict(hidden_size=4096, intermediate_size=14336, num_attention_heads=32, num_key_value_heads=8,
                        vocab_size=128256)
    return hf.LlamaForCausalLM, hf.LlamaConfig(num_hidden_layers=2 if tiny else layers, max_position_embeddings=8192,
                                               **sizes)


def qwen(tiny):
    sizes = dict(hidden_size=64, intermediate_size=96, num_attention_heads=4, num_key_value_heads=2, vocab_size=128) if (
        tiny) else dict(hidden_size=3584, intermediate_size=18944, num_attention_heads=28, num_key_value_heads=4,
                        vocab_size=152064)
    return hf.Qwen2ForCausalLM, hf.Qwen2Config(num_hidden_layers=2 if tiny else 28, max_position_embeddings=8192, **sizes)


def mixtral(tiny):
    sizes = dict(hidden_size=64, intermediate_size=96, num_attention_heads=4, num_key_value_heads=2, vocab_size=128,
                 num_local_experts=4) if tiny else dict(hidden_size=4096, intermediate_size=14336, num_attention_heads=32,
                                                        num_key_value_heads=8, vocab_size=32000, num_local_experts=8)
    return hf.MixtralForCausalLM, hf.MixtralConfig(num_hidden_layers=1 if tiny else 4, max_position_embeddings=8192,
                                                   **sizes)


def llama_train(tiny):
    return llama(tiny, 4)


def vit(tiny):
    sizes = dict(hidden_size=64, intermediate_size=96, num_attention_heads=4, image_size=32) if tiny else dict(
        hidden_size=1024, intermediate_size=4096, num_attention_heads=16, image_size=224)
    return hf.ViTModel, hf.ViTConfig(num_hidden_layers=2 if tiny else 24, **sizes)


def bert(tiny):
    sizes = dict(hidden_size=64, intermediate_size=96, num_attention_heads=4, vocab_size=128) if tiny else dict(
        hidden_size=1024, intermediate_size=4096, num_attention_heads=16)
    return hf.BertModel, hf.BertConfig(num_hidden_layers=2 if tiny else 24, **sizes)


DECODERS = ["decode-1", "decode-16", "decode-64", "prefill"]
MODELS = {"llama": (llama, DECODERS), "qwen": (qwen, DECODERS), "mixtral": (mixtral, DECODERS),
          "vit": (vit, ["encode-1", "encode-32"]), "bert": (bert, ["encode-1", "encode-32"]),
          "llama-4": (llama_train, ["train"]), "mixtral-4": (mixtral, ["train"])}


class Steps:
    """A model and what one step of a workload is. `make(name)` gives the step of a contender and its output."""

    def __init__(self, model, workload, options, device):
        self.workload, self.device, self.options = workload, device, options
        kind, _, number = workload.partition("-")
        self.kind, self.batch = kind, int(number or 1)
        self.model = model.train(kind == "train")
        self.context = 32 if options.tiny else options.context
        self.length = {"decode": 1, "prefill": 16 if options.tiny else 2048, "train": 16 if options.tiny else 2048,
                       "encode": 16 if options.tiny else 512}[kind]
        torch.manual_seed(0)
        self.inputs = self._inputs()

    def _inputs(self):
        config = self.model.config
        if isinstance(self.model, hf.ViTModel):
            shape = (self.batch, 3, config.image_size, config.image_size)
            return {"pixel_values": torch.randn(shape, device=self.device, dtype=self.model.dtype)}
        ids = torch.randint(0, config.vocab_size, (self.batch, self.length), device=self.device)
        return {"input_ids": ids}

    def _arguments(self, model):
        if self.kind == "train":
            return {**self.inputs, "labels": self.inputs["input_ids"], "use_cache": False}
        if self.kind == "decode":
            cache = hf.StaticCache(config=model.config, max_cache_len=self.context)
            heads = model.config.num_key_value_heads
            width = getattr(model.config, "head_dim", None) or model.config.hidden_size // model.config.num_attention_heads
            if hasattr(cache, "early_initialization"):
                cache.early_initialization(self.batch, heads, width, model.dtype, self.device)
            place = torch.tensor([[self.context - 1]], device=self.device).expand(self.batch, 1)
            mask = torch.ones(self.batch, self.context, dtype=torch.long, device=self.device)
            return {**self.inputs, "past_key_values": cache, "position_ids": place, "attention_mask": mask,
                    "use_cache": True}
        if self.kind == "prefill":
            return {**self.inputs, "use_cache": False, "logits_to_keep": 1}
        return self.inputs

    def make(self, name):
        torch._dynamo.reset()
        model = self.model
        ct.set_pdl(name == "catenary-pdl")
        if name == "inductor":
            run = torch.compile(model, mode=MODE, dynamic=False)
        elif name.startswith("catenary"):
            run = torch.compile(model, backend=ct.backend, dynamic=False, options=backend_options(self.options))
        else:
            run = model
        arguments = self._arguments(model)
        # A static cache counts its tokens on the device: every replay writes at the last position.
        cache = arguments.get("past_key_values")
        lengths = [layer.cumulative_length for layer in cache.layers] if cache is not None else []
        for length in lengths:
            length.fill_(self.context - 1)
        result = {}

        def step():
            if self.kind == "train":
                loss = run(**arguments).loss
                loss.backward()
                result["out"] = loss.detach()
            else:
                with torch.no_grad():
                    out = run(**arguments)
                    if lengths:
                        torch._foreach_sub_(lengths, 1)
                    result["out"] = out.logits if hasattr(out, "logits") else out.last_hidden_state
        return step, result


def backend_options(options):
    from torch._inductor import list_mode_options

    chosen = dict(list_mode_options(MODE))
    if options.accept:
        chosen["catenary.accept"] = options.accept
    return chosen


class Replay:
    """A step as a CUDA graph; on the CPU a plain call."""

    def __init__(self, step, model):
        start = time.perf_counter()
        step()
        synchronize()
        self.first_call_s = time.perf_counter() - start
        self.model = model
        self.step = step  # its tensors are inputs of the graph: they must live as long
        self.graph = None
        if not torch.cuda.is_available():
            self.run = step
            return
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        for parameter in model.parameters():
            parameter.grad = None
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            step()
        self.run = self.graph.replay


def synchronize():
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def time_us(run, count):
    """Microseconds of one call, over `count` in a row."""
    if not torch.cuda.is_available():
        start = time.perf_counter()
        run()
        return (time.perf_counter() - start) * 1e6
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(count):
        run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1000 / count


def in_turns(replays, options):
    """Microseconds of each contender's step, a value for each round, and the steps of a turn. Each round has another order."""
    first = next(iter(replays.values()))
    count = 1 if options.tiny else max(2, round(options.round_ms * 1000 / max(time_us(first.run, 3), 1)))
    times = {name: [] for name in replays}
    order = random.Random(1)
    for _ in range(options.rounds):
        for name in order.sample(sorted(replays), len(replays)):
            time_us(replays[name].run, count)
            times[name].append(time_us(replays[name].run, count))
    return times, count


def linear_calls(steps):
    """The F.linear calls of one forward, as a step."""
    calls = []

    def record(module, inputs, output):
        calls.append((inputs[0].detach().clone(), module.weight, module.bias))
    hooks = [m.register_forward_hook(record) for m in steps.model.modules() if isinstance(m, torch.nn.Linear)]
    step, _ = steps.make("eager")
    step()
    for hook in hooks:
        hook.remove()

    def run():
        with torch.no_grad():
            for x, w, b in calls:
                F.linear(x, w, b)
    return run


def measure(steps, options):
    """The row of a workload."""
    row = {"workload": steps.workload, "batch": steps.batch, "length": steps.length, "contenders": {}}
    replays, expected = {}, None
    for name in options.contenders:
        if name == "catenary-pdl" and steps.kind == "train":
            continue
        ct.decisions.clear()
        entry = row["contenders"][name] = {}
        try:
            step, result = steps.make(name)
            replays[name] = Replay(step, steps.model)
            replays[name].run()
            synchronize()
        except Exception as error:  # a contender that fails is a row of the record
            entry["error"] = f"{type(error).__name__}: {error}"[:500]
            print(f"  {name}: {entry['error']}", flush=True)
            replays.pop(name, None)
            continue
        out = result["out"].float().clone()
        expected = out if expected is None else expected
        entry["first_call_s"] = round(replays[name].first_call_s, 3)
        print(f"  {name}: first call {entry['first_call_s']} s", flush=True)
        entry["error_of_largest"] = float((out - expected).abs().max() / expected.abs().max().clamp(min=1e-9))
        if name.startswith("catenary"):
            entry["regions"] = [
                {"taken": d.taken, "reason": d.reason, "products": d.products, "nodes": len(d.nodes),
                 "predicted_us": d.predicted_us, "replaced_us": d.replaced_us, "chain": d.chain} for d in ct.decisions
            ]
    if not replays:
        return row
    times, count = in_turns(replays, options)
    for name, values in times.items():
        row["contenders"][name] |= {"us": round(statistics.median(values), 2), "spread": [min(values), max(values)]}
    if not options.no_share and "eager" in replays and steps.kind != "train":
        linears = Replay(linear_calls(steps), steps.model)
        row["linear_us"] = round(statistics.median(time_us(linears.run, count) for _ in range(5)), 2)
        row["linear_share"] = round(row["linear_us"] / row["contenders"]["eager"]["us"], 3)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", help="the record, JSON; written after each workload")
    parser.add_argument("--models", default=",".join(MODELS), help=f"of {', '.join(MODELS)}")
    parser.add_argument("--workloads", default="", help="only these: decode-1, prefill, encode-32, train, ...")
    parser.add_argument("--contenders", default=",".join(CONTENDERS), help=f"of {', '.join(CONTENDERS)}")
    parser.add_argument("--context", type=int, default=1024, help="positions of the static cache")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--round-ms", type=float, default=40, help="of one contender in one round")
    parser.add_argument("--accept", choices=("", "faster", "always", "never"), default="", help="of the pass")
    parser.add_argument("--layers", type=int, default=0, help="layers of each model; 0: its own number")
    parser.add_argument("--no-share", action="store_true", help="do not time the linear layers alone")
    parser.add_argument("--tiny", action="store_true", help="small sizes and one round: a test of this script")
    options = parser.parse_args()
    options.contenders = [c for c in options.contenders.split(",") if c]
    if options.tiny:
        options.rounds = 1
    device = "cuda" if torch.cuda.is_available() else "cpu"
    ct.register_with_transformers()
    record = {"kind": "whole models", "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
              "torch": torch.__version__, "transformers": hf.__version__, "cuda": torch.version.cuda,
              "catenary": catenary.__version__, "commit": commit(), "date": timestamp(),
              "mode": MODE, "rounds": options.rounds, "dtype": "bf16", "context": options.context, "rows": []}
    for name in options.models.split(","):
        make, workloads = MODELS[name]
        chosen = [w for w in workloads if not options.workloads or w in options.workloads.split(",")]
        for workload in chosen:
            kind, config = make(options.tiny)
            config.num_hidden_layers = options.layers or config.num_hidden_layers
            torch.manual_seed(0)
            torch.set_default_dtype(torch.bfloat16)
            with torch.device(device):
                model = kind(copy.deepcopy(config))
            torch.set_default_dtype(torch.float32)
            if name.startswith("mixtral"):
                model.set_experts_implementation("grouped_mm")
            print(f"{name} {workload}", flush=True)
            row = {"model": name, "layers": config.num_hidden_layers, **measure(Steps(model, workload, options, device), options)}
            record["rows"].append(row)
            Path(options.out).write_text(json.dumps(record, indent=1) + "\n")
            eager = row["contenders"].get("eager", {}).get("us", float("nan"))
            for contender, entry in row["contenders"].items():
                if "us" in entry:
                    print(f"  {contender:14} {entry['us']:10.1f} us  x{eager / entry['us']:.3f} of eager, first call "
                          f"{entry['first_call_s']:.1f} s, error {entry['error_of_largest']:.1e}", flush=True)
            del model
            gc.collect()
            if device == "cuda":
                torch.cuda.empty_cache()


def timestamp():
    """UTC, with the time: report.py orders the records of one day by it."""
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def commit():
    """Of the checkout, "" outside of one."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
