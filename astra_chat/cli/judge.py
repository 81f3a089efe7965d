"""The judge from the command line: check, time, profile, evaluate, and what they print: for a
reader, in one line, or as JSON. No chat involved."""

from __future__ import annotations

import json
import re
import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

import typer

from astra_chat.arguments import STDIN
from astra_chat.cli.exit_codes import CHECK_FAILED
from astra_chat.cli.kernel_text import text_of
from astra_chat.cli.options import JsonOption, KernelArgument, TaskArgument, options
from astra_chat.cli.reproduce import reproduce_command
from astra_chat.cli.tasks import app as tasks_app
from astra_chat.display.notes import note
from astra_chat.options import EvaluateOptions, JudgeOptions
from astra_chat.tools.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType

    from astra_chat.tools.evaluation import Evaluation
    from astra_chat.tools.task.folder import Task
    from astra_chat.tools.timing.regression import Loss
    from astra_chat.tools.types import Profile, Value

_BUILT_AS = re.compile(r"\bkernel\.cu:(?=\d)")


class FailIf(Enum):
    """Verdicts that may fail a command, beside a kernel that failed."""

    SLOWER = "slower"


ProfiledOption = Annotated[
    str | None,
    typer.Option(
        "--case",
        metavar="CASE",
        help="Case to profile, written as in task.toml; default: the one with the largest weight.",
    ),
]
TimedOption = Annotated[
    list[str] | None,
    typer.Option(
        "--case",
        metavar="CASE",
        help="Case to time instead of the task's cases, written as in task.toml; may be repeated.",
    ),
]
ExplainOption = Annotated[
    bool, typer.Option("--explain", help="Show each step of the judge and what it checked.")
]
FailIfOption = Annotated[
    FailIf | None, typer.Option(help="Exit with 1 if the kernel is slower than the baseline.")
]
MinRatioOption = Annotated[
    float | None,
    typer.Option(
        min=0, metavar="X", help="Exit with 1 if the speedup over the baseline is below X."
    ),
]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Print only the verdict, on one line.")]


def register(app: typer.Typer) -> None:
    app.add_typer(tasks_app, name="tasks", short_help="List, show and check tasks.")
    app.command(short_help="Check that a kernel is correct.")(check)
    app.command(short_help="Time a kernel against the baseline.")(time)
    app.command(short_help="Show what limits a kernel.")(profile)
    app.command(short_help="Check, time and profile a kernel.")(evaluate)


@options(EvaluateOptions, "device more_cases explain trust engine seed as_json quiet")
def check(
    task: TaskArgument,
    kernel: KernelArgument,
    more_cases: list[str] | None = None,
    explain: ExplainOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    **judging: Unpack[JudgeOptions],
) -> None:
    """Check that KERNEL is correct: compare every output with a float64 oracle, on the task's
    check cases and on hidden cases that are drawn after the build."""
    from astra_chat.display.work_progress import work_progress
    from astra_chat.judging.evaluating import open_judge
    from astra_chat.tools.task.case_text import read_case

    with work_progress(quiet) as tell, open_judge(task, on_progress=tell, **judging) as judge:
        extra = [read_case(judge.task, text) for text in more_cases or []]
        judge.require_judged(extra)
        evaluation = judge.check(text_of(kernel), extra)
    again = reproduce_command(
        evaluation, task, str(kernel), _typed(judging), scalars=judge.task.scalars
    )
    explained = judge.task if explain else None
    end(show_evaluation(evaluation, as_json, quiet, explained, again, _file(kernel)))


