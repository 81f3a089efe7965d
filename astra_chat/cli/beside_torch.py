"""`astra-chat torch`: a kernel beside the PyTorch module that its task was made from."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

import typer

from astra_chat.arguments import present
from astra_chat.cli.exit_codes import CHECK_FAILED
from astra_chat.cli.options import JsonOption, TaskArgument, options
from astra_chat.options import JudgeOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from astra_chat.tools.timing.module_times import BesideModule, ModuleTime

KernelOrBaseline = Annotated[
    Path | None,
    typer.Argument(
        metavar="[KERNEL]",
        help="The kernel or torch extension, or - for stdin. Default: the task's baseline.cu.",
        callback=present,
    ),
]


class CompileMode(Enum):
    """Modes of torch.compile; the command makes the CUDA graphs itself."""

    DEFAULT = "default"
    MAX_AUTOTUNE = "max-autotune-no-cudagraphs"


def register(app: typer.Typer) -> None:
    app.command("torch", short_help="Time a kernel against PyTorch: eager, torch.compile, graphs.")(
        beside_torch
    )


@options(JudgeOptions, "device cases trust seed as_json")
def beside_torch(
    task: TaskArgument,
    kernel: KernelOrBaseline = None,
    compilations: Annotated[
        int,
        typer.Option(
            min=0, max=20, help="How many times to run torch.compile; the fastest result counts."
        ),
    ] = 3,
    mode: Annotated[CompileMode, typer.Option(help="Mode of torch.compile.")] = CompileMode.DEFAULT,
    as_json: JsonOption = False,
    **judging: Unpack[JudgeOptions],
) -> None:
    """Time KERNEL against the PyTorch module of a task from `astra-chat new --from problem.py`:
    eager and torch.compile, launched call by call and replayed as CUDA graphs.

    KERNEL is checked first. Then KERNEL and the baselines are timed alternately, on the same
    buffers in one process; a baseline that cannot be timed is listed with the reason. This needs
    a GPU.

    A KERNEL that defines `torch::Tensor forward(...)` is a torch extension: it may call some
    PyTorch operators, and it runs in an untrusted process of its own, alternating with the
    baselines.
    """
    from astra_chat.cli.judge import show_evaluation
    from astra_chat.cli.kernel_text import text_of
    from astra_chat.display.work_progress import work_progress
    from astra_chat.judging.evaluating import open_judge
    from astra_chat.tools.descriptions import describe
    from astra_chat.tools.language import is_extension
    from astra_chat.tools.timing.module_times import BesideModule
    from astra_chat.tools.types import Correct

    judging["cases"] = judging["cases"] or "bench"
    with work_progress(as_json) as tell, open_judge(task, on_progress=tell, **judging) as judge:
        source = text_of(kernel) if kernel else judge.baseline
        if source != judge.baseline and judge.device.kind == "cuda" and not is_extension(source):
            evaluation = judge.check(source)
            if not isinstance(evaluation.outcome, Correct):
                show_evaluation(evaluation, as_json, quiet=False)
                raise typer.Exit(CHECK_FAILED)
        found = judge.beside_module(source, judge.weighted, compilations, mode.value)
    if not isinstance(found, BesideModule):
        print(describe(found))
        raise typer.Exit(CHECK_FAILED)
    print(found.model_dump_json(indent=2) if as_json else "\n".join(lines(found)))
    if not found.ran:
        raise typer.Exit(CHECK_FAILED)


def lines(found: BesideModule) -> Iterator[str]:
    """The report as lines of text: what holds for all, then a line for each baseline."""
    allowed = "on" if found.tensor_float32 else "off"
    yield f"{found.task}: candidate {found.candidate} compared with PyTorch on {found.device}"
    yield (
        f"TF32 for float32 matrix products and convolutions: {allowed} (tensor_float32 of"
        " task.toml)"
    )
    yield (
        f"torch.compile: mode {found.mode}, best of {found.compilations} compilations, each"
        " starting with empty caches"
    )
    yield f"trust: {found.trust}"
    case = None
    for one in found.times:
        if one.case != case:
            case = one.case
            yield case.label
        yield f"  {one.baseline:26}{_row(one)}"


def _row(one: ModuleTime) -> str:
    times = one.times
    if times is None:
        return f"not run: {one.not_run}"
    text = (
        f"{times.us:10.2f} us   candidate {times.candidate_us:10.2f} us   {times.ratio:.3f}x,"
        f" 95 % {times.ratio_low:.3f} to {times.ratio_high:.3f}"
    )
    if one.compilations_us:
        text += f"   (compilations: {', '.join(f'{us:.2f}' for us in one.compilations_us)} us)"
    return f"{text}   {one.note}" if one.note else text
