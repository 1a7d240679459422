# SPDX-License-Identifier: Apache-2.0
"""The pass over Inductor's graphs: takes the regions that are faster as a chain, and says why of each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
from torch.fx import Graph, Node

from catenary import _native
from catenary.chain import Chain
from catenary.errors import ArgumentError, Error
from catenary.torch import operators
from catenary.torch.graph import cost
from catenary.torch.graph.axes import Mismatch, has_hints, hint
from catenary.torch.graph.early_start import EarlyStarts
from catenary.torch.graph.kept_chains import keep, register_kept
from catenary.torch.graph.lower import Lowered, insert, lower
from catenary.torch.graph.matvec import RowProducts
from catenary.torch.graph.norm import Norms
from catenary.torch.graph.region import Grower, Region, products_of
from catenary.torch.graph.replaced import is_alone, replaced_us
from catenary.torch.graph.scaled import SCALED, scales_of
from catenary.torch.graph.table import POINTWISE, PRODUCTS

logger = logging.getLogger("catenary.torch.graph")

LEAST = 8  # columns of a product
ACCEPT = ("faster", "always", "never")
PDL = ("auto", "never")


@dataclass(frozen=True)
class Decision:
    """A region that was taken, or left to Inductor."""

    taken: bool
    reason: str
    products: tuple[str, ...]
    """Names of nodes of the graph."""
    nodes: tuple[str, ...]
    predicted_us: float | None
    """Of the chain."""
    replaced_us: float | None
    """Of what it replaces."""
    chain: str
    """Its text; "" where there is none."""
    pdl: bool = False
    """Whether its operator may start, and read weights, before the stream's previous kernel has ended."""
    norm: str = ""
    """What becomes of the norm before the products: part of the chain, or why not; "" where there is none."""

    def __str__(self) -> str:
        times = f", {self.predicted_us:.1f} us for {self.replaced_us:.1f} us" if self.replaced_us is not None else ""
        what = f"{', '.join(self.products)} ({len(self.nodes)} nodes{times})"
        norm = f"; {self.norm}" if self.norm else ""
        return f"{'taken' if self.taken else 'left'}: {what}: {self.reason}{', with PDL' if self.pdl else ''}{norm}"


decisions: list[Decision] = []
"""Of all graphs since `decisions.clear()`, in order."""


class CatenaryPass(CustomGraphPass):
    """A post-grad pass of Inductor: `torch._inductor.config.post_grad_custom_pre_pass = CatenaryPass()`.

    Args:
        accept: "faster": a region is taken where its predicted time is below that of what it replaces; "always": where
            a chain can have it; "never".
        margin: by what factor it must be faster.
        before: a pass that runs first, such as one that is installed already.
        pdl: "auto": operators start early (programmatic dependent launch) where that is right whatever ran before the
            graph; "never": only with `set_pdl(True)`.
    """

    def __init__(self, accept: str = "faster", margin: float = 1.02, before: Any = None, pdl: str = "auto"):
        for name, value, known in (("accept", accept, ACCEPT), ("pdl", pdl, PDL)):
            if value not in known:
                raise ArgumentError(f"{name} is {value!r}: use one of {', '.join(known)}")
        if not isinstance(margin, (int, float)) or isinstance(margin, bool) or not 0 < margin < float("inf"):
            raise ArgumentError(f"margin is {margin!r}: use a finite number above 0")
        self.accept = accept
        self.margin = margin
        self.pdl = pdl
        self.before = before
        register_kept()

    def __call__(self, graph: Graph) -> None:
        if self.before is not None:
            self.before(graph)
        if self.accept != "never":
            _Run(graph, self.accept, self.margin, self.pdl).run()

    def uuid(self) -> Any:
        folder = Path(__file__).parent
        files = tuple(str(path) for path in sorted(folder.glob("*.py")))
        before = self.before.uuid() if isinstance(self.before, CustomGraphPass) else None
        if self.before is not None and before is None:
            return None
        options = f"{self.accept} {self.margin} {self.pdl}"
        extra = f"{_native.version} {options} {before!r} {torch.get_float32_matmul_precision()}"
        return get_hash_for_files(files, extra)


class Choice(NamedTuple):
    """A region that is accepted. `gain`: in microseconds, with what it makes possible after it."""

    decision: Decision
    lowered: Lowered
    region: Region
    gain: float


