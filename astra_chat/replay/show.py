"""Shows a recorded run as the live run looked: all of it, or some turns, by number, by round or by
role, at once or in its time. One candidate, the difference of two and a search are shown, too.
"""

from __future__ import annotations

import difflib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import get_args

import click
from rich.console import Console
from rich.text import Text

from astra_chat.agents.run_state import states
from astra_chat.agents.turns import Kernel, Speaker
from astra_chat.display.console import console
from astra_chat.display.run_view import View
from astra_chat.display.turn_view import turn_lines
from astra_chat.tools.text import plain
from astra_chat.tools.types import candidate_id
from astra_chat.tools.wording import choices, did_you_mean
from astra_chat.transcript.events import Header, Record, TurnEvent
from astra_chat.transcript.reader import Transcript
from astra_chat.transcript.recorded_task import baseline_text
from astra_chat.transcript.turns import state_of, texts, turns_of
from astra_vgpu.ground.errors import BadInput

LESS = "FRX"
"""Colours stay, and what fits on the screen ends at once; git has the same."""


@dataclass(frozen=True)
class Selection:
    """Nothing given selects everything."""

    turn: int | None = None
    round: int | None = None
    """0: what came before the first."""
    roles: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.turn is not None or self.round is not None or bool(self.roles)


EVERYTHING = Selection()


def replay(
    transcript: Transcript,
    quiet: bool = False,
    wanted: Selection = EVERYTHING,
    speed: float | None = None,
    pager: bool = False,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Print records through the live run's view; `quiet`: the result only.

    `speed`: as many times as fast as the run was; None: at once. Raises BadInput for a turn, round
    or role that is not there.
    """
    chosen = chosen_turns(transcript, wanted) if wanted else None
    out = console()
    if not pager:
        _show(transcript, out, quiet, chosen, speed, pause)
        return
    with out.capture() as captured:
        _show(transcript, out, quiet, chosen, None, pause)
    os.environ.setdefault("LESS", LESS)
    click.echo_via_pager(captured.get(), color=True)


def wants_pager(asked: bool | None) -> bool:
    """Unless it was asked: where a person sits at a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty() if asked is None else asked


def _show(
    transcript: Transcript,
    out: Console,
    quiet: bool,
    chosen: set[int] | None,
    speed: float | None,
    pause: Callable[[float], None],
) -> None:
    view, before = View(out, quiet), 0.0
    for record in transcript.records:
        shown = chosen is None or isinstance(record.event, Header) or belongs_to(record) in chosen
        if speed is not None and shown and isinstance(record.event, TurnEvent):
            pause(max(0.0, record.t - before) / speed)
            before = record.t
        view.show(record, hidden=not shown)
    view.close()


def show_prompts(transcript: Transcript, turn: int | None, as_json: bool) -> None:
    """Print the models' prompts in full. Raises BadInput for a turn without one."""
    # Here, for a replay without prompts starts sooner without them.
    from astra_chat.replay.prompts import prompts

    found = list(prompts(transcript, turn))
    if as_json:
        print(json.dumps([asdict(prompt) for prompt in found], indent=2))
        return
    out = console()
    for prompt in found:
        title = f"turn {prompt.turn}, {prompt.role}"
        parts = [("system", prompt.system), ("user", prompt.user)]
        for part, text in [
            *parts,
            *(("why a reply was sent back", words) for words in prompt.again),
        ]:
            if text:
                out.print(Text(f"--- {title}, {part}: {len(text):,} characters", "bold"))
                out.print(Text(text), soft_wrap=True)


def chosen_turns(transcript: Transcript, wanted: Selection) -> set[int]:
    """Numbers of the turns to show. Raises BadInput where none is, naming what there is."""
    numbers = [r.turn for r in transcript.records if isinstance(r.event, TurnEvent)]
    turns = turns_of(transcript.records)
    after = list(states(turns))[1:]
    rounds = [len(state.rounds) for state in after]
    _require(transcript, wanted, numbers, rounds)
    found = {
        number
        for number, turn, round_number in zip(numbers, turns, rounds, strict=True)
        if wanted.turn in (None, number)
        and wanted.round in (None, round_number)
        and (not wanted.roles or turn.speaker in wanted.roles)
    }
    if not found:
        raise BadInput(f"{transcript.path}: this role has no turn in this round")
    return found


def belongs_to(record: Record) -> int:
    """Number of the turn that a record is of, or was recorded for."""
    return record.turn if isinstance(record.event, TurnEvent) else record.turn + 1


def _require(
    transcript: Transcript, wanted: Selection, numbers: Sequence[int], rounds: Sequence[int]
) -> None:
    last, path = max(rounds, default=0), transcript.path
    if wanted.turn is not None and wanted.turn not in numbers:
        raise BadInput(f"--turn {wanted.turn}: {path} has turns 1 to {max(numbers, default=0)}")
    if wanted.round is not None and not 0 <= wanted.round <= last:
        raise BadInput(f"--round {wanted.round}: {path} has rounds 0 to {last}")
    for role in wanted.roles:
        if role not in get_args(Speaker):
            raise BadInput(f"--role {role}{choices(role, get_args(Speaker))}")


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
