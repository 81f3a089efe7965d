"""Constants that a candidate marks for tuning: which kernel is tuned, and what comes of it."""

from __future__ import annotations

from functools import lru_cache

from astra_chat.agents.run_state import RunState
from astra_chat.agents.turns import Kernel
from astra_chat.tools.tuning.space import read_space
from astra_chat.tools.tuning.tuned import Tuning
from astra_chat.tools.types import Timed
from astra_vgpu.ground.errors import BadInput

MARKS = ("tune:", "triton.autotune")
PROMPT = (
    "You may leave constants open: after `constexpr int kThreads = 256;` or `#define ROWS 4`, write"
    " `// tune: 64 128 512` with other integers to try, and put relations on lines of their own, as"
    " in `// require: kThreads * ROWS <= 1024`. Every combination must be correct; the executor"
    " tries the combinations and keeps the best. The values that you write are the starting"
    " point."
)
"""What the coder is told where a run tunes."""
TRITON_PROMPT = (
    "In a Triton file, mark an integer of the launcher or a `tl.constexpr(...)`, as in"
    " `BLOCK = 1024  # tune: 512 1024 2048`, and write relations as `# require: ...`. Each"
    " combination of values is compiled separately, so mark few constants. `@triton.autotune` is"
    " such a mark, too: its configurations are the values."
)
PLAN_PROMPT = (
    "The coder may mark constants, such as threads per block, with other values to try. The "
    "executor tries all combinations (or, if there are more than {points}, a sample that includes "
    "the values as written) and keeps the best. In your plan, say which constants to leave open."
)
"""What the planner is told there."""


def without_effect(state: RunState) -> str:
    """For the coder: the constants of earlier tunings of which no choice was faster than what the
    candidate held by more than the resolution; "" where there is none."""
    tunings = [one.tuning for one in state.rounds if one.tuning and not one.tuning.changed]
    lines = [
        ", ".join(f"{name} {_tried(tuning, name)}" for name in tuning.start) for tuning in tunings
    ]
    if not lines:
        return ""
    return (
        "Values already tried, none of which was faster by more than the resolution: "
        f"{'; '.join(dict.fromkeys(lines))}."
        " Mark such a constant again only if the work that depends on it has changed: each"
        " combination of values takes as long as a check."
    )


def _tried(tuning: Tuning, name: str) -> str:
    """The values of a constant that were tried."""
    return ", ".join(map(str, sorted({point.values[name] for point in tuning.points})))


def unreadable_marks(source: str) -> str | None:
    """Why the marks of a source cannot be used, as text; None if they can, or there are none."""
    if not any(mark in source for mark in MARKS):
        return None
    try:
        read_space(source)
    except BadInput as error:
        return str(error)
    return None


@lru_cache(maxsize=256)
def is_marked(source: str) -> bool:
    """Whether it leaves constants open that can be tuned."""
    return any(mark in source for mark in MARKS) and unreadable_marks(source) is None


def to_tune(state: RunState) -> Kernel | None:
    """The kernel of the round to tune: the fastest correct one that marks constants, once."""
    under_way = state.round
    if not state.limits.tune or under_way is None or under_way.tuning is not None:
        return None
    ratios = {
        attempt.kernel: attempt.evaluation.outcome.ratio
        for attempt in under_way.attempts
        if attempt.evaluation is not None
        and isinstance(attempt.evaluation.outcome, Timed)
        and not (attempt.rejected is not None or attempt.repairs)
        and attempt.passed
        and is_marked(attempt.kernel.source)
    }
    return max(ratios, key=lambda kernel: ratios[kernel], default=None)


def tuned_kernel(state: RunState) -> Kernel | None:
    """The round's tuned kernel, which is not among its candidates yet; None where tuning changed
    nothing."""
    under_way = state.round
    tuning = under_way.tuning if under_way else None
    if under_way is None or tuning is None or not tuning.changed:
        return None
    source = read_space(state.sources[tuning.candidate]).at(tuning.best)
    words = f"The constants of {tuning.candidate} were tuned. {tuning.words}."
    kernel = Kernel(words=words, source=source)
    known = (attempt.kernel.candidate for attempt in under_way.attempts)
    given = any(attempt.speaker == "executor" for attempt in under_way.attempts)
    return None if given or kernel.candidate in known else kernel
