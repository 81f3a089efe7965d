"""The judge from the command line: check, time, profile, evaluate. No chat involved."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from astra_chat.cli.evaluation_output import show_evaluation, show_profile
from astra_chat.cli.exit_codes import CHECK_FAILED
from astra_chat.cli.kernel_text import text_of
from astra_chat.cli.reproduce import reproduce_command
from astra_chat.cli.tasks import TrustOption
from astra_chat.cli.tasks import app as tasks_app
from astra_chat.display.notes import note

if TYPE_CHECKING:
    from astra_chat.tools.evaluation import Evaluation


class FailIf(Enum):
    """Verdicts that may fail a command, beside a kernel that failed."""

    SLOWER = "slower"


TaskArgument = Annotated[
    str, typer.Argument(metavar="TASK", help="A shipped task's name, or a task folder.")
]
KernelArgument = Annotated[
    Path, typer.Argument(metavar="KERNEL", help="The kernel: one .cu file, or - for stdin.")
]
DeviceOption = Annotated[str, typer.Option(help="auto, cuda, cuda:N or virtual.")]
GpuOption = Annotated[
    str | None, typer.Option(help="GPU model to estimate for: h200, h100, a100, ...")
]
CasesOption = Annotated[str | None, typer.Option(help="Which cases to time: demo or bench.")]
FinalOption = Annotated[
    bool, typer.Option("--final", help="As for a winner: sanitizers first, then fresh inputs.")
]
BaselineOption = Annotated[str, typer.Option(help="Baseline to compare with: sglang or paper.")]
CaseOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CASE",
        help="One more case, as in task.toml: '{ tokens = 3, d = 24, dtype = \"float16\" }'.",
    ),
]
ProfiledOption = Annotated[
    str | None,
    typer.Option(
        "--case",
        metavar="CASE",
        help="Case to profile, as in task.toml; default: the one with the greatest weight.",
    ),
]
ExplainOption = Annotated[
    bool, typer.Option("--explain", help="Show each step of the judge and what it checked.")
]
EngineOption = Annotated[
    str, typer.Option(help="Engine of the virtual GPU: numpy, c or auto (c for large launches).")
]
SeedOption = Annotated[
    str | None,
    typer.Option(
        metavar="HEX",
        help="Draw the same cases and inputs again: an evaluation's seed as printed, or up to 32"
        " hex digits. Fresh by default.",
    ),
]
FailIfOption = Annotated[
    FailIf | None, typer.Option(help="Exit with 1 if the kernel is slower than the baseline.")
]
MinRatioOption = Annotated[
    float | None,
    typer.Option(min=0, metavar="X", help="Exit with 1 below this speedup over the baseline."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Print the verdict only, in one line.")]


def register(app: typer.Typer) -> None:
    app.add_typer(tasks_app, name="tasks", short_help="List, show and check tasks.")
    app.command(short_help="Check that a kernel is correct.")(check)
    app.command(short_help="Time a kernel against the baseline.")(time)
    app.command(short_help="Show what limits a kernel.")(profile)
    app.command(short_help="Check, time and profile a kernel.")(evaluate)


def check(
    task: TaskArgument,
    kernel: KernelArgument,
    device: DeviceOption = "auto",
    case: CaseOption = None,
    explain: ExplainOption = False,
    trust: TrustOption = False,
    engine: EngineOption = "auto",
    seed: SeedOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Check that KERNEL is correct: every output against a float64 oracle, on the task's check
    cases and on hidden ones that are drawn after the build."""
    from astra_chat.judging.opening import open_judge
    from astra_chat.tools.task.case_text import read_case

    with open_judge(task, device, trust=trust, engine=engine, seed=seed) as judge:
        extra = [read_case(judge.task, text) for text in case or []]
        judge.require_judged(extra)
        evaluation = judge.check(text_of(kernel), extra)
    again = reproduce_command(
        evaluation,
        task,
        str(kernel),
        _options(device=device, engine=engine, trust=trust),
        scalars=judge.task.scalars,
    )
    end(show_evaluation(evaluation, as_json, quiet, judge.task if explain else None, again))


