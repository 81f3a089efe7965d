"""A run that asks in a mailbox, and one who answers from the sample task's script."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from autogen_core.models import UserMessage

from astra_chat.mailbox.questions import Meta, Question, questions, waiting
from astra_chat.models.open_models import open_models
from astra_chat.session.request import SessionOptions
from astra_chat.session.results import RunResult
from astra_chat.session.resume import request_on, resumed
from astra_chat.session.session import run_request
from astra_chat.tools.task.folder import Task
from astra_chat.transcript.options import RunOptions
from tests.astra_chat.run_samples import chat_request
from tests.chat_samples import FixedJudge, run_options


def meta(name: str, **changes: Any) -> Meta:
    """What a question says about itself."""
    fields = {
        "schema": "astra-chat/question/1",
        "id": name,
        "run": "run-1",
        "task": "doubled",
        "role": "coder",
        "round": 1,
        "attempt": 1,
        "asked": "2026-01-01",
        "kernel": True,
        "transcript": "/nowhere/transcript.jsonl",
    }
    return Meta.model_validate({**fields, **changes})


def run(task: Task, box: Path, out: Path, *, no_wait: bool = True) -> RunResult:
    """A new run of the sample task with a judge of fixed findings."""
    models = f"mailbox:{box}"
    request = chat_request(
        task,
        out,
        models=open_models(models, task),
        options=run_options(models=models),
        no_wait=no_wait,
    )
    return run_request(request, judge=FixedJudge())


def go_on(task: Task, path: Path, box: Path) -> RunResult:
    """Resume a run of the sample task with a judge of fixed findings."""
    past = resumed(path)
    given = RunOptions.given(models=f"mailbox:{box}")
    request = request_on(past, task, given, SessionOptions(no_wait=True))
    return run_request(request, judge=FixedJudge(), past=past)


def open_question(box: Path) -> Question:
    """The only one that waits."""
    (question,) = waiting(box)
    return question


def scripted(task: Task, question: Question) -> str:
    """What the task's script answers there."""
    client = open_models("scripted", task).client(question.meta.role)
    prompt = UserMessage(content=question.prompt, source="user")
    return str(asyncio.run(client.create([prompt])).content)


def states(box: Path) -> list[str]:
    return [question.state for question in questions(box)]
