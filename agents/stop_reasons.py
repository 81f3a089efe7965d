"""Why a chat comes to its end by its own rules."""

from __future__ import annotations

from typing import Literal

StopReason = Literal[
    "rounds", "profiler", "no_plan", "baseline_failed", "near_limit", "no_gain", "evaluations"
]

STOP_TEXTS: dict[StopReason, str] = {
    "rounds": "all rounds are done",
    "profiler": "the profiler expects no further gain",
    "no_plan": "the planner has no further plan",
    "near_limit": "the best candidate reached the share of the physical limit that --stop-at sets",
    "no_gain": "no new best for as many rounds in a row as --patience allows",
    "evaluations": "the budget of evaluations is used up",
    "baseline_failed": "the baseline itself failed, so nothing can be compared with it",
}
