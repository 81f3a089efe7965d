"""The judge from the command line: tasks, check, time, profile. No chat involved."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from astra_chat.cli.exit_codes import CHECK_FAILED
from astra_chat.cli.reproduce import reproduce_command
from astra_chat.cli.tasks import TrustOption
from astra_chat.cli.tasks import app as tasks_app

if TYPE_CHECKING:
    from rich.console import RenderableType

    from astra_chat.tools.judge import Judge
    from astra_chat.tools.task.folder import Task
    from astra_chat.tools.types import Case, Evaluation, Value

SCHEMA = "astra-chat/evaluation/1"
PIPED_WIDTH = 120
MOST_CHARACTERS = 2**20

TaskArgument = Annotated[
    str, typer.Argument(metavar="TASK", help="A shipped task's name, or a task folder.")
]
KernelArgument = Annotated[Path, typer.Argument(metavar="KERNEL", help="The kernel: one .cu file.")]
DeviceOption = Annotated[str, typer.Option(help="auto, cuda, cuda:N or virtual.")]
GpuOption = Annotated[str | None, typer.Option(help="Whose time to estimate: h200, h100, ...")]
CasesOption = Annotated[str | None, typer.Option(help="Which cases to time: demo or bench.")]
FinalOption = Annotated[
    bool, typer.Option("--final", help="As for a winner: sanitizers first, inputs drawn anew.")
]
BaselineOption = Annotated[str, typer.Option(help="What to beat: sglang or paper.")]
CaseOption = Annotated[
    list[str] | None,
    typer.Option(help="A further case as JSON, for example a failed one with its seed."),
]
ProfiledOption = Annotated[
    str | None,
    typer.Option("--case", help="Which case, as JSON; else that of greatest weight."),
]
ExplainOption = Annotated[
    bool, typer.Option("--explain", help="Say which gates ran and what each saw.")
]
EngineOption = Annotated[
    str, typer.Option(help="Of the virtual GPU: numpy, c, or auto: c for large launches.")
]
SeedOption = Annotated[
    str | None,
    typer.Option(
        metavar="HEX",
        help="Draw the same cases and inputs again: an evaluation's seed as printed, or up to 32"
        " hex digits. Fresh by default.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
QuietOption = Annotated[bool, typer.Option("--quiet", help="The verdict only, in one line.")]


def register(app: typer.Typer) -> None:
    app.add_typer(tasks_app, name="tasks", short_help="List the shipped tasks; check one.")
    app.command(short_help="Is a kernel right?")(check)
    app.command(short_help="Is a kernel faster than the baseline?")(time)
    app.command(short_help="Why does a kernel take that long?")(profile)


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
    """Is KERNEL right? Every written argument against the float64 oracle, on all check cases and
    on hidden ones that are drawn after the build."""
    with open_judge(task, device, None, None, "sglang", trust, engine, seed) as judge:
        evaluation = judge.check(_source(kernel), [_case(judge.task, text) for text in case or []])
    again = reproduce_command(
        evaluation, task, str(kernel), _options(device=device, engine=engine, trust=trust)
    )
    _show_evaluation(evaluation, as_json, quiet, judge.task if explain else None, again)


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
    engine: EngineOption = "auto",
    seed: SeedOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Is KERNEL faster than the baseline? Checked first, then timed case by case."""
    with open_judge(task, device, gpu, cases, baseline, trust, engine, seed) as judge:
        evaluation = judge.evaluate(_source(kernel), fresh_seeds=final)
    again = reproduce_command(
        evaluation, task, str(kernel), _options(device=device, engine=engine, trust=trust),
        _options(gpu=gpu, cases=cases, baseline=baseline, final=final),
    )  # fmt: skip
    _show_evaluation(evaluation, as_json, quiet, judge.task if explain else None, again)


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
    """Why does KERNEL take that long? Metrics, bottleneck and physical limit of one case."""
    from astra_chat.tools.types import Evaluation

    with open_judge(task, device, gpu, None, "sglang", trust, engine, seed) as judge:
        found = judge.profile(_source(kernel), _case(judge.task, case) if case else None)
    if isinstance(found, Evaluation):
        _show_evaluation(found, as_json, quiet)
    elif as_json:
        _print_json("profile", found)
    else:
        from astra_chat.display.evaluation_view import profile_line, profile_text

        _print_rich(profile_line(found) if quiet else profile_text(found))


def _options(**options: str | bool | None) -> list[str]:
    """Options as they are typed; none that are off."""
    typed: list[str] = []
    for name, value in options.items():
        if value:
            typed += [f"--{name}"] if value is True else [f"--{name}", value]
    return typed


