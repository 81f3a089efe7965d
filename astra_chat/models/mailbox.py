"""Models that ask by folders in a mailbox and wait until somebody has written the answer: a person,
a coding agent, whoever can write a file."""

from __future__ import annotations

import asyncio
import json
import logging
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autogen_core import CancellationToken
from autogen_core.models import (
    AssistantMessage,
    ChatCompletionClient,
    CreateResult,
    LLMMessage,
    SystemMessage,
    UserMessage,
)

from astra_chat.agents.turns import Kernel, KernelReply, Position
from astra_chat.mailbox.answers import Taken, take
from astra_chat.mailbox.files import Unreadable
from astra_chat.mailbox.questions import (
    KERNEL,
    LOOK_S,
    REPLY,
    SCHEMA,
    WORDS,
    Meta,
    Question,
    ask,
    now,
    open_mailbox,
)
from astra_chat.mailbox.runs import enter
from astra_chat.models.answer import Answer
from astra_chat.models.layer import JsonOutput
from astra_chat.models.offline import NO_USAGE, OfflineClient, position_in
from astra_chat.models.schema import forms, strict_schema
from astra_chat.models.spec import Role
from astra_chat.spending.prices import Price
from astra_chat.tools.types import Basis, sha256_of

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Asker:
    """The run that asks."""

    run: str
    task: str
    transcript: Path
    wait: bool = True
    """False: the run ends, to be resumed, where an answer is not there yet."""


class WaitsForAnswer(Exception):
    """The run stops until a question is answered; its text says which."""

    def __init__(self, question: Question, problem: str = "") -> None:
        also = f"; {problem}" if problem else ""
        super().__init__(
            f"waiting for an answer from the {question.meta.role}: {question.id}{also}"
        )
        self.question = question


class MailboxModels:
    """One client for each role, all asking in the same mailbox. Raises BadInput where that cannot
    be used."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self._box = name, open_mailbox(folder)
        self._asker: Asker | None = None
        self._awaited = False
        self.stopped = False

    def begin(self, asker: Asker) -> None:
        """Name the run that asks from here on."""
        enter(self._box, asker.run, asker.transcript)
        self._asker, self.stopped = asker, not asker.wait

    def stop_waiting(self) -> bool:
        """Let the run stop where it waits; False where it does not wait now."""
        self.stopped = True
        return self._awaited

    def client(self, role: Role) -> ChatCompletionClient:
        return MailboxClient(self, role)

    def described(self, role: Role) -> str:
        return "mailbox"

    def price(self, role: Role) -> Price | None:
        """None: what an answer costs whoever gives it is not known here."""
        return None

    def expected(self, kernel: Kernel, place: Position, basis: Basis = "measured") -> str | None:
        """None: a plan's ratio is all that is predicted."""
        return None

    async def close(self) -> None:
        """Nothing is open."""

    def question(
        self, role: Role, messages: Sequence[LLMMessage], json_output: JsonOutput
    ) -> Question:
        """The question that these messages are: the same one for the same messages of a run, so
        that a resumed run finds its answer."""
        if self._asker is None or not isinstance(json_output, type):
            raise RuntimeError("only a run can use a mailbox, and only for a typed reply")
        place = position_in([str(m.content) for m in messages if isinstance(m, UserMessage)])
        schema = strict_schema(json_output)
        said = [f"{type(one).__name__}\n{one.content}" for one in messages]
        digest = sha256_of(json.dumps([role, said, schema]))[:8]
        asker = self._asker
        meta = Meta(
            schema="astra-chat/question/1",
            id=f"{asker.run}-{role}-r{place.round}a{place.attempt}-{digest}",
            run=asker.run,
            task=asker.task,
            role=role,
            round=place.round,
            attempt=place.attempt,
            asked=now(),
            transcript=str(asker.transcript.resolve()),
            kernel=issubclass(json_output, KernelReply),
        )
        return ask(self._box, meta, prompt_text(meta, self._box, messages, schema), schema)

    async def wait_for(self, question: Question) -> Taken:
        """Raises WaitsForAnswer where the run is not to wait, MissingDependency for a full disk."""
        problem, told = "", None
        self._awaited = True
        try:
            while True:
                try:
                    taken, problem = take(question), ""
                except Unreadable as error:
                    taken, problem = None, f"{question.folder}: {error}"
                if taken is not None:
                    return taken
                if self.stopped:
                    raise WaitsForAnswer(question, problem)
                if told != problem:
                    told = problem
                    logger.warning("%s", problem or _waits(question))
                await asyncio.sleep(LOOK_S)
        finally:
            self._awaited = False


class MailboxClient(OfflineClient):
    """One role's client: every prompt is a question in the mailbox."""

    def __init__(self, models: MailboxModels, role: Role) -> None:
        self._models, self._role = models, role

    async def create(
        self,
        messages: Sequence[LLMMessage],
        *,
        json_output: JsonOutput = None,
        cancellation_token: CancellationToken | None = None,
        **rest: Any,
    ) -> CreateResult:
        """Raises WaitsForAnswer and MissingDependency."""
        question = self._models.question(self._role, messages, json_output)
        waiting = asyncio.ensure_future(self._models.wait_for(question))
        if cancellation_token is not None:
            cancellation_token.link_future(waiting)
        taken = await waiting
        return Answer(
            finish_reason="stop",
            content=taken.reply,
            usage=NO_USAGE,
            cached=taken.again,
            answered_by=taken.answered_by,
            refused=taken.refused,
        )


def _waits(question: Question) -> str:
    return (
        f"the {question.meta.role} is waiting for an answer: {question.folder}; to see the"
        " question:"
        f" astra-chat mailbox next {shlex.quote(str(question.folder.parent))}"
    )


def prompt_text(
    meta: Meta, box: Path, messages: Sequence[LLMMessage], schema: dict[str, Any]
) -> str:
    """prompt.md: how to answer, then everything that a model would be sent."""
    kernel = (
        f", or with the kernel alone: `astra-chat mailbox answer {box} {meta.id} {KERNEL} --words"
        " TEXT`."
        f"\nTo answer by hand, write {REPLY}, or {KERNEL} and then {WORDS}, next to this file"
        if meta.kernel
        else f".\nTo answer by hand, write {REPLY} next to this file"
    )
    how = (
        f"# Question to the {meta.role} of run {meta.run}, task {meta.task}\n\nQuestion {meta.id}:"
        f" round {meta.round}, attempt {meta.attempt}. Answer with one JSON object that fits"
        f" {SCHEMA}:"
        f" `astra-chat mailbox answer {box} {meta.id} FILE` checks it immediately{kernel}. Write"
        " it under another name first, then rename it.\n"
    )
    form = "\n".join(f"    {one}" for one in forms(schema))
    return "\n".join([f"{how}\nIn short, one of:\n\n{form}\n", *map(_section, messages)])


def _section(message: LLMMessage) -> str:
    match message:
        case SystemMessage(content=text):
            return f"# Instructions\n\n{text}\n"
        case AssistantMessage(content=reply):
            return f"# Your reply\n\n{reply}\n"
        case _:
            return f"# Prompt\n\n{message.content}\n"
