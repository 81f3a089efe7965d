"""A judge by the words of the command line; one kernel in, one report out: the same for the command
line, Python and MCP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, Unpack

from pydantic import ConfigDict, Field

from astra_chat.options import JudgeOptions, takes
from astra_chat.tools.descriptions import verdict
from astra_chat.tools.entropy import Entropy
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.judge import CASE_LISTS, Judge
from astra_chat.tools.progress import Progress
from astra_chat.tools.ranks.judge import judge_of
from astra_chat.tools.report.results_text import judge_report
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.case_text import read_case
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.task.tiers import TIER_FILES
from astra_chat.tools.types import Correct, Timed, Value
from astra_chat.tools.virtual_gpu.adapter import ENGINES
from astra_chat.tools.wording import choices
from astra_vgpu.ground.errors import BadInput, reading


class EvaluationReport(Value):
    """What the judge found about a kernel, as values and as words."""

    model_config = ConfigDict(serialize_by_alias=True)

    schema_name: Literal["astra-chat/evaluation-report/1"] = Field(
        "astra-chat/evaluation-report/1", alias="schema"
    )
    task: str
    verdict: str
    """accepted (faster), tie or slower for a kernel that was timed; else the outcome's kind."""
    passed: bool
    """Whether it is correct. Exit code 1 of the command line where it is not."""
    report: str
    """What a model of the chat is told about it."""
    evaluation: Evaluation


@takes(JudgeOptions)
def evaluate(
    task: str | Path,
    kernel: str | Path,
    *,
    more_cases: Sequence[str] | None = None,
    final: bool = False,
    on_progress: Callable[[Progress], None] = lambda _: None,
    **options: Unpack[JudgeOptions],
) -> EvaluationReport:
    """Check, time and profile a kernel, as `astra-chat evaluate` does; blocks until it is done.

    `task`: a shipped task's name, or a task folder. `kernel`: the source as text, or a Path to it.
    `more_cases`: cases beside the task's own, written as in task.toml. `final`: as for a winner,
    sanitizers first, then fresh inputs. `options`: docs/options.md.
    A kernel that fails is a report, not an exception. Raises BadInput for what cannot be used, and
    MissingDependency for what is missing on this machine.
    """
    source = _source(kernel)
    with open_judge(task, **options, on_progress=on_progress) as judge:
        return report_on(judge, source, more_cases or (), final=final)


def report_on(
    judge: Judge, source: str, more_cases: Sequence[str] = (), *, final: bool = False
) -> EvaluationReport:
    """Check, time and profile a kernel, as `evaluate` does, by a judge that is open. Raises
    BadInput."""
    extra = [read_case(judge.task, text) for text in more_cases]
    judge.require_judged(extra)
    evaluation = judge.evaluate(source, extra, fresh_seeds=final)
    return EvaluationReport(
        schema="astra-chat/evaluation-report/1",
        task=judge.task.name,
        verdict=verdict(evaluation.outcome),
        passed=isinstance(evaluation.outcome, Correct | Timed),
        report=judge_report(evaluation),
        evaluation=evaluation,
    )


def _source(kernel: str | Path) -> str:
    if isinstance(kernel, str):
        return kernel
    with reading(kernel):
        return kernel.read_text(encoding="utf-8")


@takes(JudgeOptions, (*JudgeOptions.__annotations__, "on_progress"))
def open_judge(
    task: str | Path,
    on_progress: Callable[[Progress], None] = lambda _: None,
    **options: Unpack[JudgeOptions],
) -> Judge:
    """The judge for these options, each as on the command line; use it in a `with`.

    Raises BadInput naming the option that is wrong, and MissingDependency.
    """
    cases, baseline, engine = options["cases"], options["baseline"], options["engine"]
    if cases is not None and cases not in CASE_LISTS:
        raise BadInput(f"there are no cases named '{cases}'{choices(cases, CASE_LISTS)}")
    if baseline not in TIER_FILES:
        raise BadInput(f"there is no baseline '{baseline}'{choices(baseline, TIER_FILES)}")
    chosen = next((known for known in ENGINES if known == engine), None)
    if chosen is None:
        raise BadInput(f"there is no engine '{engine}'{choices(engine, ENGINES)}")
    return judge_of(
        find_task(str(task)),
        pick_device(options["device"], options["gpu"]),
        tier=baseline,
        cases=cases,
        trust=options["trust"],
        engine=chosen,
        entropy=Entropy(options["seed"]),
        on_progress=on_progress,
    )
