"""`astra-chat tune`: choose the constants of a kernel, without a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

import typer

from astra_chat.cli.judge import end
from astra_chat.cli.kernel_text import text_of
from astra_chat.cli.options import JsonOption, KernelArgument, TaskArgument, options
from astra_chat.display.notes import note
from astra_chat.options import JudgeOptions
from astra_chat.tools.wording import counted

if TYPE_CHECKING:
    from astra_chat.display.tables import ResultTable
    from astra_chat.tools.tuning.search import TunedPoint, TuningReport
    from astra_chat.tools.tuning.shapes import ShapeTable

SHOWN = 12
"""Points in the table."""
FEW, EVERY = 16, 16
"""A note for each of so many points, and of more for every so many."""


def register(app: typer.Typer) -> None:
    app.command(short_help="Tune a kernel's constants without a model.")(tune)


@options(JudgeOptions, "device gpu cases baseline trust engine seed as_json")
def tune(
    task: TaskArgument,
    kernel: KernelArgument,
    param: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=1,2,4",
            help="Values to try for a constant that is not marked in the kernel; may be repeated.",
        ),
    ] = None,
    points: Annotated[
        int,
        typer.Option(
            min=1,
            help="Maximum number of combinations to rank; if there are more, a sample is drawn.",
        ),
    ] = 300,
    judged: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many of the best-ranked combinations to judge. Default: 16 on a GPU, where"
            " successive halving compares them; 8 on the virtual GPU, which judges each in full.",
        ),
    ] = None,
    by_shape: Annotated[
        bool,
        typer.Option(
            "--by-shape",
            help=(
                "Use separate constants for two ranges of shapes if this choice is faster on"
                " held-out shapes."
            ),
        ),
    ] = False,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Write the best kernel to this file.")
    ] = None,
    as_json: JsonOption = False,
    **judging: Unpack[JudgeOptions],
) -> None:
    """Tune the constants that KERNEL marks: 'constexpr int THREADS = 256; // tune: 64 128 256'.
    The virtual GPU ranks the combinations that build and meet every condition in the source, such
    as '// require: THREADS * ROWS <= 1024'. The judge measures the best-ranked ones and confirms
    the fastest."""
    from astra_chat.display.work_progress import work_progress
    from astra_chat.judging.evaluating import open_judge
    from astra_chat.tools.language import is_triton
    from astra_chat.tools.system.files import write_whole
    from astra_chat.tools.tuning.search import tune as tuned
    from astra_chat.tools.tuning.space import read_space
    from astra_vgpu.ground.errors import BadInput

    space = read_space(text_of(kernel), dict(map(_values, param or [])))
    if by_shape and is_triton(space.source):
        raise BadInput(
            "--by-shape supports CUDA kernels only: in Triton, write the choice into the launcher"
        )
    constants = counted(len(space.parameters), "constant")
    note(f"{constants}, {counted(space.combinations, 'combination')}")
    with work_progress() as told, open_judge(task, on_progress=told, **judging) as judge:
        report = tuned(
            judge, space, most_points=points, judged=judged, by_shape=by_shape, tell=_tell
        )
    if out and report.source:
        write_whole(out, report.source.encode())
    if as_json:
        print(report.model_dump_json(indent=2))
    else:
        _show(report, out)
    end(report.confirmation is not None)


def _values(text: str) -> tuple[str, list[int]]:
    from astra_vgpu.ground.errors import BadInput

    name, _, values = text.partition("=")
    try:
        found = [int(value) for value in values.split(",")]
    except ValueError:
        found = []
    if not name.isidentifier() or not found:
        raise BadInput(f"--param {text}: write NAME=1,2,4 with integers only")
    return name, found


def _tell(what: str, done: int, total: int) -> None:
    if total == 0:
        note(what)
    elif total <= FEW or done in (0, total) or done % EVERY == 0:
        note(f"{done} of {total} {what}")


def _show(report: TuningReport, out: Path | None) -> None:
    from astra_chat.display.console import console
    from astra_chat.display.evaluation_view import evaluation_text
    from astra_chat.tools.task.expressions import assignments

    screen = console()
    screen.print(_table(report))
    for number, one in enumerate(report.halving.rounds if report.halving else (), 1):
        screen.print(f"round {number}: {one.text}")
    if report.confirmation is None:
        screen.print("none of the judged points is correct")
        return
    if report.by_shape:
        screen.print(_by_shape(report.by_shape))
    written = f", written to {out}" if out else ""
    screen.print(f"best: {assignments(report.best)}{_why(report)}{written}")
    screen.print(evaluation_text(report.confirmation))


def _why(report: TuningReport) -> str:
    """The speed of the best point beside the starting point's, as both were judged."""
    ratios = [
        next((point.ratio for point in report.points if point.values == values), None)
        for values in (report.best, report.start)
    ]
    if report.best == report.start or None in ratios:
        return ""
    best, start = ratios
    return f" ({best:.3f}x the baseline's speed; the starting point: {start:.3f}x)"


def _by_shape(table: ShapeTable) -> str:
    """A choice by shape in one line, and whether it was taken."""
    from astra_chat.tools.task.expressions import assignments

    below, above = map(assignments, (table.below, table.above))
    words = f"by shape: {below} where {table.condition}, else {above}: {table.tuned_gain:.3f}x"
    words += " the speed of the single choice on the tuned shapes"
    if table.gain is not None:
        words += f", {table.gain:.3f}x on {len(table.held_out)} held-out ones"
        words += f" (a tie below {table.least:.3f}x)"
    return f"{words}; " + (f"not used: {table.why}" if table.why else "used")


def _table(report: TuningReport) -> ResultTable:
    from astra_chat.display.tables import ResultTable
    from astra_chat.tools.descriptions import verdict

    table = ResultTable(
        title=f"{report.task}: {counted(len(report.points), 'point')} ranked, on {report.device}"
    )
    for name in report.start:
        table.add_column(name, justify="right")
    table.add_column("ranked", justify="right")
    table.add_column("judged", justify="right")
    table.add_column("verdict")

    def row(point: TunedPoint) -> list[str]:
        rank = f"{point.estimated_ratio:.3f}x" if point.estimated_ratio else point.failed
        ratio = f"{point.ratio:.3f}x" if point.ratio else ""
        dropped = report.halving.dropped_at(point.candidate) if report.halving else ""
        words = verdict(point.evaluation.outcome) if point.evaluation else dropped
        start = " (start)" if point.values == report.start else ""
        return [*map(str, point.values.values()), rank, ratio, words + start]

    for point in report.points[:SHOWN]:
        table.add_row(*row(point))
    return table
