# SPDX-License-Identifier: Apache-2.0
"""report.py's tables of records that PyTorch's contenders are in."""
from report_plots import number
from report_text import micros, percent, ratio_text, table

PEERS = ("F.linear", "torch.compile", "catenary", "catenary PDL")  # times of peers.py
PEER_NAMES = {"catenary PDL": "catenary with PDL"}
TRAINING_PEERS = ("eager", "batched", "compile")  # contenders of torch_training.py
MODELS = {"llama": "Llama-3-8B", "qwen": "Qwen2.5-7B", "mixtral": "Mixtral-8x7B", "vit": "ViT-L", "bert": "BERT-large",
          "llama-4": "Llama-3-8B", "mixtral-4": "Mixtral-8x7B"}
OUR_LAYERS = {"catenary": "catenary", "catenary-folded": "folded", "catenary-algebraic": "algebraic",
              "catenary-int4": "int4"}
# Contenders of torch_forms.py, by what each is compared with.
FORMS = {"invariant": ("free", ("batch_invariant",)), "norm": ("product", ("inside", "rounded", "apart")),
         "weights": ("one", ("several", "launches"))}
PUBLIC_KERNELS = ("tinygemm", "humming")  # contenders of torch_quantised.py


def peers_table(gpu):
    """PyTorch and Catenary in one process; the last column against the faster of the others."""
    if not gpu.peers:
        return None
    timed = {name for row in gpu.peers.values() for name in row["times"]}
    names = [name for name in PEERS if name in timed]
    lines = []
    for _, row in sorted(gpu.peers.items()):
        times = {name: time["us"] for name, time in row["times"].items()}
        ours = times.get("catenary PDL")
        others = [us for name, us in times.items() if not name.startswith("catenary")]
        share = row["bytes"] / (ours * row["copy_tbs"] * 1e6) if ours and row["copy_tbs"] else None
        lines.append([f"{row['m']}x{row['n']}x{row['k']}",
                      "bias + SiLU" if row["bias_silu"] else "–"]
                     + [micros(times.get(name)) for name in names]
                     + [percent(share),
                        ratio_text(min(others) / ours if ours and others else None)])
    return table(["M x N x K", "epilogue"] + [f"{PEER_NAMES.get(name, name)}, µs" for name in names]
                 + ["of copy rate", "speed against the best peer"], lines)


def large_peers_table(gpu):
    """Ours and the fastest contender of PyTorch; then the others by name."""
    if not gpu.large_peers:
        return None
    lines = []
    for case, row in gpu.large_peers.items():
        times = {name: time["us"] for name, time in row["times"].items()}
        ours = times.pop("catenary", None)
        order = sorted(times, key=times.get)
        best = order[0] if order else None
        rate = row["flops"] / ours * 1e-6 if ours else None
        lines.append([case, micros(ours), number(rate, 0, " TFLOP/s"), best or "–",
                      micros(times.get(best)),
                      ratio_text(times[best] / ours if best and ours else None),
                      ", ".join(f"{name} {micros(times[name])}" for name in order[1:]) or "–"])
    return table(["case", "catenary, µs", "rate", "best of PyTorch", "its µs",
                  "speed against it", "others, µs"], lines)


def training_times(row):
    """Ours by autograd, the peers in order, and the fastest of them against ours; None: not timed."""
    contenders = row["contenders"]
    peers = {name: contenders[name] for name in TRAINING_PEERS if name in contenders}
    rated = [name for name in peers if peers[name]["speed"]]
    best = min(rated, key=lambda name: peers[name]["speed"]) if rated else None
    return contenders.get("catenary", contenders.get("catenary chains")), peers, best


def tflops(row, entry):
    return number(row["flops"] / entry["us"] * 1e-6 if entry else None, 0, " TFLOP/s")


def training_brief_cells(name, row):
    ours, peers, best = training_times(row)
    peer = f", PyTorch {best}" if best else ""
    return [f"training {name}{peer}", micros(ours and ours["us"]), tflops(row, ours),
            micros(best and peers[best]["us"]), ratio_text(best and peers[best]["speed"])]


def model_name(row):
    return f"{MODELS.get(row['model'], row['model'])}, {row['layers']} layers, {row['workload']}"


def model_times(row):
    """Times of ours and of torch.compile in us, or None, and ours against it."""
    us = {name: entry.get("us") for name, entry in row["contenders"].items()}
    ours, peer = us.get("catenary"), us.get("inductor")
    return ours, peer, peer / ours if ours and peer else None


def model_brief_cells(row):
    ours, peer, speed = model_times(row)
    return [f"{model_name(row)}, torch.compile", micros(ours), "–", micros(peer), ratio_text(speed)]


def whole_models_table(gpu):
    """Steps of torch_models.py: ours, torch.compile and eager, and what the linear layers are of it."""
    if not gpu.whole_models:
        return None
    lines = []
    for row in gpu.whole_models.values():
        ours, peer, speed = model_times(row)
        entries = row["contenders"]
        taken = [r for r in entries.get("catenary", {}).get("regions", []) if r["taken"]]
        first = [entries.get(name, {}).get("first_call_s") for name in ("inductor", "catenary")]
        lines.append([model_name(row), micros(ours), micros(peer), ratio_text(speed),
                      micros(entries.get("eager", {}).get("us")), micros(row.get("linear_us")),
                      f"{len(taken)}", *(number(s, 0) for s in first)])
    return table(["step", "catenary, µs", "torch.compile, µs", "speed against it", "eager, µs", "linear layers, µs",
                  "regions taken", "first call of torch.compile, s", "of catenary, s"], lines)


