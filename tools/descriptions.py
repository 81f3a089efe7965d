"""The judge's results as sentences, for models and readers alike: outcomes, builds, metrics."""

from __future__ import annotations

import math
from collections.abc import Sequence

from astra_chat.tools.evaluation import BuildReport, Built, CheckRecord, Evaluation
from astra_chat.tools.mangled import kernel_name
from astra_chat.tools.template_arguments import template_arguments
from astra_chat.tools.text import one_line
from astra_chat.tools.types import (
    BuildFailed,
    Case,
    Correct,
    Crashed,
    Implausible,
    Metric,
    Outcome,
    Refused,
    Resources,
    Timed,
    TimedOut,
    Unsafe,
    Unsupported,
    Wrong,
)
from astra_chat.tools.wording import counted

LOG_LINES = 12
COLUMNS = 300
MOST_KERNELS = 8
TIMES = 10
"""A result that is off by a larger factor is so many times too large, not by so many per cent."""
NEVER_LAUNCHED = (
    "not judged, because no call of the check launched them and the baseline has no such machine"
    " code: {}; if no call of the confirmation launches them either, the candidate will be refused:"
    " remove them, or instantiate only what a valid call can choose"
)
NEAR = 0.05
"""A predicted ratio that is nearer to 1 is shown with three decimals if it has them."""


def verdict(outcome: Outcome | Built) -> str:
    """One word: the outcome's kind, or the verdict of a timed candidate."""
    return outcome.verdict if isinstance(outcome, Timed) else outcome.kind


def describe_build(report: BuildReport) -> str:
    """The result of guard and build."""
    if isinstance(report.result, Built):
        return f"builds: {describe_resources(report.result.resources)}"
    return describe(report.result)


def describe_evaluation(evaluation: Evaluation) -> str:
    """The outcome, and the level of trust where it is no launch plan's."""
    said = describe(evaluation.outcome)
    return f"{said}\ntrust: {evaluation.trust}" if evaluation.trust else said


def describe(outcome: Outcome) -> str:
    """An outcome in one sentence; a build log or a list of findings follows on further lines."""
    match outcome:
        case Refused(gate=gate, findings=findings):
            places = "\n".join(f"line {f.line}: {f.what}" for f in findings)
            return f"refused by the {gate}:\n{cut_lines(places, LOG_LINES)}"
        case BuildFailed(log=log):
            return f"does not build:\n{cut_lines(log, LOG_LINES)}"
        case Unsupported():
            return _unsupported(outcome)
        case Wrong():
            return _wrong(outcome)
        case Unsafe(case=case, what=what, where=where):
            return f"unsafe on {case.named}: {what}, {where}"
        case Crashed(case=case, message=message):
            return f"crashed on {case.named}: {message}"
        case Implausible(case=case, why=why):
            return f"implausible on {case.named}: {why}"
        case TimedOut(step=step, limit_s=limit_s, note=note):
            limit = f"exceeded its limit of {number(limit_s)} s" if limit_s else "would never end"
            words = f"stopped: the step '{step}' {limit}"
            return f"{words}: {note}" if note else words
        case Correct() | Timed():
            return _passed(outcome)


def _unsupported(outcome: Unsupported) -> str:
    if not outcome.opcode:
        return f"unsupported: {outcome.what}"
    return (
        f"not judged: the virtual GPU does not support {outcome.what} ({outcome.opcode}, PTX line"
        f" {outcome.line} of {kernel_name(outcome.kernel)}{template_arguments(outcome.kernel)})"
    )


def speed(timed: Timed) -> str:
    """ "estimated 1.31x the baseline's speed"."""
    return f"{timed.basis} {ratio_text(timed.ratio)} the baseline's speed"


def prediction(predicted_ratio: float, timed: Timed, parent_ratio: float) -> str:
    """The plan's prediction beside the result, both over the plan's parent."""
    came = timed.ratio / parent_ratio
    return (
        f"the plan predicted {predicted_text(predicted_ratio)} over its parent,"
        f" {timed.basis} {ratio_text(came)}"
    )


def metric_text(metric: Metric) -> str:
    unit = f" {metric.unit}" if metric.unit else ""
    return f"{metric.name} {number(metric.value)}{unit}"


def describe_resources(resources: tuple[Resources, ...]) -> str:
    """ptxas' report, kernel by kernel; instantiations that use the same together."""
    by_use: dict[tuple[str, str], list[str]] = {}
    for used in resources:
        spills = f", {used.spill_bytes} B spilled" if used.spill_bytes else ""
        shared = f", {used.static_shared_bytes} B shared" if used.static_shared_bytes else ""
        local = f", {used.stack_bytes} B of local memory per thread" if used.stack_bytes else ""
        use = f"{used.registers} registers{shared}{local}{spills}"
        arguments = by_use.setdefault((kernel_name(used.kernel), use), [])
        arguments.append(template_arguments(used.kernel))
    parts = (
        f"{name}{' and '.join(filter(None, dict.fromkeys(which)))} {use}"
        for (name, use), which in by_use.items()
    )
    return "; ".join(parts) or "no kernel"


def launches(evaluation: Evaluation, case: Case) -> str:
    """What the candidate launches for a case, in one line; "" where that is not on record."""
    plans = evaluation.evidence.plans if evaluation.evidence else ()
    return next((one_line(plan.launches) for plan in plans if plan.case == case), "")


def ratio_text(ratio: float) -> str:
    return f"{ratio:.2f}x"


def predicted_text(ratio: float) -> str:
    """A predicted ratio: one near 1 with a digit more, which is what it says."""
    return f"{f'{ratio:.3f}'.removesuffix('0')}x" if abs(ratio - 1) < NEAR else ratio_text(ratio)


