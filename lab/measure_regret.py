"""How much the tuner loses: `python -m lab.measure_regret [SPACE...] -o FILE`.

Each space of regret.py is measured exhaustively, in random order, and tuned with a few
measurements: the virtual GPU ranks all points, successive halving measures the first of them. Both
winners are measured again by turns, on fresh seeds: the regret is the difference. FILE is written
as it goes; given again, what it holds is not measured again. `--document FILE...` prints the table,
`--join FILE...` writes what all of them know to FILE.
While the GPU measures, this machine's cores build and rank the next space. `--rank GPU` ranks only,
for that GPU and without one: FILE then goes to a machine that has it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from astra_chat.tools.build.nvcc import build_all
from astra_chat.tools.check.hidden_cases import Weighted, reseeded
from astra_chat.tools.entropy import Entropy
from astra_chat.tools.judge import CASE_LISTS, Judge
from astra_chat.tools.system.devices import pick_device, virtual_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task, find_task
from astra_chat.tools.timing.intervals import mean
from astra_chat.tools.tuning.halving import halved
from astra_chat.tools.tuning.ranking import estimated_ratios
from astra_chat.tools.types import AnyTime, Outcome, candidate_id
from astra_vgpu.ground.errors import AstraError, BadInput
from lab.commands import one_line_errors
from lab.regret import (
    SPACES,
    SpaceStudy,
    StudiedPoint,
    document,
    joined,
    read,
    space_of,
    study_of,
    write,
)

REPEATS = 3
"""Measurements of each winner on fresh seeds."""
HALVED = 2
"""Measurements of the tuner for each that it begins with: half of them go on, and half of those."""
SAVED_EVERY = 10
"""Points between two writes of the file."""


@dataclass
class Study:
    """One command's work, up to its deadline."""

    out: Path
    device: str
    cases: str
    points: int
    measurements: int
    deadline: float
    """When the time budget ends, in seconds of time.monotonic()."""
    entropy: Entropy
    trust: bool = False
    found: dict[str, SpaceStudy] = field(default_factory=dict)

    def __post_init__(self) -> None:
        spaces = read(self.out).spaces if self.out.exists() else ()
        self.found = {one.space: one for one in spaces}
        if len(self.found) < len(spaces):
            raise BadInput(
                f"{self.out} has results of several devices: use a file of a single device"
            )

    def weighted(self, task: Task) -> Weighted:
        """The cases that are timed."""
        cases: Weighted = getattr(task, self.cases)
        return cases

    def known(self, name: str) -> tuple[SpaceStudy, list[str]]:
        """What is known of a space, its points at least, and their sources. Raises BadInput where
        FILE is of other cases or points."""
        space, task = space_of(name), find_task(name.partition("/")[0])
        points = space.drawn(self.points, self.entropy.cases.of("points", name).random())
        sources = [space.at(point) for point in points]
        studied = tuple(
            StudiedPoint(values=dict(point), candidate=candidate_id(source))
            for point, source in zip(points, sources, strict=True)
        )
        labels = tuple(case.label for case, _ in self.weighted(task))
        new = SpaceStudy(space=name, cases=labels, measurements=self.measurements, points=studied)
        found = self.found.get(name, new)
        if found.of != new.of:
            raise BadInput(f"{self.out} has results for other cases or points: use another file")
        return found, sources

    def rank(self, names: Sequence[str], gpu: str) -> None:
        """Rank these spaces for a GPU, of which this machine needs none. Raises BadInput."""
        for name in names:
            now, sources = self.known(name)
            if not now.ranked:
                task = find_task(name.partition("/")[0])
                ranks = estimated_ratios(
                    task,
                    virtual_device(gpu),
                    task.baseline,
                    sources,
                    self.weighted(task),
                    self.entropy.cases.of("ranking"),
                    Stop(),
                )
                self.keep(now.with_ranks(ranks))
                _say(f"{name}: {len(sources)} points ranked")

    def run(self, names: Sequence[str]) -> None:
        """Study these spaces one after the other, as far as there is time. Raises BadInput where
        FILE is of another device, of other cases or points."""
        open_spaces = [n for n in names if n not in self.found or not self.found[n].done]
        with ThreadPoolExecutor(1) as beside:
            ahead = [_Space(self, name, beside) for name in open_spaces]
            try:
                for one in ahead:
                    one.study()
            finally:
                for one in ahead:
                    one.give_up()

    def keep(self, one: SpaceStudy) -> None:
        """Write what is known so far."""
        self.found[one.space] = one
        write(study_of(self.found.values()), self.out)

    def left_s(self) -> float:
        return self.deadline - time.monotonic()