@options(
    EvaluateOptions,
    "device gpu cases case baseline explain trust final fail_if min_ratio engine seed as_json"
    " quiet",
)
def time(
    task: TaskArgument,
    kernel: KernelArgument,
    case: TimedOption = None,
    final: bool = False,
    explain: ExplainOption = False,
    fail_if: FailIfOption = None,
    min_ratio: MinRatioOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    **judging: Unpack[JudgeOptions],
) -> None:
    """Time KERNEL against the baseline, case by case, after checking that it is correct."""
    from astra_chat.display.work_progress import work_progress
    from astra_chat.judging.evaluating import open_judge
    from astra_chat.tools.task.case_text import read_case
    from astra_vgpu.ground.errors import BadInput

    if case and judging["cases"]:
        raise BadInput("give --case or --cases, not both")
    with work_progress(quiet) as tell, open_judge(task, on_progress=tell, **judging) as judge:
        if case:
            judge.time_only([read_case(judge.task, text) for text in case])
        source = text_of(kernel)
        evaluation = judge.evaluate(source, fresh_seeds=final)
        loss = _loss(evaluation, lambda: judge.evaluate(source, fresh_seeds=True), fail_if)
    how = [*_typed(judging, "gpu", "cases", "baseline"), *(["--final"] if final else [])]
    how += [word for text in case or () for word in ("--case", text)]
    again = reproduce_command(
        evaluation, task, str(kernel), _typed(judging), how, judge.task.scalars
    )
    explained = judge.task if explain else None
    passed = show_evaluation(evaluation, as_json, quiet, explained, again, _file(kernel))
    if passed and judge.weighted == judge.task.demo and not quiet:
        note(_only_demo(judge.task))
    end(passed and fast_enough(evaluation, loss, min_ratio))


def _only_demo(task: Task) -> str:
    """What was not timed, and how it is."""
    demo, bench = counted(len(task.demo), "demo case"), counted(len(task.bench), "bench case")
    return f"timed: {demo} only; --cases bench times the {bench}, with the sizes of real calls"


@options(JudgeOptions, "device gpu case trust engine seed as_json quiet")
def profile(
    task: TaskArgument,
    kernel: KernelArgument,
    case: ProfiledOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    **judging: Unpack[JudgeOptions],
) -> None:
    """Show what limits KERNEL on one case: metrics, bottleneck and physical limit."""
    from astra_chat.display.work_progress import work_progress
    from astra_chat.judging.evaluating import open_judge
    from astra_chat.tools.evaluation import Evaluation
    from astra_chat.tools.task.case_text import read_case

    with work_progress(quiet) as tell, open_judge(task, on_progress=tell, **judging) as judge:
        found = judge.profile(text_of(kernel), read_case(judge.task, case) if case else None)
    if isinstance(found, Evaluation):
        end(show_evaluation(found, as_json, quiet))
    else:
        show_profile(found, as_json, quiet)


@options(
    EvaluateOptions,
    "device gpu cases baseline more_cases trust final fail_if min_ratio engine seed as_json",
)
def evaluate(
    task: TaskArgument,
    kernel: KernelArgument,
    fail_if: FailIfOption = None,
    min_ratio: MinRatioOption = None,
    as_json: JsonOption = False,
    **judging: Unpack[EvaluateOptions],
) -> None:
    """Check, time and profile KERNEL, and print the report that the models in a chat receive."""
    from astra_chat.display.work_progress import work_progress
    from astra_chat.judging.evaluating import evaluate as evaluated

    source = text_of(kernel)
    with work_progress() as tell:
        found = evaluated(task, source, on_progress=tell, **judging)
    print(found.model_dump_json(indent=2) if as_json else found.report)

    def again() -> Evaluation:
        judging["final"] = True
        return evaluated(task, source, **judging).evaluation

    loss = _loss(found.evaluation, again, fail_if)
    end(found.passed and fast_enough(found.evaluation, loss, min_ratio))


def _file(kernel: Path) -> str:
    """The name of the user's file, of whose lines the judge speaks; of stdin and of Triton's
    Python none."""
    return "" if str(kernel) == STDIN or kernel.suffix == ".py" else kernel.name


def _typed(judging: JudgeOptions, *names: str) -> list[str]:
    """These options as they are typed; none that are off."""
    typed: list[str] = []
    for name in names or ("device", "engine", "trust"):
        if value := judging.get(name):
            typed += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    return typed


def _loss(
    evaluation: Evaluation, again: Callable[[], Evaluation], fail_if: FailIf | None
) -> Loss | None:
    """The loss over all cases that --fail-if asks for, by the rule of `gate`."""
    from astra_chat.tools.timing.regression import losses, over_all

    return over_all(losses(evaluation, again)) if fail_if is FailIf.SLOWER else None


def fast_enough(evaluation: Evaluation, loss: Loss | None, min_ratio: float | None) -> bool:
    """Whether a timed candidate is as fast as was asked for; says so where it is not."""
    from astra_chat.tools.types import Timed

    timed = evaluation.outcome
    if not isinstance(timed, Timed):
        return False
    if loss:
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


