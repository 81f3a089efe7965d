"""`astra-chat skill`: what a coding agent has to know about Astra, as a SKILL.md."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from astra_vgpu.ground.errors import BadInput

NAME = "astra-chat"
SKILL, SNIPPET = "SKILL.md", "AGENTS.md"


def register(app: typer.Typer) -> None:
    app.command(short_help="Print or write a skill file for coding agents.")(skill)


def skill(
    folder: Annotated[
        Path | None,
        typer.Option(
            "--dir",
            metavar="DIR",
            help="Write the skill to DIR/astra-chat/, where DIR is, for example, .claude/skills.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace existing files that differ.")
    ] = False,
) -> None:
    """Print a skill file for coding agents, or write it together with a snippet for their
    instructions."""
    if folder is None:
        sys.stdout.write(text_of(SKILL))
        return
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"--dir {folder} is a file, not a folder")
    home = folder / NAME
    written = {home / name: text_of(name) for name in (SKILL, SNIPPET)}
    different = [path for path, text in written.items() if _differs(path, text)]
    if different and not force:
        raise BadInput(f"{different[0]} already exists and differs: use --force to replace it")
    for path, text in written.items():
        _write(path, text)
        print(path)
    print(f"add the text of {home / SNIPPET} to your project's AGENTS.md")


def text_of(name: str) -> str:
    """A file of astra_chat/skill/."""
    from importlib.resources import files

    return files("astra_chat.skill").joinpath(name).read_text(encoding="utf-8")


def _differs(path: Path, text: str) -> bool:
    try:
        return path.read_text(encoding="utf-8") != text
    except FileNotFoundError:
        return False
    except (OSError, UnicodeDecodeError):
        return True


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}") from None
