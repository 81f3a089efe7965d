"""`astra-chat judge`: judges the evaluations of runs with --judge detached, on any machine."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from astra_chat.arguments import present
from astra_chat.cli.exit_codes import BAD_INPUT, ENVIRONMENT
from astra_chat.cli.options import DeviceOption, JsonOption, RunsArgument, TrustOption
from astra_chat.display.notes import note
from astra_chat.tools.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from astra_chat.detached.packing import Carried
    from astra_chat.tools.types import Device

BESIDE = "--beside"
"""How the first of several workers starts the others."""

app = typer.Typer(
    help="Judge kernels on this machine for runs with --judge detached.", no_args_is_help=True
)

WORKED, CARRIED = "astra-chat/worked/1", "astra-chat/carried/1"
WORDS = {
    "judged": "judged",
    "refused": "refused",
    "claimed": "with other workers",
    "failed": "failed",
}


def register(main: typer.Typer) -> None:
    main.add_typer(app, name="judge", short_help="Judge kernels for runs on other machines.")


@app.command(short_help="Judge all open jobs of the runs in DIR.")
def work(
    folders: RunsArgument,
    device: DeviceOption = "auto",
    once: Annotated[
        bool, typer.Option("--once", help="Exit when no open job is left, instead of waiting.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help=(
                "Number of jobs to judge at the same time; default: two to four on a GPU,"
                " depending on the number of cores."
            ),
        ),
    ] = None,
    trust: TrustOption = False,
    beside: Annotated[bool, typer.Option(BESIDE, hidden=True)] = False,
    as_json: JsonOption = False,
) -> None:
    """Judge all open jobs of the runs in DIR, and write the results next to them.

    On a GPU, several workers judge in parallel: while one measures, the others build and check.
    --json prints one document at the end, so it requires --once. Exit code with --once: 2 if a
    job was refused, 3 if a result could not be written.
    """
    import signal
    import sys

    from astra_chat.detached.answering import at_end_of, interrupt
    from astra_chat.detached.side_by_side import Beside, most_workers, tell_the_first
    from astra_chat.tools.system.devices import pick_device
    from astra_vgpu.ground.errors import BadInput

    if as_json and not once:
        raise BadInput("--json requires --once: without --once, the command never ends")
    chosen, lines = pick_device(device), list[str]()
    if beside:
        # A shell lets what it starts in the background ignore this signal.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        at_end_of(sys.stdin.buffer, interrupt)
        count = _worked(chosen, folders, once, trust, lambda line: tell_the_first(said=line))
        tell_the_first(count=count)
        return

    def say(line: str) -> None:
        """Once: what is refused, each worker refuses."""
        if line not in lines:
            lines.append(line)
            if not as_json:
                print(line, flush=True)

    flags = [*(["--once"] if once else []), *(["--trust"] if trust else [])]
    words = [*map(str, folders), "--device", device, "--workers", "1", BESIDE, *flags]
    with Beside(words, (workers or most_workers(chosen)) - 1, say) as others:
        count = _worked(chosen, folders, once, trust, say, quiet=as_json)
        count = others.all_of(count, lambda: _worked(chosen, folders, True, trust, say))
    if as_json:
        print(json.dumps({"schema": WORKED, "count": count, "lines": lines}, indent=2))
    else:
        note(", ".join(f"{number} {WORDS[what]}" for what, number in count.items()))
    if count["failed"]:
        raise typer.Exit(ENVIRONMENT)
    if count["refused"]:
        raise typer.Exit(BAD_INPUT)


def _worked(
    device: Device,
    folders: list[Path],
    once: bool,
    trust: bool,
    say: Callable[[str], None],
    *,
    quiet: bool = True,
) -> dict[str, int]:
    """What came of the jobs of one worker; without `once` it never ends."""
    from astra_chat.detached.worker import Worker, work_on
    from astra_chat.display.work_progress import work_progress
    from astra_chat.session.provenance import versions

    with work_progress(quiet=quiet) as tell:
        begin = (lambda _: None) if quiet else note
        worker = Worker(
            device, versions(device), trust=trust, say=say, begin=begin, on_progress=tell
        )
        if not once:
            places = ", ".join(map(str, folders))
            if not quiet:
                here = f"in {places} on {device.name}"
                note(f"judging the jobs that arrive {here}; press Ctrl-C to stop")
            work_on(worker, folders, threading.Event())
        return {str(name): number for name, number in worker.work(folders).items()}


@app.command(hidden=True)
def answer(
    device: DeviceOption = "auto",
    trust: TrustOption = False,
    check: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="Only check whether this machine can judge the jobs."),
    ] = None,
) -> None:
    """Judge jobs read from stdin, and write the results to stdout; --judge ssh:HOST and
    --judge ray call this command. The command exits at the end of stdin.
    """
    import sys

    from astra_chat.detached.answering import (
        answered,
        at_end_of,
        interrupt,
        own_stdout,
        read_framed,
    )
    from astra_chat.detached.worker import Worker, require_fit
    from astra_chat.session.provenance import versions
    from astra_chat.tools.system.devices import pick_device

    results, chosen = own_stdout(), pick_device(device)
    if check is not None:
        require_fit(check, chosen)
        return
    packed = read_framed(sys.stdin.buffer)
    done = at_end_of(sys.stdin.buffer, interrupt)
    found = answered(packed, Worker(chosen, versions(chosen), trust=trust, say=note))
    done.set()
    with results:
        results.write(found)


@app.command(short_help="Pack open jobs and new results into one file.")
def pack(
    folders: RunsArgument,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="The file to write.")],
    as_json: JsonOption = False,
) -> None:
    """Put open jobs, and results that no run has taken yet, into one file to be copied
    elsewhere."""
    from astra_chat.detached.packing import pack as pack_jobs

    _report(out, pack_jobs(folders, out), as_json)


@app.command(short_help="Unpack jobs and results from FILE into DIR.")
def unpack(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="File made by `judge pack`.", callback=present)
    ],
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder that contains the runs or jobs.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Put the results from FILE next to their jobs in DIR, and new jobs into DIR/jobs."""
    from astra_chat.detached.packing import unpack as unpack_jobs

    _report(file, unpack_jobs(file, folder), as_json)


def _report(file: Path, carried: Carried, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"schema": CARRIED, "file": str(file), **asdict(carried)}, indent=2))
        return
    for line in carried.left_out:
        note(f"left out: {line}")
    print(
        f"{file}: {counted(carried.jobs, 'open job')}, {counted(carried.results, 'result')},"
        f" {counted(carried.refusals, 'refusal')}"
    )
