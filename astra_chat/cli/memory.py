"""`astra-chat memory`: the cards of confirmed runs, added, listed and shown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from astra_chat.arguments import present
from astra_chat.display.notes import note
from astra_chat.tools.wording import counted
from astra_vgpu.ground.errors import BadInput

app = typer.Typer(
    help="Save the plans of confirmed runs, and their results, for later runs.",
    no_args_is_help=True,
)
FileOption = Annotated[
    Path | None,
    typer.Option(
        "--memory", metavar="FILE", help="The memory file; default: the setting `memory`."
    ),
]


def register(main: typer.Typer) -> None:
    main.add_typer(app, name="memory")


@app.callback()
def memory() -> None:
    """Save the plans of confirmed runs, and their results, for later runs."""


@app.command(short_help="Add the plans of runs with a confirmed winner.")
def add(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Transcripts or run folders.", callback=present),
    ],
    memory: FileOption = None,
) -> None:
    """Add the plans of runs with a confirmed winner; exit with 1 if a run has none."""
    from astra_chat.memory.cards import cards_of
    from astra_chat.memory.file import changing, merged, read_memory, write_memory

    file = _file(memory)
    found = []
    for run in runs:
        try:
            found.append((run, cards_of(run)))
        except BadInput as error:
            note(str(error))
    with changing(file):
        old = read_memory(file) if file.exists() else ()
        cards = list(old)
        for run, new in found:
            before = len(cards)
            cards = merged(cards, new)
            added = counted(len(cards) - before, "new card")
            print(f"{run}: {added} of {counted(len(new), 'plan')}")
        if tuple(cards) != old:
            write_memory(file, cards)
    print(f"{file}: {counted(len(cards), 'card')}")
    if len(found) < len(runs):
        raise typer.Exit(1)


@app.command("list")
def show_all(memory: FileOption = None) -> None:
    """Print each memory card on one line, with its number."""
    from astra_chat.memory.file import read_memory

    for number, card in enumerate(read_memory(_file(memory)), 1):
        print(f"{number:>3}  {card.text}")


@app.command()
def show(
    number: Annotated[
        int, typer.Argument(metavar="NUMBER", min=1, help="The card's number in `list`.")
    ],
    memory: FileOption = None,
) -> None:
    """Print one memory card in full."""
    from astra_chat.memory.file import read_memory

    cards = read_memory(_file(memory))
    if number > len(cards):
        raise BadInput(f"there is no card {number}: the file has {len(cards)}")
    for name, value in cards[number - 1].model_dump(mode="json").items():
        if value not in (None, ""):
            print(f"{name:<14} {', '.join(value) if isinstance(value, list) else value}")


def _file(given: Path | None) -> Path:
    from astra_chat.memory.file import OFF
    from astra_chat.settings import read_settings

    if given is not None:
        return given
    said = read_settings().get("memory")
    if said is None or said.value == OFF:
        raise BadInput("give the file: --memory FILE, or astra-chat config set memory FILE")
    return Path(str(said.value))