def show_evaluation(
    evaluation: Evaluation,
    as_json: bool,
    quiet: bool,
    explained: Task | None = None,
    reproduced_by: str = "",
    file: str = "",
) -> bool:
    """Print it, with the judge's steps where a task is given, and the command that reproduces a
    failure, or the seed of a kernel that passed. `file`: the kernel's. Returns whether the kernel
    passed."""
    from astra_chat.tools.types import Correct, Timed

    passed = isinstance(evaluation.outcome, Correct | Timed)
    if file and not as_json:
        evaluation = _naming(evaluation, file)

    if as_json:
        _print_json("evaluation", evaluation)
    elif quiet:
        _print_line(evaluation)
    else:
        from astra_chat.display.evaluation_view import evaluation_text

        if explained:
            _print_rich(_explanation(evaluation, explained))
        _print_rich(evaluation_text(evaluation))
        if reproduced_by:
            print(f"reproduce with: {reproduced_by}")
        elif passed and evaluation.seed:
            print(f"to use the same cases again: --seed {evaluation.seed}")
    return passed


def _naming(evaluation: Evaluation, file: str) -> Evaluation:
    """An evaluation whose finding and warnings name the user's file: the judge builds all kernels
    as kernel.cu."""
    from astra_chat.tools.types import Unsafe, Wrong

    def named(text: str) -> str:
        return _BUILT_AS.sub(lambda _: f"{file}:", text)

    found, check = evaluation.outcome, evaluation.check
    if isinstance(found, Unsafe):
        texts = {"what": named(found.what), "where": named(found.where)}
        evaluation = evaluation.model_copy(update={"outcome": found.model_copy(update=texts)})
    if isinstance(found, Wrong):
        wrong = found.model_copy(update={"note": named(found.note)})
        evaluation = evaluation.model_copy(update={"outcome": wrong})
    if check and check.warnings:
        warnings = tuple(map(named, check.warnings))
        check = check.model_copy(update={"warnings": warnings})
        evaluation = evaluation.model_copy(update={"check": check})
    return evaluation


def show_profile(profile: Profile, as_json: bool, quiet: bool) -> None:
    if as_json:
        _print_json("profile", profile)
        return
    from astra_chat.display.evaluation_view import profile_line, profile_text

    _print_rich(profile_line(profile) if quiet else profile_text(profile))


def _explanation(evaluation: Evaluation, task: Task) -> RenderableType:
    """Behind which walls, gate by gate, then what is left open."""
    from rich.console import Group
    from rich.text import Text

    from astra_chat.tools.explain import explain, not_ruled_out
    from astra_chat.tools.sandbox.isolation import WORDS, isolation

    parts: list[RenderableType] = [
        Text(f"isolation while building and running: {WORDS[isolation()]}")
    ]
    for story in explain(evaluation, task):
        style = {"passed": "green", "failed": "bold red"}.get(story.state, "dim")
        parts += [Text(f"{story.gate}: {story.state}", style), *map(_indented, story.saw)]
    if open_points := not_ruled_out(evaluation, task):
        parts += [Text("not ruled out by these steps:", "bold"), *map(_indented, open_points)]
    return Group(*parts, "")


def _indented(sentence: str) -> RenderableType:
    from rich.padding import Padding
    from rich.text import Text

    return Padding(Text(sentence), (0, 0, 0, 2), expand=False)


def _print_line(evaluation: Evaluation) -> None:
    """The candidate, its verdict in one word, and the first line of what was found."""
    from astra_chat.tools.descriptions import describe, verdict
    from astra_chat.tools.text import plain

    outcome = evaluation.outcome
    first, *others = describe(outcome).splitlines()
    words = f"{first} {others[0].strip()}" if others and first.endswith(":") else first
    trust = f" (trust: {evaluation.trust})" if evaluation.trust else ""
    print(plain(f"{evaluation.candidate} {verdict(outcome)}: {words}{trust}"))


def _print_json(name: str, value: Value) -> None:
    from astra_chat.tools.evaluation import EVALUATION_SCHEMA

    json.dump(
        {"schema": EVALUATION_SCHEMA, name: value.model_dump(mode="json")}, sys.stdout, indent=2
    )
    print()


def _print_rich(renderable: RenderableType) -> None:
    from astra_chat.display.console import console

    console().print(renderable)