class _Run:
    def __init__(self, graph: Graph, accept: str, margin: float, pdl: str):
        self.graph = graph
        self.accept = accept
        self.margin = margin
        self.pdl = pdl
        self.gains: dict[Node, float] = {}
        """What a norm before a product, and before those beside it, gains where a region computes the norm's x."""
        self.told: list[Decision] = []
        self.calls: list[tuple[Node, Chain, int]] = []
        """Of each region that was taken: the operator's node, its chain and its place in `told`."""

    def run(self) -> None:
        self.row_products = RowProducts(self.graph)
        norms = Norms()
        grower = Grower(self.graph, norms)
        for product in products_of(self.graph):
            if product in grower.claimed or product.op == "erased":
                continue
            region = self._choose(grower, product)
            if region is not None:
                grower.claimed.update(region.nodes)
                norms.forget(region.nodes)
                fresh = Grower(self.graph, norms)
                fresh.claimed = grower.claimed
                grower = fresh
        self.row_products.restore(grower.claimed)
        if self.calls:
            self.graph.eliminate_dead_code()
            self._set_keys()
            self.graph.lint()
        self._report()

    def _set_keys(self) -> None:
        """The final key of each operator: only the final graph says which may start early."""
        starts, alive = EarlyStarts(self.graph), set(self.graph.nodes)
        for call, chain, place in self.calls:
            if call not in alive:  # nothing reads its results
                self.told[place] = replace(self.told[place], taken=False, reason="its results are not used")
                continue
            pdl = self.pdl == "auto" and starts.allowed(call, chain)
            form = operators.add(chain, exact=False, pdl=pdl)
            keep(form)
            call.args = (call.args[0], form.key)
            self.told[place] = replace(self.told[place], pdl=pdl)

    def _choose(self, grower: Grower, product: Node) -> Region | None:
        """The largest region that is accepted, put into the graph; else None."""
        device = product.meta["val"].device
        if _on_host(device) and self.accept != "always":
            return self._left(product, [product], "CPU tensors: the reference is no replacement for a compiled kernel")
        if not all(has_hints(node.meta["val"]) for node in (product, *product.all_input_nodes)):
            return self._left(product, [product], "a size depends on data")
        if (
            hint(product.meta["val"].shape[-1]) < LEAST
            or hint(product.args[PRODUCTS[product.target][0]].meta["val"].shape[-1]) == 1
        ):
            return self._left(product, [product], "a product with one term, or with few columns")
        if product.target in SCALED and isinstance(why := scales_of(product), str):
            return self._left(product, [product], why)
        target = cost.target_of(device)
        best, first = self._plain(grower, product, target)
        if first is None:
            return self._left(product, [product], "no chain has this product: its dtype, layout or options")
        joined, norm = self._with_norm(grower, product, best, target)
        best = joined or best
        if best is None:
            self.told.append(replace(first, norm=norm))
            return None
        self._take(best.region, best.lowered)
        self.told.append(replace(best.decision, norm=norm))
        return best.region

    def _plain(self, grower: Grower, product: Node, target: str,
               ahead: bool = True) -> tuple[Choice | None, Decision | None]:  # fmt: skip
        """The region around a product, without a norm before it; and what is said of the largest. `ahead`: it may be
        taken for a gain after it."""
        stages = _usable(grower.grow(product))
        if not stages:
            return None, None
        best, first = self._best(grower, stages, target, ahead)
        return self._beside(grower, best, stages, target) or best, first

    def _best(self, grower: Grower, stages: list[Region], target: str, ahead: bool = False,
              ready: Container[Node] = ()) -> tuple[Choice | None, Decision | None]:  # fmt: skip
        """The region of the largest gain, of equal ones the smallest, but for "always" the largest; and what is said of
        the largest."""
        if not stages:
            return None, None
        judged: list[tuple[Decision, Choice | None]] = []
        for region in _candidates(stages):
            after = self._after(grower, region, target) if ahead and self.accept != "always" else 0.0
            judged.append(self._judge(region, target, after, ready))
        taken = [choice for _, choice in judged if choice is not None]
        if not taken:
            return None, judged[0][0]
        best = taken[0] if self.accept == "always" else max(reversed(taken), key=lambda choice: choice.gain)
        return best, judged[0][0]

    def _beside(self, grower: Grower, best: Choice | None, stages: list[Region], target: str) -> Choice | None:
        """The region with further products of its left operand, where that gains more than each by itself."""
        region = grower.beside(best.region if best else stages[0])
        joined = self._best(grower, _usable(grower.stages(region)), target)[0] if region else None
        if joined is None or self.accept == "always":
            return joined
        return joined if joined.gain > self._apart(grower, best, joined.region, target) else None

    def _with_norm(self, grower: Grower, product: Node, best: Choice | None, target: str,
                   ready: Container[Node] = ()) -> tuple[Choice | None, str]:  # fmt: skip
        """The region with the norm before the product and all products of it, where that gains more than `best` and
        each other product by itself; and what is said of the norm."""
        region = grower.with_norm(product)
        if region is None:
            return None, ""
        if isinstance(region, str):
            return None, f"{_LEFT_NORM}: {region}"
        joined, first = self._best(grower, _usable(grower.stages(region)), target, ready=ready)
        if joined is None:
            return None, f"{_LEFT_NORM}: {_why_no_faster(first, target)}"
        apart = 0.0 if self.accept == "always" else self._apart(grower, best, joined.region, target)
        if self.accept == "always" or joined.gain > apart:
            return joined, "the norm before it is part of the chain"
        return None, f"{_LEFT_NORM}: with it {joined.gain:.1f} us are predicted to be saved, without {apart:.1f} us"

    def _apart(self, grower: Grower, best: Choice | None, region: Region, target: str) -> float:
        """The gain of `best` and of each other product of a region by itself, in regions that have no node twice."""
        gain = best.gain if best else 0.0
        claimed = grower.claimed
        grower.claimed = claimed | set(best.region.nodes if best else ())
        for product in dict.fromkeys(p.node for p in region.products):
            other = self._best(grower, _usable(grower.grow(product)), target)[0]
            if other is not None:
                gain += other.gain
                grower.claimed = grower.claimed | set(other.region.nodes)
        grower.claimed = claimed
        return round(gain, 2)

    def _after(self, grower: Grower, region: Region, target: str) -> float:
        """What regions after this one gain by a norm of its results, which Inductor computes with the results else."""
        gain = 0.0
        for x in (view for output in region.outputs() for view in region.views(output)):
            norm = grower.norms_of.get(x)
            if norm is None or not region.nodes.keys().isdisjoint(norm.products) or is_alone(x, self.row_products):
                continue
            product = norm.products[0]
            if product not in self.gains:
                best, _ = self._plain(grower, product, target, ahead=False)
                joined, _ = self._with_norm(grower, product, best, target, ready={x})
                apart = self._apart(grower, best, joined.region, target) if joined else 0.0
                self.gains[product] = joined.gain - apart if joined else 0.0
            gain += self.gains[product]
        return gain

    def _judge(self, region: Region, target: str, after: float,
               ready: Container[Node]) -> tuple[Decision, Choice | None]:  # fmt: skip
        """`after`: what other regions gain by this one."""
        products = tuple(dict.fromkeys(p.node.name for p in region.products))
        nodes = tuple(node.name for node in region.nodes)

        def decide(taken: bool, reason: str, ours: Any = None, theirs: Any = None, text: str = "") -> Decision:
            return Decision(taken, reason, products, nodes, ours, theirs, text)

        try:
            lowered = lower(region, region.outputs())
            text = lowered.chain.text
            static = lower(region, region.outputs(), static=True).chain.text if lowered.symbolic else text
        except (Mismatch, Error) as error:
            reason = str(error) or "its dimensions, strides or symbols are not those of one chain"
            return decide(False, reason), None
        ours = cost.predicted_us(static, target)
        if ours == float("inf"):
            return decide(False, f"no kernel for {target} has the chain", text=text), None
        theirs = replaced_us(region, target, self.row_products, ready)
        gain = round(theirs + after - ours, 2)
        if self.accept != "always" and ours * self.margin >= theirs + after:
            return decide(False, "predicted not to be faster", ours, theirs, text), None
        reason = "predicted to be faster" if ours < theirs else "asked for"
        if self.accept != "always" and ours * self.margin >= theirs:
            reason = "predicted to be faster with the norm after it"
        decision = decide(True, reason, ours, theirs, text)
        return decision, Choice(decision, lowered, region, gain)

    def _take(self, region: Region, lowered: Lowered) -> None:
        """Puts the chain into the graph. The graph is sorted here, since regions grow only in sorted graphs. The
        operator may come after a user of its output."""
        from torch._inductor.pattern_matcher import stable_topological_sort

        key = operators.add(lowered.chain, exact=False).key
        call = insert(self.graph, lowered, key, region, _fake)
        self.calls.append((call, lowered.chain, len(self.told)))
        stable_topological_sort(self.graph)

    def _left(self, product: Node, nodes: list[Node], reason: str) -> None:
        self.told.append(Decision(False, reason, (product.name,), tuple(n.name for n in nodes), None, None, ""))

    def _report(self) -> None:
        for decision in self.told:
            decisions.append(decision)
            logger.info("%s", decision)
            if decision.chain:
                logger.debug("%s", decision.chain)


_LEFT_NORM = "the norm before it stays with Inductor"


def _why_no_faster(judged: Decision | None, target: str) -> str:
    """Of a region with a norm that is not accepted: its predicted time, and why the norm has kernels of its own."""
    if judged is None:
        return f"an operator returns at most {operators.MOST_OUTPUTS} values"
    if judged.predicted_us is None:
        return judged.reason
    apart = cost.kept_apart(judged.chain, target)
    times = f"{judged.predicted_us:.1f} us are predicted with it, for {judged.replaced_us:.1f} us"
    return f"{times}; {apart}" if apart else times


def _on_host(device: torch.device) -> bool:
    return device.type == "cpu"


def _usable(stages: list[Region]) -> list[Region]:
    """The regions whose outputs an operator can return."""
    return [region for region in stages if 0 < len(region.outputs()) <= operators.MOST_OUTPUTS]


def _candidates(stages: list[Region]) -> list[Region]:
    """At most six regions, the largest first. The last node of each computes; the last region is the product only."""
    ends = [stage for stage in stages[1:] if next(reversed(stage.nodes)).target in POINTWISE]
    return [*ends[::-1][:5], stages[0]]


def _fake(target: Callable[..., Any], arguments: Any) -> Any:
    return target(*arguments)
