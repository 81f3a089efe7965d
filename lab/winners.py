"""A live run's winner: which candidate it is, its source, and whether a GPU has settled it."""

from __future__ import annotations

from pathlib import Path

from astra_chat.tools.descriptions import verdict
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.types import Refused, Timed, Unsafe, Wrong, candidate_id
from astra_chat.transcript.reader import read
from astra_chat.transcript.summary import fastest
from astra_chat.transcript.turns import texts

__all__ = ["fastest", "settled", "source_of", "verdict_of"]


def source_of(path: Path, candidate: str) -> str:
    """The source of a run's candidate."""
    return next(
        text for text in texts(read(path).records).values() if candidate_id(text) == candidate
    )


def verdict_of(found: Evaluation) -> str:
    """ "accepted, confirmed" where a confirmation accepted it."""
    words = verdict(found.outcome)
    return f"{words}, confirmed" if found.confirms and words == "accepted" else words


def settled(found: Evaluation) -> bool:
    """A confirmation with a verdict, of whatever kind."""
    return found.confirms and isinstance(found.outcome, Timed | Wrong | Unsafe | Refused)