class _Space:
    """One space: built and ranked beside others' measurements, then measured."""

    def __init__(self, study: Study, name: str, beside: ThreadPoolExecutor) -> None:
        self._study, self._name = study, name
        known, self._sources = study.known(name)
        self.judge = Judge(
            find_task(name.partition("/")[0]),
            pick_device(study.device),
            cases=study.cases,
            trust=study.trust,
            entropy=study.entropy,
        )
        device = self.judge.device
        if known.device not in ("", device.name):
            raise BadInput(f"{study.out} has results of another device: use another file")
        basis = "measured" if device.kind == "cuda" else "estimated"
        self._now = known.model_copy(update={"device": device.name, "basis": basis})
        self._built = beside.submit(self._build)
        self._ranks: Future[list[float | str]] | None = None
        if not known.ranked:
            self._ranks = beside.submit(self._rank)

    def _build(self) -> None:
        build_all(self.judge.task, self._sources, self.judge.device, self.judge.stop)

    def _rank(self) -> list[float | str]:
        judge = self.judge
        return estimated_ratios(
            judge.task,
            virtual_device(judge.device.spec),
            judge.baseline,
            self._sources,
            judge.weighted,
            judge.entropy.cases.of("ranking"),
            judge.stop,
        )

    def give_up(self) -> None:
        self._built.cancel()
        if self._ranks is not None:
            self._ranks.cancel()
        self.judge.close()

    def study(self) -> None:
        """Measure, tune, and measure both winners again; a fault of one space is kept with it."""
        parts = {"exhaustive": self._exhaustive, "tuner": self._tuner, "again": self._again}
        try:
            for name, work in parts.items():
                if self._study.left_s() <= 0:
                    break
                self._built.result()
                self._part(name, work)
        except AstraError as error:
            self._keep(problem=str(error).splitlines()[0])
        _say(f"{self._name}: {document([self._now]).splitlines()[-1]}")

    def _part(self, name: str, work: Callable[[], None]) -> None:
        began = time.monotonic()
        work()
        spent = self._now.seconds.get(name, 0.0) + time.monotonic() - began
        self._keep(seconds={**self._now.seconds, name: round(spent, 1)})

    def _keep(self, **changes: object) -> None:
        self._now = self._now.model_copy(update=changes)
        self._study.keep(self._now)

    def _exhaustive(self) -> None:
        """All points in random order, while there is time for the rest."""
        points = list(self._now.points)
        order = [place for place, point in enumerate(points) if not point.known]
        self._study.entropy.cases.of("order", self._name).random().shuffle(order)
        spent = list[float]()
        for done, place in enumerate(order):
            each_s = statistics.median(spent[1:] or [0.0])  # the first waits for what all need
            if self._study.left_s() < each_s * (HALVED * self._study.measurements + 2 * REPEATS):
                break
            began = time.monotonic()
            ratio = self._ratio(self.judge.time(self._sources[place], self.judge.weighted))
            points[place] = points[place].model_copy(update=ratio)
            spent.append(time.monotonic() - began)
            if done % SAVED_EVERY == 0:
                self._keep(points=tuple(points))
                _say(f"{self._name}: {done} of {len(order)} measured, {each_s:.1f} s each")
        self._keep(points=tuple(points))

    def _ratio(self, found: list[AnyTime] | Outcome) -> dict[str, float | str]:
        if not isinstance(found, list):
            return {"failed": found.kind}
        return {"measured": mean([(one.ratio, one.weight) for one in found])}

    def _tuner(self) -> None:
        """The ranking decides what is measured; the exhaustive measurement is not looked at. What
        an earlier command chose stays."""
        if self._now.halving is not None:
            return
        if self._ranks is not None:
            self._now = self._now.with_ranks(self._ranks.result())
        good = {n: p.estimated for n, p in enumerate(self._now.points) if p.estimated is not None}
        first = sorted(good, key=lambda place: (-good[place], place))[: self._now.measurements]
        halving = halved(
            self.judge.task,
            self.judge.time,
            [self._sources[p] for p in first],
            self.judge.weighted,
            kept=1,
        )
        self._keep(halving=halving)

    def _again(self) -> None:
        if not self._now.measured or not self._now.halving or not self._now.halving.left:
            raise BadInput(f"no point of {self._name} could be measured")
        by_name = {candidate_id(source): source for source in self._sources}
        winners = [by_name[one.candidate] for one in (self._now.best, self._now.chosen)]
        again = list[tuple[float, float]]()
        repeats = 1 if winners[0] == winners[1] else REPEATS
        for number in range(repeats):
            fresh = reseeded(self.judge.weighted, self.judge.entropy.cases.of("again", number))
            ratios = [self._ratio(self.judge.time(source, fresh)) for source in winners]
            if any("failed" in one for one in ratios):
                raise BadInput(f"a winner of {self._name} failed on fresh seeds: {ratios}")
            again.append((float(ratios[0]["measured"]), float(ratios[1]["measured"])))
        self._keep(again=tuple(again), problem="")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@one_line_errors()
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.measure_regret")
    parser.add_argument("spaces", nargs="*", metavar="SPACE", help=f"of {', '.join(SPACES)}")
    parser.add_argument("-o", "--out", type=Path, help="default: regret.json, except with --join")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--cases", choices=CASE_LISTS, default="demo")
    parser.add_argument(
        "--points", type=int, default=300, help="maximum number of points per space"
    )
    parser.add_argument(
        "--measurements", type=int, default=16, help="points that the tuner measures"
    )
    parser.add_argument("--budget-s", type=float, default=460.0)
    parser.add_argument("--seed", default="1")
    parser.add_argument(
        "--trust", action="store_true", help="run kernels even if they cannot be isolated"
    )
    parser.add_argument("--rank", metavar="GPU", help="rank only, for this GPU")
    parser.add_argument("--document", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--join", nargs="+", type=Path, metavar="FILE")
    given = parser.parse_args()
    if given.document:
        print(document(joined(map(read, given.document)).spaces))
        return
    if given.join:
        if given.out is None:
            parser.error("--join needs -o FILE")
        write(joined(map(read, given.join)), given.out)
        return
    out = given.out or Path("regret.json")
    deadline = time.monotonic() + given.budget_s
    study = Study(
        out,
        given.device,
        given.cases,
        given.points,
        given.measurements,
        deadline,
        Entropy(given.seed),
        given.trust,
    )
    if given.rank:
        study.rank(given.spaces or list(SPACES), given.rank)
        return
    study.run(given.spaces or list(SPACES))
    print(document(list(study.found.values())))


if __name__ == "__main__":
    main()
