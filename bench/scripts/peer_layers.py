# SPDX-License-Identifier: Apache-2.0
"""The layers that peers.py times: as chains, and as what PyTorch offers for the same result."""
import itertools
import math

SMALL_M = (1, 2, 4, 8, 16, 32, 64, 128)
EXPERTS = {"even": (4096, 4096, 4096, 4096), "skewed": (1024, 7168, 2560, 5632),
           "odd": (4001, 3999, 4211, 4173), "empty": (2048, 0, 3072, 1536, 4096, 0, 2560, 3072),
           "many": tuple(1 + (97 * e * e + 131 * e) % 300 for e in range(64))}
LOOP = "loop of F.linear"


class Layer:
    """`labels`: of x, the weight and the result. `sizes`: of the labels. `epilogue`: "plain",
    "bias_silu" or "gated". `rows`: of each expert. `shapes`: of the parameters by name, in order;
    the last one is the result's."""

    def __init__(self, name, labels, sizes, epilogue, rows=None):
        self.labels, self.sizes, self.epilogue, self.rows = labels, sizes, epilogue, rows
        x, w, y = (tuple(sizes[label] for label in one) for one in labels)
        weights = ("wg", "wu") if epilogue == "gated" else ("w",)
        self.bias_labels = "gn" if "g" in labels[0] else "n"
        self.shapes = {"x": x, **{one: w for one in weights}}
        if epilogue == "bias_silu":
            self.shapes["b"] = tuple(sizes[label] for label in self.bias_labels)
        if rows:
            self.shapes["ends"] = (sizes["e"],)
        self.shapes["y"] = y
        self.flops = 2.0 * len(weights) * math.prod(sizes.values()) / sizes.get("e", 1)
        self.scale = 1 / math.sqrt(sizes["k"])  # of weights
        self.name = f"{name}/{'x'.join(str(sizes[label]) for label in 'ebmgnk' if label in sizes)}"
        self.text = self.chain(weights)

    def chain(self, weights):
        kinds = {"x": "input", "ends": "input"}
        parameters = ", ".join(
            f"{kinds.get(name, 'weight')} {name}: {'i32' if name == 'ends' else 'bf16'}"
            f"[{', '.join(map(str, shape))}]" for name, shape in self.shapes.items() if name != "y")
        x, w, y = self.labels
        ragged = " ragged m by ends over e" if self.rows else ""
        products = [f'contract "{x},{w}->{y}"(x, {name}){ragged}' for name in weights]
        bias = 'b @ "gn"' if self.bias_labels == "gn" else "b"
        body = {"plain": f"  y = {products[0]}\n",
                "bias_silu": f"  h = {products[0]}\n  y = silu(add(h, {bias}))\n",
                "gated": f"  g = {products[0]}\n  u = {products[-1]}\n  y = mul(silu(g), u)\n"}
        return f"chain layer({parameters}) {{\n{body[self.epilogue]}  return y: bf16\n}}\n"

    def inputs(self):
        """The names of what a PyTorch function takes: x, weights and the bias."""
        return [name for name in self.shapes if name not in ("ends", "y")]

    def ends(self):
        return list(itertools.accumulate(self.rows))

    def bytes_moved(self):
        """Each input and weight once, the output once."""
        return sum((4 if name == "ends" else 2) * math.prod(shape)
                   for name, shape in self.shapes.items())


def linear(m, n, k, epilogue):
    return Layer("linear" if epilogue == "plain" else f"linear_{epilogue}", ("mk", "nk", "mn"),
                 {"m": m, "n": n, "k": k}, epilogue)


def swiglu(m, n, k):
    return Layer("swiglu", ("mk", "nk", "mn"), {"m": m, "n": n, "k": k}, "gated")


def grouped(x, w, epilogue, b, g, n, k):
    name = "grouped" + ("" if epilogue == "plain" else f"_{epilogue}")
    name += ("" if x == "bgk" else f"_{x[:2]}k") + ("" if w == "gnk" else f"_{w}")
    return Layer(name, (x, w, x.replace("k", "n")), {"b": b, "g": g, "n": n, "k": k}, epilogue)


def experts(kind, rows, n, k, epilogue):
    name = ("moe_gated_" if epilogue == "gated" else "moe_") + kind
    return Layer(name, ("mk", "enk", "mn"), {"m": sum(rows), "e": len(rows), "n": n, "k": k},
                 epilogue, rows)


def small_layers(n, k):
    return [linear(m, n, k, epilogue) for epilogue in ("plain", "bias_silu") for m in SMALL_M]


