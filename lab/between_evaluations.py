"""How far ratios of an unchanged kernel lie apart from one evaluation to the next:
`python -m lab.between_evaluations FILE...`.

FILE is the transcript of a run that was judged on a GPU. Of two candidates of a run, a case is
taken for unchanged where both launch the same functions on the same grids, with as many registers
and warp instructions: code that differs in neither may still differ, so this is an upper bound.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from pathlib import Path

from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.profiling.metrics import INSTRUCTIONS, profile_on
from astra_chat.tools.types import CaseTime, Timed
from astra_chat.transcript.reader import read
from astra_chat.transcript.turns import evaluations_of
from astra_vgpu.ground.errors import BadInput
from lab.commands import print_document
from lab.result_tables import table_row

FEWEST_CASES = 4
"""Unchanged cases that a pair of evaluations needs for its mean to count."""
Difference = tuple[float, float]
"""Difference of the logarithms of two ratios, and the half width of both intervals in
quadrature."""


def document(paths: Iterable[Path]) -> str:
    """Returns the table of the runs' differences. Raises BadInput where no two evaluations have an
    unchanged case."""
    lines = [table_row("run", "candidates", "unchanged cases", "mean", "standard deviation")]
    lines.append(table_row(*["---"] * 5))
    every, means = list[Difference](), list[float]()
    for path in paths:
        found = evaluations_of(read(path).records)
        for (first, one), (second, other) in combinations(enumerate(found), 2):
            apart = differences(one, other) if first else []  # the first is the baseline
            every += apart
            if len(apart) >= FEWEST_CASES:
                logs = [log for log, _ in apart]
                means.append(statistics.mean(logs))
                lines.append(
                    table_row(
                        path.name.split(".")[0],
                        f"{first}, {second}",
                        f"{len(logs)}",
                        f"{means[-1]:+.2%}",
                        f"{statistics.stdev(logs):.2%}",
                    )
                )
    if not means:
        raise BadInput("no two evaluations of these runs have unchanged cases in common")
    return "\n".join([*lines, "", *_summary(every, means)])


def _summary(every: Sequence[Difference], means: Sequence[float]) -> Iterator[str]:
    sizes = sorted(abs(log) for log, _ in every)
    middle, most = statistics.median(sizes), sizes[int(0.9 * len(sizes))]
    beyond = sum(abs(log) > half for log, half in every) / len(every)
    yield (
        f"{len(every)} cases: half of them within {middle:.2%}, nine of ten within {most:.2%};"
        f" {beyond:.0%} are beyond their intervals."
    )
    square = math.sqrt(statistics.mean(mean**2 for mean in means))
    yield (
        f"Means of {len(means)} pairs of evaluations: median"
        f" {statistics.median(map(abs, means)):.2%}, root mean square {square:.2%}, maximum"
        f" {max(map(abs, means)):.2%}."
    )


def differences(one: Evaluation, other: Evaluation) -> list[Difference]:
    """Returns the differences of the cases that both evaluations time with the same code, as far as
    their profiles tell."""
    seen = {case.case.label: (code, case) for code, case in _cases(one)}
    found = list[Difference]()
    for code, case in _cases(other):
        before, was = seen.get(case.case.label, (None, case))
        if code == before:
            half = math.hypot(*(math.log(c.ratio_high / c.ratio_low) / 2 for c in (case, was)))
            found.append((math.log(case.ratio / was.ratio), half))
    return found


def _cases(evaluation: Evaluation) -> Iterator[tuple[tuple[object, ...], CaseTime]]:
    """Timed cases with what tells their code."""
    outcome, evidence = evaluation.outcome, evaluation.evidence
    if not isinstance(outcome, Timed) or outcome.basis != "measured" or evidence is None:
        return
    launches = {plan.case.label: plan.launches for plan in evidence.plans}
    for case in outcome.cases:
        profile = profile_on(outcome, case.case)
        named = {m.name: m.value for m in profile.metrics} if profile else {}
        registers = named.get("launch__registers_per_thread")
        if INSTRUCTIONS in named:
            yield (launches.get(case.case.label), registers, named[INSTRUCTIONS]), case


def main() -> None:
    print_document(document)


if __name__ == "__main__":
    main()
