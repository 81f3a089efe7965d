"""What a run spends, as text: a line for each answer, and the ledger at the end."""

from __future__ import annotations

from astra_chat.spending.budget import Budget
from astra_chat.tools.text import one_line
from astra_chat.tools.wording import counted
from astra_chat.transcript.spending import ModelCall, RoleSpent, Spent, Tokens, TuningSpent
from astra_chat.transcript.time_use import TimeUse


def asked_words(event: ModelCall, so_far: Tokens, budget: Budget) -> str:
    """One answer's tokens, and the total so far with its budget."""
    total = f"{so_far.total:,}" + (f" of {budget.tokens:,}" if budget.tokens else "")
    money = f", {_usd(so_far.usd)}" + (f" of ${budget.usd:g}" if budget.usd else "")
    return f"{asked_whom(event)}: {tokens_words(event.tokens)}; so far {total}{money}"


def asked_whom(event: ModelCall) -> str:
    """ "coder asked mailbox, answered by Ada (2 answers refused first)"."""
    by = f", answered by {one_line(event.answered_by)}" if event.answered_by else ""
    times = counted(event.refused, "answer")
    refused = f" ({times} refused first)" if event.refused else ""
    return f"{event.role} asked {event.model}{by}{refused}"


def judged_words(evaluations: int, gpu_s: float, wall_s: float, budget: Budget) -> str:
    """What evaluations have spent, with the budget; "" if nothing of it is limited."""
    limits = (
        (evaluations, budget.evaluations, "evaluations"),
        (gpu_s, budget.gpu_s, "s on the GPU"),
        (wall_s, budget.wall_s, "s in all"),
    )
    parts = [f"{spent:,.0f} of {most:,g} {name}" for spent, most, name in limits if most]
    return f"spent so far: {', '.join(parts)}" if parts else ""


def tokens_words(tokens: Tokens) -> str:
    """ "3,100 tokens in (2,048 cached), 800 out (512 reasoning), $0.0042"."""
    cached = f" ({tokens.cached:,} cached)" if tokens.cached else ""
    thought = f" ({tokens.reasoning:,} reasoning)" if tokens.reasoning else ""
    guess = (
        f" ({tokens.estimated:,} estimated: the server does not count them)"
        if tokens.estimated
        else ""
    )
    return (
        f"{tokens.prompt:,} tokens in{cached}, {tokens.completion:,} out{thought}{guess},"
        f" {_usd(tokens.usd)}"
    )


def ledger_lines(spent: Spent, seconds: float, use: TimeUse | None = None) -> list[str]:
    """The ledger, one subject a line. `seconds`: the run's own, all sessions together; `use`: where
    they went."""
    lines = []
    if spent.roles:
        answers = sum(role.answers for role in spent.roles)
        lines.append(f"models: {counted(answers, 'answer')}, {tokens_words(spent.tokens)}")
        lines += map(_role_words, spent.roles)
    steps = ", ".join(f"{step.step} {step.seconds:.1f} s" for step in spent.steps)
    if steps:
        lines.append(f"judge: {counted(spent.evaluations, 'evaluation')}, {steps}")
    if spent.tuning:
        lines.append(tuning_words(spent.tuning))
    if gpu := gpu_words(spent):
        lines.append(gpu)
    if spent.rejected:
        reasons = ", ".join(f"{one.times} {one.reason}" for one in spent.rejected)
        lines.append(f"rejected: {reasons}")
    if spent.contradictions:
        lines.append(f"turns accepted although they contradict the facts: {spent.contradictions}")
    went = f": {time_words(use)}" if use else ""
    return [*lines, f"in all {seconds:.1f} s{went}"]


def tuning_words(spent: TuningSpent) -> str:
    """ "tuning: 2 candidates, 48 points ranked, 16 of them measured, 1 changed; 61.0 s"."""
    return (
        f"tuning: {counted(spent.candidates, 'candidate')},"
        f" {counted(spent.points, 'point')} ranked, {spent.measured:,} of them measured,"
        f" {spent.changed:,} changed; {spent.seconds:.1f} s"
    )


def gpu_words(spent: Spent) -> str:
    """ "GPU: reserved for 20.0 s, waited for 1.5 s; 9,100 J, busy 87 % of it (NVML)"; "" where
    there was no real GPU."""
    if not spent.gpu_s:
        return ""
    energy = "energy unknown" if spent.energy_j is None else f"{spent.energy_j:,.0f} J"
    busy = "utilization unknown" if spent.gpu_busy is None else f"busy {spent.gpu_busy:.0%} of it"
    waited = f", waited for {spent.gpu_wait_s:.1f} s" if spent.gpu_wait_s else ""
    return f"GPU: reserved for {spent.gpu_s:.1f} s{waited}; {energy}, {busy} (NVML)"


def time_words(use: TimeUse) -> str:
    """ "models 12.0 s, builds 30.1 s, judge 61.0 s; a GPU reserved for 20.0 s (16%)"."""
    parts = [
        ("models", use.models_s),
        ("builds", use.build_s),
        ("judge", use.judge_s),
        ("human", use.human_s),
        ("other", use.other_s),
    ]
    words = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in parts if seconds >= 0.05)
    if use.device_s:
        words += f"; a GPU reserved for {use.device_s:.1f} s ({use.device_share:.0%})"
    if use.lease_wait_s:
        words += f", waited for {use.lease_wait_s:.1f} s"
    if use.outside_steps_s >= 1:
        words += f"; {use.outside_steps_s:.1f} s of the judge's time are outside its steps"
    return words or "no time was spent waiting"


def _role_words(spent: RoleSpent) -> str:
    words = f"  {spent.role}: {counted(spent.answers, 'answer')}, {tokens_words(spent.tokens)}"
    if not spent.unusable:
        return words
    bad = spent.unusable_tokens
    return f"{words}; {spent.unusable} of them unusable ({bad.total:,} tokens, {_usd(bad.usd)})"


def _usd(usd: float | None) -> str:
    return "price unknown" if usd is None else f"${usd:.4f}"
