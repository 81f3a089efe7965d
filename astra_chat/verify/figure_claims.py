"""Claims about figures: raw samples, ratios and intervals, limits, verdicts, errors."""

from __future__ import annotations

from collections.abc import Iterator

from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.timing.gpu_samples import contract_limit_us, time_of
from astra_chat.tools.timing.raw_samples import unpack
from astra_chat.tools.timing.verdict import judge_times
from astra_chat.tools.types import AnyTime, Correct, MeasuredTime, Timed
from astra_chat.verify.claims import NO_SAMPLES, Claim, claim, differences, unchecked
from astra_chat.verify.recorded import Run, about
from astra_vgpu.ground.errors import BadInput

SAMPLES, RATIOS = "figures follow from the samples", "ratios fit their times"
LIMITS, VERDICT = "limits follow from the contract", "the verdict follows from the cases"
ERRORS, STEPS, BASIS = "errors are within tolerance", "all required steps ran", "measured or"
" estimated"
LATER = {"profiled_us", "baseline_profiled_us", "launches", "baseline_launches", "raw", "note"}
"""Fields that are added after the samples; `note` may grow."""


def figure_claims(run: Run) -> Iterator[Claim]:
    """Every claim about a figure of an evaluation."""
    for turn, evaluation in run.evaluations:
        where = about(turn, evaluation)
        yield from _errors(evaluation, where)
        timed = evaluation.outcome
        if not isinstance(timed, Timed):
            continue
        yield _basis(evaluation, timed, where)
        yield _steps(evaluation, where)
        yield _verdict(evaluation, timed, where)
        for time in timed.cases:
            case = f"{where}, {time.case.label}"
            yield _ratio(time, case)
            yield _limit(run, evaluation, time, case)
            if isinstance(time, MeasuredTime):
                yield _samples(time, case)


def _basis(evaluation: Evaluation, timed: Timed, where: str) -> Claim:
    """A virtual GPU estimates, a real one measures, and no mean mixes the two."""
    basis = "estimated" if evaluation.device.kind == "virtual" else "measured"
    found = {timed.profile.basis, *(case.basis for case in timed.cases)}
    counted = {"measured", "estimated"} if basis == "measured" else {basis}  # profile by counters
    holds = {case.basis for case in timed.cases} == {basis} and found <= counted
    named = timed.profile.case in [case.case for case in timed.cases]
    return claim(
        BASIS,
        where,
        holds and named,
        f"figures of {evaluation.device.name} are {' and '.join(sorted(found))}",
    )


def _steps(evaluation: Evaluation, where: str) -> Claim:
    names = {step.name for step in evaluation.steps}
    wanted = {"guard", "build", "check", "time", "profile"}
    if evaluation.confirms and evaluation.device.kind == "cuda":
        wanted.add("sanitize")
    missing = sorted(wanted - names)
    return claim(STEPS, where, not missing, f"without {', '.join(missing)}")


def _errors(evaluation: Evaluation, where: str) -> Iterator[Claim]:
    outcome = evaluation.outcome
    correct = outcome.correct if isinstance(outcome, Timed) else outcome
    if not isinstance(correct, Correct):
        return
    record = evaluation.check.worst_error if evaluation.check else None
    over = record is not None and not record.candidate_ulps <= record.limit_ulps
    holds = correct.worst <= 1 and not over
    yield claim(
        ERRORS, where, holds, f"the worst error is {correct.worst:.3g} times the allowed one"
    )


def _verdict(evaluation: Evaluation, timed: Timed, where: str) -> Claim:
    """The weighted mean is arithmetic. The rule may change with the judge's version."""
    try:
        ratio, verdict, why = judge_times(timed.cases)
    except (ArithmeticError, ValueError) as error:
        return claim(VERDICT, where, False, f"the cases have no mean: {error}")
    if wrong := differences([("ratio", timed.ratio, ratio)]):
        return claim(VERDICT, where, False, wrong)
    wrong = differences([("verdict", timed.verdict, verdict), ("reason", timed.why, why)])
    if wrong and evaluation.evidence is None:
        return unchecked(VERDICT, where, f"follows an older rule: {wrong}")
    return claim(VERDICT, where, not wrong, wrong)


def _ratio(time: AnyTime, where: str) -> Claim:
    """Returns the claim that a case's ratio and percent of the limit agree with its times: the
    ratio of an estimate is that of the two times; of a measurement a median of pairs, whose
    interval holds it."""
    if not time.median_us > 0:
        return claim(RATIOS, where, False, f"no call can take {time.median_us} us")
    inside = time.ratio_low <= time.ratio <= time.ratio_high
    pairs: list[tuple[str, object, object]] = [
        ("percent of limit", time.percent_of_limit, 100 * time.limit_us / time.median_us)
    ]
    if time.basis == "estimated":
        pairs.append(("ratio", time.ratio, time.baseline_us / time.median_us))
    why = differences(pairs) or ("" if inside else "the ratio is outside its interval")
    return claim(RATIOS, where, not why, why)


def _limit(run: Run, evaluation: Evaluation, time: AnyTime, where: str) -> Claim:
    """Other versions may know the GPU by other constants."""
    if run.task is None:
        return unchecked(LIMITS, where, run.broken_task)
    try:
        found = contract_limit_us(run.task, time.case, evaluation.device)
    except (BadInput, KeyError):
        return unchecked(
            LIMITS, where, f"this version of Astra has no constants for {evaluation.device.spec}"
        )
    why = differences([("limit", time.limit_us, found)])
    if why and not run.by_this_judge(evaluation):
        return unchecked(LIMITS, where, f"computed by another version of the judge: {why}")
    if time.median_us < time.limit_us:
        why = f"{time.median_us:.4g} us is below the limit of {time.limit_us:.4g} us"
    return claim(LIMITS, where, not why, why)


def _samples(time: MeasuredTime, where: str) -> Claim:
    if not time.raw:
        return unchecked(SAMPLES, where, NO_SAMPLES)
    try:
        found = time_of(unpack(time.raw), time.case, time.weight, time.limit_us)
    except (BadInput, ArithmeticError, ValueError) as error:
        return claim(SAMPLES, where, False, str(error).splitlines()[0])
    if not isinstance(found, MeasuredTime):
        return claim(SAMPLES, where, False, f"they are implausible: {found.why}")
    names = sorted(set(MeasuredTime.model_fields) - LATER)
    why = differences((name, getattr(time, name), getattr(found, name)) for name in names)
    return claim(SAMPLES, where, not why, why)
