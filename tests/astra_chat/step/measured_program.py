"""A step of three operators that takes made-up times, measured: run with a request by
test_inside.py."""

import json
import sys
from collections import Counter

import torch
from astra_step import measuring


class Counters:
    """Counts as the package has them."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str, str]] = Counter()

    def totals(self) -> dict[tuple[str, str, str], int]:
        return dict(self.counts)


class Winners:
    """Three operators: the step calls two, and the winner of one refuses calls."""

    COUNTERS = Counters()

    def __init__(self) -> None:
        self.on: list[str] = []
        self.called: list[dict[str, object]] = []

    def switch(self, names: list[str]) -> None:
        self.on = list(names)

    def off(self, name: str) -> str:
        return ""

    def calls(self):
        found, self.called = {name: self.called for name in self.on if self.called}, []
        return found


winners = Winners()


class Step:
    def facts(self):
        return {"norm": "one of this test"}

    def capture(self, finished):
        for batch in (8, 1):
            winners.called = [{"dtype": "bfloat16", "dims": {"tokens": batch, "d": 64}}]
            finished(batch)
        for name in set(winners.on) & {"silu", "norm"}:
            winners.COUNTERS.counts[name, "took", ""] += 3
        if "norm" in winners.on:
            winners.COUNTERS.counts["norm", "fell back", "no rows"] += 1
        if winners.on == ["norm"]:
            raise RuntimeError("misaligned address\nand more")
        return list(winners.on)

    def run(self, captured, batch):
        assert captured == winners.on
        for place in range(3):
            yield torch.full((batch, 5), 1.0 + place) + 0.01 * len(captured)

    def graph(self, captured, batch):
        return captured

    def reference(self, batch):
        return [torch.full((batch, 5), 1.1 + place) for place in range(3)]


measuring._timer = lambda graph: lambda replays: 1000.0 - 40 * len(graph)
measuring._kernels = lambda graph: {f"{name}_kernel": (6, 9.0) for name in graph}
request = json.loads(sys.argv[1])
found = []
measuring.measure(
    Step(), {**request, "operators": ["norm", "silu", "unused"]}, winners, found.append
)
print(json.dumps(found[-1]), file=sys.stderr)