def mebibytes(entry):
    return number(entry["held_bytes"] / 2 ** 20 if entry and "held_bytes" in entry else None, 0)


def training_table(gpu):
    """Steps of torch_training.py: ours by phases, PyTorch's ways, and what a forward holds."""
    if not gpu.training:
        return None
    lines = []
    for name, row in gpu.training.items():
        ours, peers, best = training_times(row)
        chains = row["contenders"].get("catenary chains", {"phases": {}})["phases"]
        again = row["contenders"].get("catenary recompute")
        none = row["contenders"].get("catenary none")
        products = row["contenders"].get("products")
        lines.append([name] + [micros((ours or {"phases": {}})["phases"].get(phase))
                               for phase in ("forward", "backward")] +
                     [micros(chains.get(phase)) for phase in ("dgrad", "wgrad")] +
                     [micros(ours and ours["us"]), tflops(row, ours)] +
                     [micros(peers[one]["us"] if one in peers else None) for one in TRAINING_PEERS] +
                     [micros(products and products["us"]), best or "–", ratio_text(best and peers[best]["speed"]), mebibytes(ours),
                      mebibytes(best and peers[best]), micros(none and none["us"]),
                      mebibytes(none), micros(again and again["us"]), mebibytes(again)])
    return table(["layer", "forward, µs", "backward, µs", "of it dgrad", "wgrad", "step, µs", "rate",
                  "PyTorch eager, µs", "batched, µs", "torch.compile, µs", "products only, µs", "best of PyTorch",
                  "speed against it", "held, MiB", "held by it, MiB", "step with h repeated, µs", "held, MiB",
                  "step with recompute, µs", "held, MiB"], lines)


def decoder_layers_table(gpu):
    """Layers of torch_layers.py: ours, torch.compile and eager; shares of the copy rate."""
    if not gpu.decoder_layers:
        return None
    lines = []
    for (model, rows), row in gpu.decoder_layers.items():
        def of(name, key):
            return row["contenders"].get(name, {}).get(key)
        ours = [of(name, "us") for name in OUR_LAYERS]
        compiled = of("inductor", "us")
        lines.append([f"{model}, {rows} rows", *(micros(us) for us in (*ours, compiled, of("eager", "us"))),
                      *(number(of(name, "copy_share"), 2) for name in OUR_LAYERS),
                      *(ratio_text(compiled / us if us and compiled else None) for us in ours)])
    names = list(OUR_LAYERS.values())
    return table(["layer", *(f"{name}, µs" for name in names), "torch.compile, µs", "eager, µs",
                  *(f"{name}, of copy rate" for name in names), *(f"{name} against torch.compile" for name in names)], lines)


def quantised_peers_table(gpu):
    """Rows of torch_quantised.py: ours, the public kernels, and a product of bf16."""
    if not gpu.quantised_peers:
        return None
    lines = []
    for row in gpu.quantised_peers.values():
        def of(name, key="us"):
            return row["contenders"].get(name, {}).get(key)
        ours, public = of("catenary"), [of(name) for name in PUBLIC_KERNELS if of(name)]
        best = min(public, default=None)
        lines.append([f"{row['format']}, {row['m']}x{row['n']}x{row['k']}", micros(ours), number(of("catenary", "copy_share"), 2),
                      *(micros(of(name)) for name in PUBLIC_KERNELS), ratio_text(best / ours if best and ours else None),
                      micros(of("bf16")), ratio_text(of("bf16") / ours if of("bf16") and ours else None)])
    return table(["weight, M x N x K", "catenary, µs", "of copy rate", *(f"{name}, µs" for name in PUBLIC_KERNELS),
                  "speed against the best of them", "bf16 of PyTorch, µs", "speed against it"], lines)


def forms_table(gpu):
    """Rows of torch_forms.py by form and rows of x: the time over that of what the form is compared with."""
    if not gpu.forms:
        return None
    lines = []
    for form, (base, names) in FORMS.items():
        for name in names:
            for m in sorted({row["m"] for row in gpu.forms.values() if row["form"] == form}):
                ratios = []
                for row in gpu.forms.values():
                    us = [row["contenders"].get(one, {}).get("us") for one in (name, base)]
                    if row["form"] == form and row["m"] == m and all(us):
                        ratios.append((us[0] / us[1], us[0] - us[1], f"{'+'.join(map(str, row['n']))}x{row['k']}"))
                if not ratios:
                    continue
                worst, _, layer = max(ratios)
                lines.append([f"{name}, M = {m}", base, f"{len(ratios)}", number(sum(r for r, _, _ in ratios) / len(ratios), 3),
                              number(worst, 2), layer, number(sum(d for _, d, _ in ratios) / len(ratios), 2)])
    return table(["form", "against", "layers", "time over it, mean", "worst", "of N x K", "µs more, mean"], lines)
