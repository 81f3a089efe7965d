"""`astra-chat step`: what winners gain in a step of the user's engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from astra_chat.arguments import present
from astra_chat.cli.exit_codes import CHECK_FAILED

if TYPE_CHECKING:
    from astra_chat.package.engine_file import Engine
    from astra_chat.step.judged import StepReport
    from astra_chat.step.samples import Samples, StepRequest

SAMPLES = (".json", ".json.xz", ".json.gz")
MODELS = ("dense8", "moe6")
"""Models whose dimensions the program in inside/ knows."""


def register(app: typer.Typer) -> None:
    app.command(short_help="Measure a captured step of an engine with and without winners.")(step)


def step(
    given: Annotated[
        list[Path],
        typer.Argument(
            metavar="PACKAGE|SAMPLES",
            help="Folder or wheel that `astra-chat package` wrote, or files that --samples wrote.",
            callback=present,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="FILE",
            help="Write the report as JSON; this file also serves as a proof.",
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the report as an HTML page.")
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="NAME|DIR",
            help="dense8 (Qwen3-8B, 8 layers), moe6 (Qwen3-30B-A3B, 6 layers), or a folder with a"
            " config.json; weights are random. Default: both.",
        ),
    ] = None,
    call: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help=(
                "A function to use instead of a model: it takes the number of requests and"
                " returns a function that computes one step."
            ),
        ),
    ] = None,
    batches: Annotated[
        list[int] | None,
        typer.Option("--batch", metavar="N", min=1, help="Requests in a step. Default: 1, 8, 64."),
    ] = None,
    rounds: Annotated[
        int, typer.Option(min=6, max=10_000, help="How many times to time each variant.")
    ] = 25,
    alone: Annotated[
        bool,
        typer.Option("--alone/--not-alone", help="Also measure the step with each winner alone."),
    ] = True,
    engine_arguments: Annotated[
        str, typer.Option(metavar="WORDS", help="Additional arguments for SGLang's server.")
    ] = "",
    python: Annotated[
        Path | None,
        typer.Option(
            metavar="PYTHON", help="The engine's Python interpreter. Default: Astra's own."
        ),
    ] = None,
    samples: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep the samples of each model in this folder."),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(min=0, metavar="S", help="Time limit per model in seconds; 0: no limit."),
    ] = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Time one captured decode step with and without each winner, and compare the logits.

    The variants alternate in one process, on one GPU. The report says which winners a package
    should contain: `astra-chat package --proof` accepts it as a proof and leaves out the other
    winners.
    """
    import shlex

    from astra_chat.step.judged import judged
    from astra_chat.step.page import page, words
    from astra_chat.tools.system.files import write_whole

    files = [path for path in given if path.name.endswith(SAMPLES)]
    if files:
        found = _read(given, files)
    else:
        requests = _requests(
            given, call, models, batches, rounds, alone, shlex.split(engine_arguments), samples
        )
        from astra_chat.step.running import measure

        found = measure(given[0], requests, python, timeout)
    report = judged(found)
    if out is not None:
        write_whole(out, (report.model_dump_json(indent=1) + "\n").encode())
    if html is not None:
        write_whole(html, page(report).encode())
    print(report.model_dump_json(indent=1) if as_json else "\n".join(words(report)))
    if _has_losses(report):
        raise typer.Exit(CHECK_FAILED)


def _read(given: list[Path], files: list[Path]) -> list[Samples]:
    """Samples of one package, GPU and engine. Raises BadInput."""
    from astra_chat.step.samples import read_samples
    from astra_vgpu.ground.errors import BadInput

    if len(files) != len(given):
        raise BadInput("give one package, or files of samples (.json), not both")
    found = [read_samples(path) for path in files]
    for path, one in zip(files, found, strict=True):
        first = found[0]
        same = ("engine", "version", "gpu", "packaged")
        if any(getattr(one, key) != getattr(first, key) for key in same):
            raise BadInput(f"{path} belongs to a different package, engine or GPU than {files[0]}")
    return found


def _requests(
    given: list[Path],
    call: str | None,
    models: list[str] | None,
    batches: list[int] | None,
    rounds: int,
    alone: bool,
    arguments: list[str],
    samples: Path | None,
) -> list[StepRequest]:
    """What to measure, for each model. Raises BadInput."""
    from astra_chat.step.samples import StepRequest
    from astra_vgpu.ground.errors import BadInput

    if len(given) != 1:
        raise BadInput("give one package")
    if call is not None and models:
        raise BadInput("--call replaces --model: give only one of them")
    if call is not None and not all(call.partition(":")):
        raise BadInput(f"--call {call}: write it as MODULE:FUNCTION")
    names = [call] if call is not None else models or list(MODELS)
    for name in names:
        if call is None and name not in MODELS and not (Path(name) / "config.json").is_file():
            raise BadInput(
                f"--model {name}: it is neither {' nor '.join(MODELS)} nor a folder with a"
                " config.json"
            )
    if samples is not None:
        samples.mkdir(parents=True, exist_ok=True)
    chosen = sorted(set(batches or (1, 8, 64)))
    return [
        StepRequest(
            engine=_engine(given[0]),
            model="" if call is not None else name,
            call=call,
            batches=tuple(chosen),
            rounds=rounds,
            steps=8,
            prompt_tokens=128,
            alone=alone,
            arguments=tuple(arguments),
            out=str(samples / f"{_file_name(name)}.json") if samples is not None else "",
        )
        for name in names
    ]


def _engine(package: Path) -> Engine:
    """The engine that a package is for. Raises BadInput."""
    from astra_chat.package.checking import packaged

    engine: Engine = packaged(package)["engine"]
    return engine


def _file_name(model: str) -> str:
    return Path(model).name.replace(":", "-") or "model"


def _has_losses(report: StepReport) -> bool:
    return any(one.finding in ("loses", "less exact") for one in report.operators.values())