def open_judge(
    task: str,
    device: str,
    gpu: str | None,
    cases: str | None,
    baseline: str,
    trust: bool = False,
    engine: str = "auto",
    seed: str | None = None,
) -> Judge:
    """The judge for these options. Raises BadInput naming the option that is off."""
    from astra_chat.tools.entropy import Entropy
    from astra_chat.tools.errors import BadInput
    from astra_chat.tools.judge import CASE_LISTS, TIER_FILES, Judge
    from astra_chat.tools.system.devices import pick_device
    from astra_chat.tools.task.folder import find_task
    from astra_chat.tools.virtual_gpu.types import ENGINES

    if cases is not None and cases not in CASE_LISTS:
        raise BadInput(f"no cases '{cases}': use {' or '.join(CASE_LISTS)}")
    if baseline not in TIER_FILES:
        raise BadInput(f"no baseline '{baseline}': use {' or '.join(TIER_FILES)}")
    chosen = next((known for known in ENGINES if known == engine), None)
    if chosen is None:
        raise BadInput(f"no engine '{engine}': use {', '.join(ENGINES)}")
    return Judge(
        find_task(task), pick_device(device, gpu), tier=baseline, cases=cases, trust=trust,
        engine=chosen, entropy=Entropy(seed),
    )  # fmt: skip


def _case(task: Task, text: str) -> Case:
    """A case as evaluations write it; BadInput says what is off."""
    from pydantic import ValidationError

    from astra_chat.tools.errors import BadInput
    from astra_chat.tools.types import Case

    try:
        case = Case.model_validate_json(text)
        task.require_legal(case)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "it"
        raise BadInput(f"--case {text}: {place}: {first['msg']}") from None
    except ValueError as error:
        raise BadInput(f"--case {text}: {error}") from None
    return case


def _explanation(evaluation: Evaluation, task: Task) -> RenderableType:
    """Behind which walls, gate by gate, then what is left open."""
    from rich.console import Group
    from rich.text import Text

    from astra_chat.tools.explain import explain, not_ruled_out
    from astra_chat.tools.sandbox.level import WORDS, isolation

    parts: list[RenderableType] = [Text(f"built and run behind {WORDS[isolation()]}")]
    for story in explain(evaluation, task):
        style = {"passed": "green", "failed": "bold red"}.get(story.state, "dim")
        parts += [Text(f"{story.gate}: {story.state}", style), *map(_indented, story.saw)]
    if open_points := not_ruled_out(evaluation, task):
        parts += [Text("none of this rules out:", "bold"), *map(_indented, open_points)]
    return Group(*parts, "")


def _indented(sentence: str) -> RenderableType:
    from rich.padding import Padding
    from rich.text import Text

    return Padding(Text(sentence), (0, 0, 0, 2), expand=False)


def _source(kernel: Path) -> str:
    from astra_chat.tools.errors import BadInput

    try:
        with kernel.open(encoding="utf-8") as file:
            return file.read(MOST_CHARACTERS)  # of /dev/zero there is no end; the guard says more
    except OSError as error:
        raise BadInput(f"cannot read {kernel}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInput(f"cannot read {kernel}: it is not text") from None


def _show_evaluation(
    evaluation: Evaluation,
    as_json: bool,
    quiet: bool,
    explained: Task | None = None,
    reproduced_by: str = "",
) -> None:
    """Print it, with its gates where a task is given, and the command that reproduces a failure;
    exit 1 where the kernel failed."""
    from astra_chat.tools.types import Correct, Timed

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
    if not isinstance(evaluation.outcome, Correct | Timed):
        raise typer.Exit(CHECK_FAILED)


def _print_line(evaluation: Evaluation) -> None:
    """The candidate, its verdict in one word, and the first line of what was found."""
    from astra_chat.tools.descriptions import describe, verdict
    from astra_chat.tools.text import plain

    outcome = evaluation.outcome
    first, *others = describe(outcome).splitlines()
    words = f"{first} {others[0].strip()}" if others and first.endswith(":") else first
    print(plain(f"{evaluation.candidate} {verdict(outcome)}: {words}"))


def _print_json(name: str, value: Value) -> None:
    json.dump({"schema": SCHEMA, name: value.model_dump(mode="json")}, sys.stdout, indent=2)
    print()


def _print_rich(renderable: RenderableType) -> None:
    from astra_chat.display.console import console

    out = console()
    if not out.is_terminal:
        out.width = PIPED_WIDTH
    out.print(renderable)
