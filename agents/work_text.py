"""What the executor does in a step, in a few words: for whoever waits for it."""

from __future__ import annotations

from astra_chat.agents.turn_order import (
    Baseline,
    Build,
    Confirm,
    Propose,
    Run,
    Score,
    Step,
    Tune,
)


def work_text(step: Step) -> str:
    """Half a sentence without its subject; "" for what the executor does not do."""
    match step:
        case Score(cases=cases):
            return f"scores the tester's {len(cases)} cases by seeded bugs"
        case Baseline():
            return "judges the baseline"
        case Build(kernels=(kernel, *others)):
            more = f" and {len(others)} more" if others else ""
            return f"builds {kernel.candidate}{more}"
        case Run(kernel=kernel):
            return f"checks and times {kernel.candidate}"
        case Tune(kernel=kernel):
            return f"tunes the constants of {kernel.candidate}"
        case Propose(kernel=kernel):
            return f"proposes {kernel.candidate}, which is tuned"
        case Confirm(candidate=candidate):
            return f"confirms the winner {candidate} on fresh seeds and more cases"
        case _:
            return ""
