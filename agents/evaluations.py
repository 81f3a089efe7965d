"""What the chat asks of an evaluation: is it faster, what was profiled, does it count."""

from __future__ import annotations

from collections.abc import Mapping

from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.types import Profile, Timed


def faster(evaluation: Evaluation) -> Timed | None:
    """The outcome of a candidate that is faster than the baseline."""
    outcome = evaluation.outcome
    return outcome if isinstance(outcome, Timed) and outcome.verdict == "accepted" else None


def profile_of(evaluation: Evaluation | None) -> Profile | None:
    outcome = evaluation.outcome if evaluation else None
    return outcome.profile if isinstance(outcome, Timed) else None


def profiles_of(evaluation: Evaluation | None) -> tuple[Profile, ...]:
    """Returns the profiles of all cases that have one, the outcome's main profile first."""
    outcome = evaluation.outcome if evaluation else None
    if not isinstance(outcome, Timed) or outcome.profile is None:
        return ()
    return (outcome.profile, *outcome.other_profiles)


def accepting(
    accepted: Mapping[str, Evaluation], evaluation: Evaluation
) -> Mapping[str, Evaluation]:
    """`accepted` with an evaluation of the search that nobody rejected."""
    timed, before = faster(evaluation), accepted.get(evaluation.candidate)
    if timed is None or (before and (was := faster(before)) and timed.ratio <= was.ratio):
        return accepted
    return {**accepted, evaluation.candidate: evaluation}
