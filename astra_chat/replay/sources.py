"""Sources and words of a recorded run by name: one candidate, the difference of two, a search."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

from astra_chat.agents.run_state import states
from astra_chat.agents.turns import Kernel
from astra_chat.display.turn_view import turn_lines
from astra_chat.tools.text import plain
from astra_chat.tools.types import candidate_id
from astra_chat.tools.wording import did_you_mean
from astra_chat.transcript.events import TurnEvent
from astra_chat.transcript.reader import Transcript
from astra_chat.transcript.recorded_task import baseline_text
from astra_chat.transcript.turns import state_of, texts, turns_of
from astra_vgpu.ground.errors import BadInput

BASELINE, BEST = "baseline", "best"
UNLIMITED = 1_000_000
"""Columns of a line that is searched."""


def source(transcript: Transcript, name: str) -> str:
    """The source of a candidate by its name or the first digits of it; of the baseline; of the
    best. Raises BadInput."""
    return _sources(transcript)[_named(transcript, name)]


def difference(transcript: Transcript, old: str, new: str) -> str:
    """The unified difference of two sources, each named as for `source`. Raises BadInput."""
    before, after = source(transcript, old), source(transcript, new)
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), old, new
    )
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def found(transcript: Transcript, words: str) -> Iterator[str]:
    """Each line of the chat and of the kernels that has these words, in whatever case, with its
    turn."""
    turns, known = turns_of(transcript.records), texts(transcript.records)
    numbers = [r.turn for r in transcript.records if isinstance(r.event, TurnEvent)]
    wanted = words.casefold()
    for number, turn, before in zip(numbers, turns, states(turns), strict=False):
        place = f"{number:>3}  {turn.speaker}"
        for line in turn_lines(turn, before, known, UNLIMITED):
            yield from (f"{place}: {plain(one)}" for one in _with(line.plain, wanted))
        if isinstance(turn.payload, Kernel):
            name = turn.payload.candidate
            for at, line_of in enumerate(turn.payload.source.splitlines(), 1):
                yield from (f"{place}, {name}:{at}: {plain(one)}" for one in _with(line_of, wanted))


def _with(text: str, wanted: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if wanted in line.casefold()]


def _sources(transcript: Transcript) -> Mapping[str, str]:
    baseline = baseline_text(transcript)
    return {candidate_id(baseline): baseline, **state_of(transcript.records).sources}


def _named(transcript: Transcript, name: str) -> str:
    """The whole name of a candidate. Raises BadInput, which names those that there are."""
    if name == BASELINE:
        return candidate_id(baseline_text(transcript))
    best = state_of(transcript.records).best
    if name == BEST:
        if best is None:
            raise BadInput(f"{transcript.path}: no candidate was faster than the baseline")
        return best[0].candidate
    known = list(_sources(transcript))
    fitting = [one for one in known if name and one.startswith(name)]
    if len(fitting) == 1:
        return fitting[0]
    what = "several candidates begin" if fitting else "no candidate begins"
    hint = "" if fitting else did_you_mean(name, [BASELINE, BEST, *known])
    raise BadInput(
        f"{transcript.path}: {what} with '{name}': use {BASELINE}, {BEST} or one of"
        f" {', '.join(fitting or known)}{hint}"
    )
