"""The cards of a recorded run: its winner's plans, and the plans that failed, where the winner was
confirmed on fresh seeds. Other runs have none."""

from __future__ import annotations

import math
from pathlib import Path

from astra_chat.agents.evaluations import profile_of
from astra_chat.agents.memory_cards import MemoryCard, TaskClass
from astra_chat.agents.rounds import Round
from astra_chat.agents.run_state import state_of
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.language import language_of
from astra_chat.tools.task.folder import Task
from astra_chat.tools.timing.intervals import mean_interval
from astra_chat.tools.types import Timed, candidate_id
from astra_chat.transcript.reader import read
from astra_chat.transcript.recorded_task import task_of
from astra_chat.transcript.summary import RoundSummary, RunSummary, Speed, Timing, summarize
from astra_chat.transcript.turns import turns_of
from astra_vgpu.ground.errors import BadInput

OPERATIONS_PER_BYTE = 8.0
"""From here on a task counts as a matrix product: the other shipped tasks have below two."""
SMALLER = 0.25
"""Results of at most this share of the bytes read make a reduction."""


def cards_of(path: Path) -> list[MemoryCard]:
    """Raises BadInput where the run has no confirmed winner."""
    transcript = read(path)
    summary = summarize(transcript.records)
    best = summary.best
    if best is None or not best.confirmed:
        raise BadInput(f"{path}: no confirmed winner: a memory file accepts only confirmed results")
    with task_of(transcript, None) as task:
        kind = task_class(task)
    rounds = state_of(turns_of(transcript.records)).rounds
    chain = _chain(summary, best.candidate)
    cards = (
        _card(round_, said, summary, best, kind, kept=said.number in chain)
        for round_, said in zip(rounds, summary.rounds, strict=True)
    )
    return [card for card in cards if card is not None]


def task_class(task: Task) -> TaskClass:
    """What a task is like, by its contract and its heaviest timed case."""
    case = max(task.bench, key=lambda timed: timed[1])[0]
    if task.flops_of(case) > OPERATIONS_PER_BYTE * task.least_bytes(case):
        return "matrix_product"
    if any(arg.index is not None for arg in task.args):
        return "indexed"
    read_ = sum(arg.bytes_of(case) for arg in task.args if arg.read and not arg.weight)
    written = sum(arg.bytes_of(case) for arg in task.args if arg.written)
    return "reduction" if written <= SMALLER * read_ else "elementwise"


def _chain(summary: RunSummary, winner: str) -> set[int]:
    """Rounds of the plans that lead from the baseline to the winner."""
    made = {a.candidate: one for one in summary.rounds for a in one.attempts}
    found, candidate = set[int](), winner
    while (one := made.get(candidate)) is not None and one.number not in found:
        found.add(one.number)
        candidate = one.parent
    return found


def _card(
    round_: Round,
    said: RoundSummary,
    summary: RunSummary,
    best: Timing,
    kind: TaskClass,
    kept: bool,
) -> MemoryCard | None:
    """None for a plan that was faster without leading to the winner, or was never judged."""
    attempts = [attempt for attempt in said.attempts if attempt.verdict is not None]
    fastest = max((a for a in attempts if a.speed), key=lambda a: a.ratio or 0.0, default=None)
    profile = profile_of(round_.parent)
    if not attempts or profile is None or (not kept and fastest and fastest.verdict == "accepted"):
        return None
    speed = fastest.speed if fastest else None
    found = _over(speed, round_.parent) if speed else (None, None, None)
    name, sources = (fastest or attempts[-1]).candidate, [a.kernel.source for a in round_.attempts]
    return MemoryCard(
        technique=round_.plan.title[:2000],
        change=round_.plan.change[:2000],
        outcome="kept" if kept else "failed",
        why="" if kept else (fastest or attempts[-1]).words[:2000],
        task=summary.task,
        task_class=kind,
        bottleneck=profile.bottleneck,
        predicted=round_.plan.predicted_ratio,
        found=found[0],
        low=found[1],
        high=found[2],
        confirmed=round(best.ratio, 4),
        confirmed_low=round(best.low, 4),
        confirmed_high=round(best.high, 4),
        basis=best.basis,
        gpu=summary.device.name,
        language=language_of(next((s for s in sources if candidate_id(s) == name), "")),
        runs=(summary.run,),
    )


def _over(speed: Speed, parent: Evaluation | None) -> tuple[float, float, float]:
    """Speed over the parent, with the interval that both leave, in quadrature."""
    before = parent.outcome if parent is not None else None
    assert isinstance(before, Timed), "a parent that has a profile was timed"
    low, high = mean_interval(before.cases)
    below = math.hypot(math.log(speed.ratio / speed.low), math.log(before.ratio / low))
    above = math.hypot(math.log(speed.high / speed.ratio), math.log(high / before.ratio))
    ratio = speed.ratio / before.ratio
    return round(ratio, 4), round(ratio * math.exp(-below), 4), round(ratio * math.exp(above), 4)
