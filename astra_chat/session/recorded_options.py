"""What a transcript records and only the user may set: models, addresses, key variables, budgets.

A transcript is data, and may come from anybody. What it records of these is shown, and taken over
only where the user types it again or says `--accept-recorded-options`. Paths and trust are never
taken from it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from astra_chat.models.spec import ModelSpec, parse
from astra_chat.session.request import Request, SessionOptions
from astra_chat.tools.text import one_line
from astra_chat.transcript.options import EVALUATIONS, RunOptions, option_name
from astra_vgpu.ground.errors import BadInput

ACCEPT = "--accept-recorded-options"
RECORDINGS = ("record", "auto", "replay")
PATHS = ("transcript", "mailbox")
"""Backends whose argument is a path."""
SHOWN = {"base_url": "address", "key_env": "environment variable with the key"}
"""Options of a model that get a line of their own."""
BY_NO_OPTION = ("repairs", "confirmations", "winner_repairs")
"""Work that no option of the command line asks for: of a file never more than the default."""
REPEATED_POINTS = 16
"""--tune of the recorded runs of Astra's own tasks, which are repeated by default."""


@dataclass(frozen=True)
class RecordedOption:
    """One option that a transcript records and the user did not give."""

    text: str
    """What it would set, in one line."""
    field: str
    """Name of a field of RunOptions."""
    is_path: bool = False
    """A path is typed by the user or not used at all."""


def accepted(
    given: RunOptions,
    session: SessionOptions,
    recorded: RunOptions,
    file: Path,
    go_on: Sequence[str],
) -> RunOptions:
    """The recorded options with those that were given in their place; trust is only ever given.

    `go_on`: the arguments that name the transcript, `--resume FILE`, for the command that is
    proposed. Raises BadInput, with a note for each option, where the user has to accept something.
    """
    unaccepted = list(_recorded(recorded, given.model_fields_set, file))
    paths = any(one.is_path for one in unaccepted)
    if unaccepted and (paths or not session.accept_recorded_options):
        error = BadInput(
            f"{file} records options that only you may set; nothing was sent or written"
        )
        for one in unaccepted:
            error.add_note(f"recorded {one.text}")
        typed = given.model_copy(
            update={one.field: getattr(recorded, one.field) for one in unaccepted}
        )
        way = f"to use what is recorded: {command_line(typed, session, go_on)}"
        error.add_note(way if paths else f"{way}, or add {ACCEPT}")
        raise error
    unasked = {name: min(getattr(recorded, name), _default(name)) for name in BY_NO_OPTION}
    return recorded.changed(given).model_copy(update={"trust": given.trust, **unasked})


def _recorded(recorded: RunOptions, given: Set[str], file: Path) -> Iterator[RecordedOption]:
    """The options that are neither given by the user nor a default of this machine."""
    if "models" not in given:
        yield from _models(recorded.models, file)
    repeats = recorded.models == "transcript"
    bounded = repeats and EVALUATIONS.fullmatch(recorded.budget)
    if "budget" not in given and recorded.budget and not bounded:
        yield RecordedOption(f"budget: {one_line(recorded.budget)}", "budget")
    for name in ("rounds", "mutants", "tune"):
        number, usual = getattr(recorded, name), _default(name)
        if name == "tune" and repeats:
            usual = REPEATED_POINTS
        if name not in given and number > usual:
            yield RecordedOption(f"{name}: {number} (default: {_default(name)})", name)


def _default(name: str) -> int:
    return int(RunOptions.model_fields[name].default)


def _models(models: str, file: Path) -> Iterator[RecordedOption]:
    mode, _, rest = models.partition(":")
    if mode in RECORDINGS:
        path = one_line(rest.partition(":")[0])
        yield RecordedOption(f"path of a recording: {path}", "models", is_path=True)
        return
    roles = parse(models)
    different = list(dict.fromkeys(str(spec) for spec in roles.values()))
    if all(_is_local(spec, file) for spec in roles.values()):
        return
    outside = [s for s in roles.values() if s.kind in PATHS and not _is_local(s, file)]
    yield RecordedOption(f"models: {one_line(', '.join(different))}", "models", bool(outside))
    given = [item for spec in roles.values() for item in spec.options.items()]
    for name, value in dict.fromkeys(given):
        what = SHOWN.get(name, f"option {one_line(name)}")
        yield RecordedOption(f"{what}: {one_line(value)}", "models")


def _is_local(spec: ModelSpec, file: Path) -> bool:
    """Whether it asks nobody and reads nothing but the task's own script and transcript, or a file
    of the run's own folder."""
    if spec.kind == "transcript" and not spec.argument:
        return True
    if spec.kind in PATHS and "\0" not in spec.argument:
        return Path(spec.argument).resolve().is_relative_to(file.parent.resolve())
    return spec.kind == "scripted"


def resume_command(file: Path, request: Request) -> str:
    """The command that resumes a run of the user's own, with each option that has to be given."""
    own = request.recorded.model_copy(update={"models": request.models.typed})
    typed = {one.field: getattr(own, one.field) for one in _recorded(own, frozenset(), file)}
    decisions = None if request.approver in (None, "ask", "detached") else request.approver
    options = RunOptions.model_validate({**typed, "trust": own.trust})
    place = None if request.place is None else str(request.place)
    session = SessionOptions(approver=decisions, place=place)
    return command_line(options, session, ["--resume", str(file)])


def command_line(given: RunOptions, session: SessionOptions, go_on: Sequence[str]) -> str:
    """`astra-chat run` with the options that were given."""
    task = [] if session.task is None else [str(session.task)]
    words = ["astra-chat", "run", *task, *go_on]
    both = {**_given(given), **_given(session)}
    if "languages" in both:
        both["languages"] = ",".join(both["languages"])
    if "place" in both:  # both are said by --judge
        both["judge"] = both.pop("place")
    for name, value in both.items():
        if name != "task" and value is not False:
            words += [option_name(name)] if value is True else [option_name(name), str(value)]
    return shlex.join(words)


def _given(options: RunOptions | SessionOptions) -> dict[str, Any]:
    """Options by name, as they were given; those that were not are left out."""
    values = {
        name: getattr(options, name)
        for name in type(options).model_fields
        if name in options.model_fields_set
    }
    if isinstance(options, RunOptions):  # 0 was given for None
        return {name: 0 if value is None else value for name, value in values.items()}
    return {name: value for name, value in values.items() if value is not None}