def time(
    task: TaskArgument,
    kernel: KernelArgument,
    device: DeviceOption = "auto",
    gpu: GpuOption = None,
    cases: CasesOption = None,
    baseline: BaselineOption = "sglang",
    explain: ExplainOption = False,
    trust: TrustOption = False,
    final: FinalOption = False,
    fail_if: FailIfOption = None,
    min_ratio: MinRatioOption = None,
    engine: EngineOption = "auto",
    seed: SeedOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Time KERNEL against the baseline, case by case, after checking that it is correct."""
    from astra_chat.judging.opening import open_judge

    with open_judge(
        task, device, gpu, cases, baseline, trust=trust, engine=engine, seed=seed
    ) as judge:
        evaluation = judge.evaluate(text_of(kernel), fresh_seeds=final)
    again = reproduce_command(
        evaluation,
        task,
        str(kernel),
        _options(device=device, engine=engine, trust=trust),
        _options(gpu=gpu, cases=cases, baseline=baseline, final=final),
        judge.task.scalars,
    )
    passed = show_evaluation(evaluation, as_json, quiet, judge.task if explain else None, again)
    end(passed and fast_enough(evaluation, fail_if is FailIf.SLOWER, min_ratio))


def profile(
    task: TaskArgument,
    kernel: KernelArgument,
    device: DeviceOption = "auto",
    gpu: GpuOption = None,
    case: ProfiledOption = None,
    trust: TrustOption = False,
    engine: EngineOption = "auto",
    seed: SeedOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Show what limits KERNEL on one case: metrics, bottleneck and physical limit."""
    from astra_chat.judging.opening import open_judge
    from astra_chat.tools.evaluation import Evaluation
    from astra_chat.tools.task.case_text import read_case

    with open_judge(task, device, gpu, trust=trust, engine=engine, seed=seed) as judge:
        found = judge.profile(text_of(kernel), read_case(judge.task, case) if case else None)
    if isinstance(found, Evaluation):
        end(show_evaluation(found, as_json, quiet))
    else:
        show_profile(found, as_json, quiet)


def evaluate(
    task: TaskArgument,
    kernel: KernelArgument,
    device: DeviceOption = "auto",
    gpu: GpuOption = None,
    cases: CasesOption = None,
    baseline: BaselineOption = "sglang",
    case: CaseOption = None,
    trust: TrustOption = False,
    final: FinalOption = False,
    fail_if: FailIfOption = None,
    min_ratio: MinRatioOption = None,
    engine: EngineOption = "auto",
    seed: SeedOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check, time and profile KERNEL, and print the report that a model of the chat gets."""
    from astra_chat.judging.evaluating import evaluate as evaluated

    found = evaluated(
        task,
        text_of(kernel),
        device=device,
        gpu=gpu,
        cases=cases,
        baseline=baseline,
        more_cases=case or (),
        final=final,
        trust=trust,
        engine=engine,
        seed=seed,
    )
    if as_json:
        print(found.model_dump_json(indent=2))
    else:
        print(found.report)
    end(found.passed and fast_enough(found.evaluation, fail_if is FailIf.SLOWER, min_ratio))


def _options(**options: str | bool | None) -> list[str]:
    """Options as they are typed; none that are off."""
    typed: list[str] = []
    for name, value in options.items():
        if value:
            typed += [f"--{name}"] if value is True else [f"--{name}", value]
    return typed


def fast_enough(evaluation: Evaluation, not_slower: bool, min_ratio: float | None) -> bool:
    """Whether a timed candidate is as fast as was asked for; says so where it is not."""
    from astra_chat.tools.types import Timed

    timed = evaluation.outcome
    if not isinstance(timed, Timed):
        return False
    if not_slower and timed.verdict == "slower":
        note("slower than the baseline: exit code 1 (--fail-if slower)")
        return False
    if min_ratio is not None and timed.ratio < min_ratio:
        note(f"{timed.basis} {timed.ratio:.3f}x is below --min-ratio {min_ratio:g}: exit code 1")
        return False
    return True


def end(passed: bool) -> None:
    """Exit with 1 unless the kernel passed."""
    if not passed:
        raise typer.Exit(CHECK_FAILED)
