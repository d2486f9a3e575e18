"""The modules of a model as a tree by time: sums, the one that is slower than its like, changes."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.contracts import Layer, Layers

SLOWER = 0.25
"""By this share a module must exceed the median of its siblings to be named; or by `OF_NOISE`."""
OF_NOISE = 2.0
"""Ranges between the steps by which it must exceed them as well."""


@dataclass(slots=True)
class ModuleNode:
    """A module with the sums over itself and all modules within it."""

    own: Layer
    parent: str | None
    """The nearest module around it; None at the top."""
    label: str
    """Its name without that of its parent."""
    forward_s: float = 0.0
    backward_s: float = 0.0
    flops: float = 0.0
    kept_b: int = 0
    weights_b: int = 0
    within: list[ModuleNode] = field(default_factory=list)

    @property
    def s(self) -> float:
        """Device seconds, forward and backward."""
        return self.forward_s + self.backward_s

    def add(self, layer: Layer) -> None:
        """Count ``layer``, which is this module or one within it."""
        self.forward_s += layer.forward_s
        self.backward_s += layer.backward_s
        self.flops += layer.flops
        self.kept_b += layer.kept_b
        self.weights_b += layer.weights_b


@dataclass(frozen=True, slots=True)
class OddModule:
    """A module that is slower than the others of its kind beside it."""

    name: str
    times: float
    """Its seconds over the median of its siblings'."""
    siblings: int
    flops: float | None
    """Its FLOPs over theirs; None where none were counted."""

    @property
    def sentence(self) -> str:
        """Say so in one sentence."""
        said = f"{self.name} takes {self.times:.1f} times as long as its {self.siblings} siblings"
        if self.flops is None:
            return f"{said}."
        same = 0.99 < self.flops < 1.01
        return f"{said}, for {'the same' if same else f'{self.flops:.1f} times their'} FLOPs."


@dataclass(frozen=True, slots=True)
class ModuleChange:
    """The own work of one module in two runs; None where a run has no such module."""

    name: str
    class_name: str
    baseline: Layer | None
    contender: Layer | None

    @property
    def seconds(self) -> float:
        """By how much the contender is slower."""
        return own_s(self.contender) - own_s(self.baseline)


def own_s(layer: Layer | None) -> float:
    """Device seconds of a module's own work; 0 without one."""
    return layer.forward_s + layer.backward_s if layer else 0.0


def step_s(layers: Layers) -> float:
    """Device seconds of the whole step."""
    return layers.outside_s + sum(own_s(layer) for layer in layers.modules)


def tree(layers: Layers) -> dict[str, ModuleNode]:
    """Return each module by its name, in the model's order, with the sums over what it holds."""
    own = {layer.name: layer for layer in layers.modules}
    nodes: dict[str, ModuleNode] = {}
    for name, layer in own.items():
        parent = next(_around(name, own), None)
        label = name.removeprefix(parent + ".") if parent else name
        nodes[name] = ModuleNode(layer, parent, label)
    for name, node in nodes.items():
        if node.parent is not None:
            nodes[node.parent].within.append(node)
        for holder in (name, *_around(name, own)):
            nodes[holder].add(node.own)
    return nodes


def _around(name: str, known: Mapping[str, Layer]) -> Iterator[str]:
    """The modules around one, the nearest first; names of lists are passed over."""
    while name:
        name = name.rpartition(".")[0]
        if name in known:
            yield name


def odd_one(layers: Layers) -> OddModule | None:
    """Return the module that loses the most time against its siblings; None if there is none.

    Siblings lie in the same module, are of the same class, and have weights of the same size. Most
    of them do the same arithmetic and none more: a model whose blocks differ by design names none,
    and a first block may lack the gradient of its input.
    """
    least = 1 + max(SLOWER, OF_NOISE * layers.noise)
    alike: dict[tuple[str | None, str, int], list[ModuleNode]] = defaultdict(list)
    for node in tree(layers).values():
        alike[node.parent, node.own.class_name, node.weights_b].append(node)
    odd = [one for group in alike.values() if len(group) > 2 and (one := _odd_one_of(group, least))]
    return max(odd, key=lambda pair: pair[0])[1] if odd else None


def _odd_one_of(group: Sequence[ModuleNode], least: float) -> tuple[float, OddModule] | None:
    """The slowest of a group, with its seconds over the others' median."""
    *others, slowest = sorted(group, key=lambda node: node.s)
    flops = max(node.flops for node in others)
    usual = [node.s for node in others if node.flops == flops]
    usual_s = statistics.median(usual)
    if 2 * len(usual) <= len(others) or not slowest.s > least * usual_s > 0:
        return None
    ratio = slowest.flops / flops if flops else None
    odd = OddModule(slowest.own.name, slowest.s / usual_s, len(usual), ratio)
    return slowest.s - usual_s, odd


def changes(baseline: Layers, contender: Layers) -> list[ModuleChange]:
    """Return each module that works in either run, the largest difference of own time first."""
    before = {layer.name: layer for layer in baseline.modules}
    after = {layer.name: layer for layer in contender.modules}
    both = [
        ModuleChange(name, (after.get(name) or before[name]).class_name, *sides)
        for name in {**after, **before}
        if any(map(own_s, sides := (before.get(name), after.get(name))))
    ]
    return sorted(both, key=lambda one: -abs(one.seconds))
