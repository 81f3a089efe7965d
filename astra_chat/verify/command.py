"""`astra-chat verify` and `astra-chat pack`: the claims of a run recomputed, and a run as one
file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from astra_chat.arguments import RunArgument, present
from astra_chat.cli.exit_codes import CHECK_FAILED
from astra_chat.cli.options import JsonOption, TrustOption
from astra_chat.display.notes import note

if TYPE_CHECKING:
    from rich.console import RenderableType

    from astra_chat.verify.claims import Verification
    from astra_chat.verify.verify import Measuring

SHOWN = 20
"""Claims that fail, one line each."""


def register(app: typer.Typer) -> None:
    app.command(short_help="Recompute every claim of a recorded run.")(verify)
    app.command(short_help="Write a run as one self-contained file.")(pack)


def verify(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Transcripts, run folders, or bundles written by `pack`.",
            callback=present,
        ),
    ],
    measure: Annotated[
        bool, typer.Option("--measure", help="Judge the winner again on this machine.")
    ] = False,
    device: Annotated[
        str,
        typer.Option(
            help="Device for --measure: auto, cuda, cuda:N or virtual; default: as recorded."
        ),
    ] = "",
    strict: Annotated[
        bool, typer.Option("--strict", help="Also exit with 1 if a claim cannot be checked.")
    ] = False,
    key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Require a bundle signed by this Ed25519 key (PEM)."),
    ] = None,
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Recompute every claim of a recorded run: hashes, seeds, cases, figures, winner, ledger.

    Without --measure, no GPU is needed and none of the run's code is executed. Exit code 1: a claim
    fails.
    """
    from astra_chat.display.console import console
    from astra_chat.verify.verify import Measuring
    from astra_vgpu.ground.errors import BadInput

    if (device or trust) and not measure:
        raise BadInput("--device and --trust require --measure")
    measuring = Measuring(device, trust) if measure else None
    found = [(file, _verified(file, measuring, key)) for file in files]
    if as_json:
        _print_json(found)
    for file, one in found:
        if not as_json:
            console().print(_table(file, one))
        for text in one.notes:
            note(text)
    if not all(one.stands and not (strict and one.count("unchecked")) for _, one in found):
        raise typer.Exit(CHECK_FAILED)


def _verified(file: Path, measuring: Measuring | None, key: Path | None) -> Verification:
    from astra_chat.transcript.reader import read
    from astra_chat.verify.bundle import is_bundle, read_bundle
    from astra_chat.verify.verify import verify as verified
    from astra_chat.verify.verify import verify_bundle
    from astra_vgpu.ground.errors import BadInput

    if is_bundle(file):
        return verify_bundle(read_bundle(file), measuring, _public_key(key) if key else None)
    transcript = read(file)  # a file that is missing is said first
    if key is not None:
        raise BadInput(f"{file} is not a bundle: only bundles can be signed")
    return verified(transcript, measuring)


def _public_key(path: Path) -> bytes:
    from astra_chat.verify.signature import public_key  # needs an extra

    return public_key(path)


def _table(file: Path, found: Verification) -> RenderableType:
    """Each kind of claim with its counts, then what fails and why some cannot be checked."""
    from rich.console import Group
    from rich.text import Text

    from astra_chat.display.tables import ResultTable
    from astra_chat.tools.wording import counted
    from astra_chat.verify.claims import by_name

    rows = ResultTable(box=None, pad_edge=False, title=str(file), title_justify="left")
    for name in ("claim", "holds", "fails", "unchecked"):
        rows.add_column(name, justify="left" if name == "claim" else "right")
    for name, claims in by_name(found.claims).items():
        counts = [sum(one.status == s for one in claims) for s in ("stands", "fails", "unchecked")]
        style = "bold red" if counts[1] else "yellow" if counts[2] else "green"
        rows.add_row(Text(name, style), *(str(count or "") for count in counts))
    failing = [one for one in found.claims if one.status == "fails"]
    lines = [Text(f"FAILS  {one.about}: {one.name}: {one.why}", "bold red") for one in failing]
    if len(lines) > SHOWN:
        lines[SHOWN:] = [Text(f"... and {len(lines) - SHOWN} more", "bold red")]
    reasons = dict.fromkeys(
        f"unchecked: {one.name}: {one.why}" for one in found.claims if one.status == "unchecked"
    )
    lines += [Text(reason, "yellow") for reason in list(reasons)[:SHOWN]]
    if found.signed_by:
        lines.append(Text(f"signed by the key {found.signed_by}"))
    words = f"{found.count('stands')} of {counted(len(found.claims), 'claim')} confirmed"
    words += f", {found.count('fails')} fail" if failing else ""
    if open_claims := found.count("unchecked"):
        words += f", {open_claims} cannot be checked here (see the reasons above)"
    lines.append(Text(words, "bold red" if failing else "bold"))
    if old := found.too_old:
        lines.append(
            Text(
                f"{old} of these cannot be checked anywhere: an early version of Astra recorded the"
                " run, without seeds, evidence or samples. This says nothing against the run;"
                " --measure judges its winner again."
            )
        )
    return Group(rows, *lines)


def _print_json(found: list[tuple[Path, Verification]]) -> None:
    runs = [{**one.model_dump(mode="json"), "file": str(file)} for file, one in found]
    print(json.dumps({"schema": "astra-chat/verify/1", "runs": runs}, indent=2))


def pack(
    run: RunArgument,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="The bundle. [default: <run>.zip]")
    ] = None,
    sign: Annotated[
        Path | None,
        typer.Option(metavar="KEY", help="Sign with this Ed25519 private key (PEM)."),
    ] = None,
    license: Annotated[
        str,
        typer.Option(
            metavar="SPDX", help="Licence of the task and the candidates, such as Apache-2.0."
        ),
    ] = "",
    build: Annotated[
        bool,
        typer.Option("--build/--no-build", help="Include machine code and launch plans."),
    ] = True,
    trust: TrustOption = False,
) -> None:
    """Write a run as one self-contained file that `astra-chat verify` checks anywhere.

    Machine code and launch plans are rebuilt with this machine's nvcc, and packed if they match the
    recorded hashes. To rebuild the plans, the recorded launchers are run in isolation, without a
    GPU.
    """
    from astra_chat.transcript.reader import read
    from astra_chat.verify.pack import pack as packed
    from astra_vgpu.ground.errors import BadInput

    transcript = read(run)
    target = out or Path(f"{transcript.header.task.name}-{transcript.records[0].run}.zip")
    if target.exists():
        raise BadInput(f"{target} already exists and is not overwritten: choose another with -o")
    manifest = packed(
        transcript, target, key=sign, license=license, build=build, trust=trust, tell=note
    )
    for text in manifest.left_out:
        note(f"left out: {text}")
    print(target)