def never_launched(record: CheckRecord | None) -> list[str]:
    """What is said of a candidate's kernels that no call of its check launched: a line of those
    that nothing was judged of, and one of those that are the baseline's."""
    names = record.never_launched if record else ()
    return [*([NEVER_LAUNCHED.format(kernels_text(names))] if names else []), *left_as_is(record)]


def left_as_is(record: CheckRecord | None) -> list[str]:
    """What is said of kernels that no call launched and whose device code is the baseline's."""
    names = record.left_as_is if record else ()
    what = "unchanged from the baseline, but not judged, because no call launches them"
    return [f"{what}: {kernels_text(names)}"] if names else []


def kernels_text(names: Sequence[str]) -> str:
    """Some of these kernels, and how many more."""
    more = f" and {len(names) - MOST_KERNELS} more" if len(names) > MOST_KERNELS else ""
    return ", ".join(names[:MOST_KERNELS]) + more


def number(value: float) -> str:
    """A number for display: integers with separators, others with four digits."""
    if not math.isfinite(value):
        return str(value)
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:.4g}"


def cut_lines(text: str, most: int) -> str:
    """The first `most` lines, and how many were left out."""
    lines = text.rstrip().splitlines()
    kept = [
        f"  {line if len(line) <= COLUMNS else line[:COLUMNS] + ' ...'}" for line in lines[:most]
    ]
    if len(lines) > most:
        kept.append(f"  ... {counted(len(lines) - most, 'more line')}")
    return "\n".join(kept)


def _passed(outcome: Correct | Timed) -> str:
    if isinstance(outcome, Correct):
        return f"{_right(outcome)}; not timed"
    return f"{_right(outcome.correct)}; {speed(outcome)}; {outcome.verdict} ({outcome.why})"


def _right(correct: Correct) -> str:
    sampled = f" ({len(correct.sampled)} of them on a sample of blocks)" if correct.sampled else ""
    hidden = f", {correct.hidden} of them drawn at random" if correct.hidden else ""
    unsteady = "; non-deterministic" if correct.deterministic is False else ""
    cases, lost = counted(correct.cases, "case"), ""
    if correct.left_out:
        cases = f"{correct.cases} of {counted(correct.cases + correct.left_out, 'case')}"
        lost = f"; {correct.left_out} left out: the baseline fails there"
    return f"correct on {cases}{sampled}{hidden}{lost}{unsteady}"


def _wrong(wrong: Wrong) -> str:
    place = (
        f"{wrong.argument}[{', '.join(map(str, wrong.index))}]" if wrong.index else wrong.argument
    )
    reasons = {
        "value": "values differ from the oracle's",
        "nan_pattern": f"{_kind(wrong.got)} where the oracle has {_kind(wrong.expected)}",
        "unwritten": "elements were never written",
        "input_changed": "a read-only argument was changed",
        "write_outside": "memory outside the argument was written",
        "precision": "less precise than the baseline",
        "not_accepted": "accept() in reference.py rejects it",
        "distribution": "drawn with probabilities that differ from the oracle's",
        "batch_variant": "the bits of a row depend on its batch",
        "ranks_differ": "ranks have different bits",
    }
    note = f"; {wrong.note}" if wrong.note else ""
    said = f"wrong on {wrong.case.named}: {reasons[wrong.reason]}: {place}"
    if wrong.reason == "not_accepted":  # of many that are legal there is no expected one
        return f"{said}{f' is {number(wrong.got)}' if wrong.index else ''}{note}"
    if wrong.reason == "ranks_differ":
        return f"{said}{note}"
    if wrong.reason == "distribution":
        return f"{said} is {number(wrong.got)}{note}"
    count = f"({wrong.bad:,} of {counted(wrong.total, 'element')}){note}"
    if wrong.reason == "unwritten" and not wrong.index:  # counted, not compared
        return f"{said} {count}"
    expected, got = told_apart(wrong.expected, wrong.got)
    off = _off(wrong) if wrong.reason == "value" else ""
    return f"{said}{off} expected {expected}, got {got} {count}"


def _kind(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    sign = "-" if value < 0 else ""
    return f"{sign}infinity" if math.isinf(value) else "a number"


def _off(wrong: Wrong) -> str:
    """How far off a result is, such as " is 14% too large:"."""
    expected, got = wrong.expected, wrong.got
    if not (math.isfinite(expected) and math.isfinite(got)) or expected == 0:
        return ""
    ratio = got / expected
    if ratio <= 0 or ratio == 1:
        return ""
    way = "large" if ratio > 1 else "small"
    if ratio > TIMES or ratio < 1 / TIMES:
        return f" is {number(max(ratio, 1 / ratio))} times too {way}:"
    percent = 100 * abs(ratio - 1)
    return f" is {f'{percent:.0f}' if percent >= TIMES else f'{percent:.2g}'}% too {way}:"


def told_apart(one: float, other: float) -> tuple[str, str]:
    """Two numbers for display, with as many digits as they need to differ."""
    texts = number(one), number(other)
    for digits in range(5, 17):
        if texts[0] != texts[1] or one == other or math.isnan(one):
            break
        if f"{one:.{digits}g}" != f"{other:.{digits}g}":  # one more, so that it is no rounding
            texts = f"{one:.{digits + 1}g}", f"{other:.{digits + 1}g}"
    if texts[0] == texts[1] and math.copysign(1.0, one) != math.copysign(1.0, other):
        return f"{one:g}", f"{other:g}"  # zeros of either sign
    return texts
