"""The winner of a run, judged again on this machine, and its figures compared.

On the virtual GPU everything repeats exactly, since the evaluation's seed draws the same again. On
a GPU times are compared as `replay --rejudge` does: of another day or machine they may be a
quarter apart.
"""

from __future__ import annotations

from astra_chat.replay.rejudge import times_agree
from astra_chat.tools.descriptions import describe, verdict
from astra_chat.tools.entropy import Entropy
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.ranks.judge import judge_of
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.types import Device, Timed
from astra_chat.transcript.recorded_cases import require_bounded_cases
from astra_chat.transcript.recorded_task import require_hashes
from astra_chat.verify.claims import Claim, claim, unchecked
from astra_chat.verify.recorded import Run
from astra_vgpu.ground.errors import BadInput

VERDICT_AGAIN, REPEATS = "the winner's verdict is reproduced", "the winner's times are reproduced"


def measured_again(run: Run, device: str, trust: bool) -> list[Claim]:
    """Claims about the winner; none where the run has none. `device`: empty for the recorded kind.

    Raises BadInput where a text is not the one that its hash names, and what the judge raises.
    """
    best = run.state.best
    if best is None:
        return []
    if run.task is None:
        raise BadInput(f"{run.transcript.path}: {run.broken_task}")
    require_hashes(run.transcript)
    then, options = best[0], run.transcript.options
    chosen = _device(then.device, device)
    require_bounded_cases(run.transcript, run.task, chosen.kind, trust)
    with judge_of(
        run.task,
        chosen,
        tier=options.tier,
        cases=options.cases,
        trust=trust,
        entropy=Entropy(then.seed or None),
    ) as judge:
        extra = [case for case in run.state.extra_cases if case not in run.task.check]
        source = run.state.sources[then.candidate]
        now = judge.evaluate(source, extra, fresh_seeds=then.confirms)
    return compared(then, now)


def compared(then: Evaluation, now: Evaluation) -> list[Claim]:
    """What was recorded of a candidate, beside what was found again."""
    name = then.candidate
    why = f"now: {describe(now.outcome)}"
    same_kind = then.device.kind == now.device.kind
    if not same_kind and isinstance(now.outcome, Timed):
        other = unchecked(
            VERDICT_AGAIN, name, f"{now.device.name} uses a different rule for the verdict"
        )
    else:
        other = claim(VERDICT_AGAIN, name, verdict(then.outcome) == verdict(now.outcome), why)
    return [other, _times(then, now, why)]


def _times(then: Evaluation, now: Evaluation, why: str) -> Claim:
    if then.device.name != now.device.name:
        return unchecked(
            REPEATS, then.candidate, f"recorded on {then.device.name}, not on {now.device.name}"
        )
    if not isinstance(then.outcome, Timed) or not isinstance(now.outcome, Timed):
        return claim(REPEATS, then.candidate, False, why)
    if then.device.kind == "virtual" and _same_judge(then, now):
        return claim(REPEATS, then.candidate, then.outcome.cases == now.outcome.cases, why)
    return claim(REPEATS, then.candidate, times_agree(then.outcome, now.outcome), why)


def _same_judge(then: Evaluation, now: Evaluation) -> bool:
    return (
        then.evidence is not None
        and now.evidence is not None
        and then.evidence.judge_sha256 == now.evidence.judge_sha256
    )


def _device(then: Device, wanted: str) -> Device:
    """Raises BadInput or MissingDependency where this machine has no such device."""
    name = wanted or then.kind
    return pick_device(name, then.spec if name == "virtual" else None)
