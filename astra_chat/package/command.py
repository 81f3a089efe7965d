"""`astra-chat package`: winners of recorded runs, ready to be used elsewhere."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from astra_chat.arguments import present
from astra_chat.cli.exit_codes import CHECK_FAILED
from astra_chat.display.notes import note

if TYPE_CHECKING:
    from astra_chat.package.engine_file import Engine
    from astra_chat.package.winners import Winner


class Target(Enum):
    FILES = "files"
    SGLANG = "sglang"
    VLLM = "vllm"
    SGLANG_PR = "sglang-pr"


def register(app: typer.Typer) -> None:
    app.command(short_help="Package winners as files, as an engine plugin, or for upstream.")(
        package
    )


def package(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN",
            help="Folders of runs, transcripts, or evaluations saved with --json; with --check, the"
            " package.",
            callback=present,
        ),
    ],
    target: Annotated[
        Target | None,
        typer.Option(
            "--for",
            help="files: the source with a README, a tvm-ffi module and a PyTorch operator; sglang,"
            " vllm: a plugin; sglang-pr: files for a pull request to SGLang.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="DIR", help="Folder to create.")
    ] = None,
    tasks: Annotated[
        list[Path] | None,
        typer.Option(
            "--task",
            metavar="DIR",
            help="Folder of your own task; its engine.toml says where engines call the kernel.",
        ),
    ] = None,
    arch: Annotated[
        str | None,
        typer.Option(
            metavar="SM",
            help="Architecture to build for, in nvcc's notation; default: that of the runs.",
        ),
    ] = None,
    proof: Annotated[
        list[Path] | None,
        typer.Option(
            "--proof",
            metavar="FILE",
            help="For a plugin: a file that --prove wrote; may be repeated, once per GPU.",
        ),
    ] = None,
    prove: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Start the engine with the winners, and record in FILE which kernels it ran.",
        ),
    ] = None,
    engine_command: Annotated[
        str | None,
        typer.Option(metavar="COMMAND", help="For --prove: the command that starts the engine."),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(min=0, metavar="S", help="Time limit for --prove in seconds; 0: no limit."),
    ] = 0.0,
    trial: Annotated[
        bool,
        typer.Option(
            "--trial",
            help="Write a plugin without a proof; it works only under `astra-chat step`.",
        ),
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Show which functions of the installed engine a package hooks."
        ),
    ] = False,
    python: Annotated[
        Path | None,
        typer.Option(
            metavar="PYTHON",
            help="For --check: the engine's Python interpreter; default: Astra's own.",
        ),
    ] = None,
) -> None:
    """Package the fastest winner of each task among the given RUNs.

    A plugin contains only operators whose kernels were seen in the engine's CUDA graphs on a GPU:
    use --prove to record them in a file, and pass that file with --proof.
    """
    from contextlib import ExitStack

    from astra_chat.package.plugins import proved_plugin, trial_plugin, write_proof
    from astra_chat.package.winners import winners, with_engine_files
    from astra_vgpu.ground.errors import BadInput

    if check:
        from astra_chat.package.checking import check_installed

        if len(runs) != 1 or target or out:
            raise BadInput("--check takes the folder or wheel of one package, without --for and -o")
        raise typer.Exit(check_installed(runs[0], python))
    if target is None:
        raise BadInput("choose what to write: --for files, sglang, vllm or sglang-pr")
    if out is None and prove is None:
        raise BadInput("give the new folder with -o DIR")
    plugin = target in (Target.SGLANG, Target.VLLM)
    _require_options_that_fit(target, plugin, trial, bool(prove or proof), engine_command)
    engine: Engine = "vllm" if target is Target.VLLM else "sglang"
    with ExitStack() as stack:
        found = with_engine_files(winners(runs, stack), tasks or [])
        if prove is not None:
            if not write_proof(found, engine, arch, engine_command, prove, timeout):
                raise typer.Exit(CHECK_FAILED)
            return
        assert out is not None, "asked for before"
        if trial:
            trial_plugin(found, engine, arch, out)
        elif plugin:
            proved_plugin(found, engine, proof or [], out)
        else:
            _files(found, target, out, arch)
    print(f"wrote {out}")
    if plugin and not trial:
        note(f"install it: pip install {out}/dist/*.whl")


def _require_options_that_fit(
    target: Target, plugin: bool, trial: bool, proved: bool, engine_command: str | None
) -> None:
    """Raises BadInput."""
    from astra_vgpu.ground.errors import BadInput

    if (proved or engine_command or trial) and not plugin:
        raise BadInput(
            "--prove, --proof, --engine-command and --trial cannot be used with"
            f" --for {target.value}"
        )
    if trial and proved:
        raise BadInput("--trial makes a package before there is a proof: omit --prove and --proof")


def _files(found: list[Winner], target: Target, out: Path, arch: str | None) -> None:
    from astra_chat.export.writing import new_folder
    from astra_chat.package.folder import write_files

    with new_folder(out) as folder:
        if target is Target.FILES:
            for one in found:
                print(f"{one.task.name}: {one.words}")
                write_files([one], arch or one.summary.device.arch, folder)
        else:
            from astra_chat.package.sglang_pr import write_pull_request

            write_pull_request(found, folder)
