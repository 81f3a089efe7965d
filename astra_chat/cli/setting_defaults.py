"""How commands take settings: below what is typed, above the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from astra_chat import settings
from astra_chat.display.notes import note

COMMANDS = ("run", "optimize", "check", "time", "profile", "evaluate", "tune")
"""Commands that take settings; of `models check` it is the models."""


def defaults(command: str | None) -> dict[str, Any] | None:
    """Defaults of a command's options as click takes them: below what is typed, above our own.
    Raises BadInput for a file that cannot be used."""
    if command not in (*COMMANDS, "models"):
        return None
    note_unread()
    found = settings.read_settings()
    if command == "models":
        found = {name: one for name, one in found.items() if name == "models"}
    values = {name: one.value for name, one in found.items()}
    return {command: {"check": values} if command == "models" else values}


def without_conflicts(context: typer.Context, given: Mapping[str, Any]) -> dict[str, Any]:
    """A command's options without the settings that what was typed leaves no place for, and with a
    note of what the project's file said."""
    sources = {name: context.get_parameter_source(name) for name in given}
    by = {name: source.name for name, source in sources.items() if source is not None}
    of_file = {name for name, source in by.items() if source == "DEFAULT_MAP"}
    typed = {name for name, source in by.items() if source == "COMMANDLINE"}
    dropped: set[str] = set()
    if typed & {"resume", "branch"}:  # such a run keeps what it was begun with
        dropped = of_file
    if "device" in typed and str(given["device"]).startswith("cuda"):
        dropped |= of_file & {"gpu"}
    if "approve" in typed:
        dropped |= of_file & {"approver"}
    ours = {one.name: one.default for one in context.command.params if one.name in dropped}
    _announce(of_file - dropped)
    return {**given, **ours}


def _announce(names: set[str]) -> None:
    if not names or (project := settings.project_file()) is None:
        return
    said = settings.read_settings()
    own = [f"{n} = {said[n].value}" for n in said if n in names and said[n].file == project]
    if own:
        note(f"settings of {project}: {', '.join(own)}")


def note_unread() -> None:
    """Say which files are not read."""
    for file in settings.unread_files():
        note(f"{file} is not read: settings in the folder of a task or a run are ignored")
