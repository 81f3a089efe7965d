"""Evaluations and profiles on stdout: for a reader, in one line, or as JSON."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

    from astra_chat.tools.evaluation import Evaluation
    from astra_chat.tools.task.folder import Task
    from astra_chat.tools.types import Profile, Value

_BUILT_AS = re.compile(r"\bkernel\.cu:(?=\d)")


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
        parts += [Text("none of this rules out:", "bold"), *map(_indented, open_points)]
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
    print(plain(f"{evaluation.candidate} {verdict(outcome)}: {words}"))


def _print_json(name: str, value: Value) -> None:
    from astra_chat.tools.evaluation import EVALUATION_SCHEMA

    json.dump(
        {"schema": EVALUATION_SCHEMA, name: value.model_dump(mode="json")}, sys.stdout, indent=2
    )
    print()


def _print_rich(renderable: RenderableType) -> None:
    from astra_chat.display.console import console

    console().print(renderable)
