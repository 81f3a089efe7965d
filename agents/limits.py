"""How long a chat may continue."""

from __future__ import annotations

from astra_chat.tools.language import CUDA_ONLY, Languages
from astra_chat.tools.types import Value


class Limits(Value):
    """Limits of one run; recorded with its options."""

    rounds: int = 5
    repairs: int = 2
    """Maximum number of the fixer's kernels in one round."""
    confirmations: int = 3
    """Maximum number of winners that are confirmed at the end: the next best if one fails. 0 in
    transcripts from before confirmations existed."""
    winner_repairs: int = 0
    """Maximum number of winners that the fixer repairs, each once, after their confirmation refused
    them. 0 in transcripts from before that existed."""
    mutants: int = 0
    """Seeded bugs of the baseline that score the tester's cases; 0: no scores."""
    stop_at_percent: float | None = None
    """The chat ends once the best candidate reaches this share of the physical limit."""
    approval: bool = True
    """Whether a human is asked, if the run was started so; False once that was switched off."""
    tune: int = 0
    """Number of points that are ranked for a correct candidate that marks constants; 0: no
    tuning."""
    languages: Languages = CUDA_ONLY
    """Languages that the coder may write in."""
    patience: int | None = None
    """The chat ends after this many rounds in a row without a new best."""
    evaluations: int | None = None
    """Kernels that may be run in all, baseline and tuning included. The last is kept for the
    winner's confirmation, unless no candidate was run yet; None: no limit."""
