"""What a transcript records and only the user may set: models, addresses, key variables, budgets.

A transcript is data, and may come from anybody. What it records of these is shown, and taken over
only where the user types it again or says `--accept-recorded-options`. Paths and trust are never
taken from it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from astra_chat.agents.limits import Limits
from astra_chat.models.spec import ModelSpec, parse
from astra_chat.session.request import MUTANTS, Request, RunOptions
from astra_chat.tools.errors import BadInput
from astra_chat.tools.text import one_line
from astra_chat.transcript.events import Options

ACCEPT = "--accept-recorded-options"
RECORDINGS = ("record", "auto", "replay")
SHOWN = {"base_url": "address", "key_env": "environment variable of the key"}
"""Options of a model that get a line of their own."""


@dataclass(frozen=True)
class Recorded:
    """One option that a transcript records and the user did not give."""

    words: str
    """What it would set, in one line."""
    field: str
    """Of RunOptions."""
    value: Any
    is_path: bool = False
    """A path is typed by the user or not used at all."""


def accepted(wishes: RunOptions, options: Options, file: Path, go_on: Sequence[str]) -> RunOptions:
    """The user's options, and of the recorded ones those that may be taken over.

    `go_on`: the words that name the transcript, `--resume FILE`, for the command that is proposed.
    Raises BadInput, with a note for each option, where the user has to accept something.
    """
    found = list(_recorded(options, wishes, file))
    paths = any(one.is_path for one in found)
    if found and (paths or not wishes.accept_recorded_options):
        error = BadInput(
            f"{file} records options that only you may set; nothing was sent or written"
        )
        for one in found:
            error.add_note(f"recorded {one.words}")
        typed = {one.field: one.value for one in found}
        way = f"to use them: {command_line(replace(wishes, **typed), go_on)}"
        error.add_note(way if paths else f"{way}, or add {ACCEPT}")
        raise error
    recorded = {name: getattr(options, name) for name in ("models", "budget", "rounds", "mutants")}
    given = {name: value for name in recorded if (value := getattr(wishes, name)) is not None}
    return replace(wishes, **(recorded | given))


def _recorded(options: Options, wishes: RunOptions, file: Path) -> Iterator[Recorded]:
    """The options that are neither given by the user nor a default of this machine."""
    if wishes.models is None:
        yield from _models(options.models, file)
    if wishes.budget is None and options.budget:
        yield Recorded(f"budget: {one_line(options.budget)}", "budget", options.budget)
    for name, most in (("rounds", Limits().rounds), ("mutants", MUTANTS)):
        number = getattr(options, name)
        if getattr(wishes, name) is None and number > most:
            yield Recorded(f"{name}: {number}, where {most} is the default", name, number)


def _models(models: str, file: Path) -> Iterator[Recorded]:
    mode, _, rest = models.partition(":")
    if mode in RECORDINGS:
        path = one_line(rest.partition(":")[0])
        yield Recorded(f"path of a recording: {path}", "models", models, is_path=True)
        return
    roles = parse(models)
    different = list(dict.fromkeys(str(spec) for spec in roles.values()))
    if all(_is_local(spec, file) for spec in roles.values()):
        return
    outside = [s for s in roles.values() if s.kind == "transcript" and not _is_local(s, file)]
    yield Recorded(f"models: {one_line(', '.join(different))}", "models", models, bool(outside))
    given = [item for spec in roles.values() for item in spec.options.items()]
    for name, value in dict.fromkeys(given):
        what = SHOWN.get(name, f"option {one_line(name)}")
        yield Recorded(f"{what}: {one_line(value)}", "models", models)


def _is_local(spec: ModelSpec, file: Path) -> bool:
    """Whether it asks nobody and reads nothing but the task's script or a file of the run's own
    folder."""
    if spec.kind == "transcript" and "\0" not in spec.argument:
        return Path(spec.argument).resolve().is_relative_to(file.parent.resolve())
    return spec.kind == "scripted"


def resume_command(file: Path, request: Request) -> str:
    """The command that resumes a run of the user's own, with each option that has to be given."""
    limits = request.limits
    options = Options(
        models=request.models.typed, tier=request.tier, rounds=limits.rounds,
        repairs=limits.repairs, cases=None, flags=(), budget=str(request.budget),
        mutants=limits.mutants,
    )  # fmt: skip
    typed = {one.field: one.value for one in _recorded(options, RunOptions(), file)}
    decisions = None if request.approver in (None, "ask", "detached") else request.approver
    wishes = RunOptions(approver=decisions, trust=request.trust, **typed)
    return command_line(wishes, ["--resume", str(file)])


def command_line(wishes: RunOptions, go_on: Sequence[str]) -> str:
    """`astra-chat run` with these options."""
    words = ["astra-chat", "run", *([] if wishes.task is None else [str(wishes.task)]), *go_on]
    for name, value in asdict(wishes).items():
        if name != "task" and value is not None and value is not False:
            words.append(f"--{name.replace('_', '-')}")
            words += [] if value is True else [str(value)]
    return shlex.join(words)