def large_layers():
    layers = [swiglu(*shape) for shape in ((4096, 4096, 4096), (8192, 4096, 4096),
                                           (8192, 16384, 4096), (8192, 3072, 768),
                                           (512, 11008, 4096), (256, 14336, 4096))]
    layers += [grouped(x, w, epilogue, 2560, 12, 3072, 1024)
               for x, w in itertools.product(("bgk", "gbk"), ("gnk", "gkn"))
               for epilogue in ("plain", "bias_silu", "gated")]
    return layers + [experts(kind, rows, 14336, 4096, epilogue)
                     for epilogue in ("plain", "gated") for kind, rows in EXPERTS.items()]


# ---- PyTorch ------------------------------------------------------------------------------------

def expert_products(torch, layer):
    functional = torch.nn.functional
    ends = torch.tensor(layer.ends(), dtype=torch.int32, device="cuda")
    starts = [0] + layer.ends()
    grouped_mm = getattr(functional, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)

    def loop(x, w):
        return torch.cat([functional.linear(x[starts[e]:starts[e + 1]], w[e])
                          for e in range(len(layer.rows))])

    def by_grouped_mm(x, w):
        if grouped_mm is None:
            raise RuntimeError("this PyTorch has no grouped_mm")
        return grouped_mm(x, w.transpose(-2, -1), offs=ends)
    return {LOOP: loop, "grouped_mm": by_grouped_mm}


def grouped_products(torch, layer):
    x_labels, w_labels, y_labels = layer.labels
    at = x_labels.index("g")
    transposed = w_labels == "gnk"  # the order of F.linear

    def bmm(x, w):
        return torch.bmm(x.transpose(0, at), w.transpose(1, 2) if transposed else w).transpose(0, at)

    def loop(x, w):
        return torch.stack([torch.nn.functional.linear(x.select(at, g),
                                                       w[g] if transposed else w[g].T)
                            for g in range(w.shape[0])], at)

    equation = f"{x_labels},{w_labels}->{y_labels}"
    return {"torch.bmm": bmm, "einsum": lambda x, w: torch.einsum(equation, x, w), LOOP: loop}


def products(torch, layer):
    """Name -> product(x, w)."""
    if layer.rows:
        return expert_products(torch, layer)
    if "g" in layer.labels[0]:
        return grouped_products(torch, layer)
    return {"F.linear": torch.nn.functional.linear}


def whole_layer(torch, layer, product):
    """A function of the layer's inputs, by one of `products`."""
    silu = torch.nn.functional.silu
    if layer.epilogue == "gated":
        return lambda x, wg, wu: silu(product(x, wg)) * product(x, wu)
    if layer.epilogue == "bias_silu":
        if layer.bias_labels == "n" and product is torch.nn.functional.linear:
            return lambda x, w, b: silu(product(x, w, b))
        groups_first = layer.labels[0][0] == "g"
        return lambda x, w, b: silu(product(x, w) + (b[:, None] if groups_first else b))
    return product


def compiled(torch, whole):
    """The kernels of max-autotune, without graphs of its own."""
    torch.compiler.reset()
    return torch.compile(whole, mode="max-autotune-no-cudagraphs", dynamic=False)


def functions(torch, layer, compile_plain):
    """Name -> how to make a function of the layer's inputs. Layers with an epilogue are compiled as
    well, others with `compile_plain`. Loops are not, nor is einsum, which becomes torch.bmm."""
    made = {}
    for name, product in products(torch, layer).items():
        whole = whole_layer(torch, layer, product)
        made[name] = lambda whole=whole: whole
        if (compile_plain or layer.epilogue != "plain") and name not in (LOOP, "einsum"):
            made[f"{name}, torch.compile"] = lambda whole=whole: compiled(torch, whole)
    return made


def tensors(torch, layer, seed):
    """The layer's tensors by name, random, on the GPU."""
    generator = torch.Generator(device="cuda").manual_seed(seed)
    made = {}
    for name, shape in layer.shapes.items():
        if name == "ends":
            made[name] = torch.tensor(layer.ends(), dtype=torch.int32, device="cuda")
            continue
        scale = layer.scale if name.startswith("w") else 1
        made[name] = torch.randn(*shape, device="cuda", generator=generator,
                                 dtype=torch.bfloat16).mul_(scale)
    return made


def expected(torch, layer, data):
    """The result in float64."""
    def product(x, w):
        if layer.rows:
            starts = [0] + layer.ends()
            return torch.cat([x[starts[e]:starts[e + 1]] @ w[e].double().T
                              for e in range(len(layer.rows))])
        return torch.einsum("{},{}->{}".format(*layer.labels), x, w.double())

    whole = whole_layer(torch, layer, product)
    return whole(data["x"].double(), *(data[name] for name in layer.inputs()[1:]))
