"""The command `astra-chat replay`: a recorded run shown, judged again, or run again."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from astra_chat.arguments import RunArgument
from astra_chat.cli.exit_codes import CHECK_FAILED
from astra_chat.cli.options import JsonOption, TrustOption
from astra_chat.display.notes import note
from astra_chat.tools.text import plain

if TYPE_CHECKING:
    from astra_chat.transcript.reader import Transcript


def register(app: typer.Typer) -> None:
    app.command()(replay)


def replay(
    file: RunArgument,
    prompts: Annotated[
        bool,
        typer.Option(
            "--prompts",
            help="Show the prompt of each turn, as this version of Astra would write it.",
        ),
    ] = False,
    turn: Annotated[int | None, typer.Option(metavar="N", help="Show only this turn.")] = None,
    round_number: Annotated[
        int | None,
        typer.Option(
            "--round", metavar="N", help="Show only this round; 0: turns before the first round."
        ),
    ] = None,
    role: Annotated[
        list[str] | None,
        typer.Option(metavar="ROLE", help="Show only turns of this role; may be repeated."),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            metavar="CANDIDATE",
            help="Print the source of a candidate, given by name (or its first digits), of"
            " baseline, or of best.",
        ),
    ] = None,
    diff: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="A B", help="Print the diff from source A to source B."),
    ] = None,
    grep: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="Print the lines that contain TEXT, in the chat and the kernels."
        ),
    ] = None,
    speed: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Show the turns at X times the speed of the run; default: all at once.",
        ),
    ] = None,
    pager: Annotated[
        bool | None,
        typer.Option(
            "--pager/--no-pager",
            help="Show the output in $PAGER (the default on a terminal).",
        ),
    ] = None,
    rejudge: Annotated[
        bool,
        typer.Option(
            "--rejudge", help="Judge every candidate again; exit with 1 if a verdict differs."
        ),
    ] = False,
    rerun: Annotated[
        bool,
        typer.Option(
            "--rerun",
            help="Re-run the chat from recorded replies with this machine's judge; exit with 1 if a"
            " verdict differs.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="With --rerun: output folder for the new run."),
    ] = None,
    device: Annotated[
        str, typer.Option(help="Device for --rejudge and --rerun: auto, cuda, cuda:N or virtual.")
    ] = "auto",
    trust: TrustOption = False,
    as_json: JsonOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the result.")] = False,
) -> None:
    """Show a recorded run as it looked live, or judge it again."""
    from astra_chat.replay.show import Selection, show_prompts, wants_pager
    from astra_chat.replay.show import replay as show
    from astra_chat.transcript.reader import incompleteness, read, unknown_kinds
    from astra_vgpu.ground.errors import BadInput

    transcript = read(file)
    ways = [
        name
        for name, given in (
            ("--prompts", prompts),
            ("--rejudge", rejudge),
            ("--rerun", rerun),
            ("--source", source is not None),
            ("--diff", diff is not None),
            ("--grep", grep is not None),
        )
        if given
    ]
    _require_one_way(ways, quiet, out)
    wanted = Selection(None if prompts else turn, round_number, tuple(role or ()))
    others = [*ways, *(["--json"] * as_json), *(["--quiet"] * quiet)]
    if wanted or speed is not None:
        _require_plain(others, speed)
    if source is not None or diff is not None or grep is not None:
        _print_text(transcript, source, diff, grep, as_json or quiet)
    elif rejudge:
        _rejudge(transcript, device, trust, as_json, quiet)
    elif rerun:
        _rerun(transcript, device, trust, out, as_json, quiet)
    elif prompts:
        show_prompts(transcript, turn, as_json)
    elif others:
        _show(transcript, as_json, quiet)
    else:
        show(transcript, False, wanted, speed, wants_pager(pager) and speed is None)
        if not wanted:
            print(f"transcript: {transcript.path}")
    lacking = "; ".join(filter(None, (unknown_kinds(transcript), incompleteness(transcript))))
    if transcript.torn and lacking:
        raise BadInput(lacking)
    if lacking:
        note(lacking)


def _require_one_way(ways: list[str], quiet: bool, out: Path | None) -> None:
    from astra_vgpu.ground.errors import BadInput

    if out is not None and "--rerun" not in ways:
        raise BadInput("--out requires --rerun")
    if len(ways) > 1:
        raise BadInput(f"{' and '.join(ways)} cannot be combined")
    if quiet and "--prompts" in ways:
        raise BadInput("--quiet and --prompts cannot be combined")


def _require_plain(others: list[str], speed: float | None) -> None:
    """What chooses turns goes with a plain replay only."""
    from astra_vgpu.ground.errors import BadInput

    if others:
        raise BadInput(
            "--turn, --round, --role and --speed apply only to a plain replay: omit"
            f" {', '.join(others)}"
        )
    if speed is not None and not 0 < speed < math.inf:
        raise BadInput(f"--speed {speed:g}: it must be greater than 0")


def _print_text(
    transcript: Transcript,
    source: str | None,
    diff: tuple[str, str] | None,
    grep: str | None,
    other: bool,
) -> None:
    """A source, a difference, or the lines found; exit 1 where none is."""
    from astra_chat.replay import show
    from astra_vgpu.ground.errors import BadInput

    if other:
        raise BadInput("--source, --diff and --grep print text: omit --json and --quiet")
    if source is not None:
        _write(show.source(transcript, source))
    if diff is not None:
        _write(show.difference(transcript, *diff))
    lines = [] if grep is None else list(show.found(transcript, grep))
    for line in lines:
        print(line)
    if grep is not None and not lines:
        note(f"no line contains '{grep}'")
        raise typer.Exit(CHECK_FAILED)


def _write(text: str) -> None:
    """Into a file or a pipe as it is."""
    sys.stdout.write(plain(text) if sys.stdout.isatty() else text)


def _show(transcript: Transcript, as_json: bool, quiet: bool) -> None:
    if as_json:
        from astra_chat.display.output_modes import print_json
        from astra_chat.transcript.summary import summarize

        print_json(summarize(transcript.records), transcript.path)
        return
    from astra_chat.replay.show import replay as show

    show(transcript, quiet)
    print(f"transcript: {transcript.path}")


def _rejudge(transcript: Transcript, device: str, trust: bool, as_json: bool, quiet: bool) -> None:
    """Recorded and new verdicts, candidate by candidate; exit 1 if one differs."""
    from astra_chat.display.console import console
    from astra_chat.replay.rejudge import rejudge, rejudged_json, rejudged_text

    def told(candidate: str) -> None:
        if not quiet:
            note(f"{candidate} judged again")

    found = rejudge(transcript, device, trust=trust, on_each=lambda one: told(one.candidate))
    if as_json:
        print(rejudged_json(found))
    else:
        console().print(rejudged_text(found))
    if not all(one.agrees for one in found):
        raise typer.Exit(CHECK_FAILED)


def _rerun(
    transcript: Transcript,
    device: str,
    trust: bool,
    out: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """The chat again, then what both runs judged, side by side; exit 1 if a verdict differs."""
    from astra_chat.display.console import console
    from astra_chat.display.output_modes import show_for
    from astra_chat.replay.rejudge import rejudged_text
    from astra_chat.replay.rerun import compared, rerun, rerun_json

    show = show_for(as_json, quiet)
    try:
        result = rerun(transcript, device, out, trust, show)
    finally:
        show.close()
    both, missing = compared(transcript, result.transcript)
    if as_json:
        print(rerun_json(result.summary, result.transcript, both, missing))
    else:
        show.end(result.summary, result.transcript)
        console().print(rejudged_text(both))
        if missing:
            print(f"not reached in this run: {', '.join(missing)}")
    if missing or not all(one.agrees for one in both):
        raise typer.Exit(CHECK_FAILED)
