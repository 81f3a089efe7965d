"""The executor: takes candidates to the judge and says what the judge found."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Protocol, TypeVar

from autogen_agentchat.agents import UserProxyAgent
from autogen_agentchat.base import Response
from autogen_agentchat.messages import BaseAgentEvent, BaseChatMessage
from autogen_core import CancellationToken

from astra_chat.agents import run_state
from astra_chat.agents.approval_gates import to_confirm, to_prove
from astra_chat.agents.messages import (
    BuildMessage,
    ExecutionMessage,
    History,
    PassMessage,
    ScoresMessage,
    message,
)
from astra_chat.agents.run_state import Limits, Thread, extra_cases
from astra_chat.agents.turns import Pass
from astra_chat.tools.mutation.scores import CaseScores
from astra_chat.tools.types import BuildReport, Case, Evaluation

T = TypeVar("T")


class JudgeProtocol(Protocol):
    """What the executor needs of tools.judge.Judge."""

    def build(self, source: str, also: Sequence[str] = ()) -> BuildReport: ...
    def evaluate(
        self, source: str, extra_cases: Sequence[Case] = (), *, fresh_seeds: bool = False
    ) -> Evaluation: ...
    def score(self, cases: Sequence[Case], mutants: int) -> CaseScores: ...
    def cancel(self) -> None: ...


class Executor(UserProxyAgent):
    """Speaks for the machine instead of for a human.

    First turn of a chat: the baseline's evaluation. After each of the tester's: the score of its
    cases. Later, for every kernel, two turns: the build,
    then, if it builds, the evaluation. Between the two nothing of the candidate has run, and a
    human may decide that nothing will. Before a human accepts a candidate, and as the last turns:
    the best candidate once more, on fresh seeds.
    """

    def __init__(
        self,
        judge: JudgeProtocol,
        baseline: str,
        limits: Limits,
        on_failure: Callable[[Exception], None],
    ) -> None:
        super().__init__("executor", description="builds, checks, times and profiles candidates")
        self._judge, self._baseline, self._on_failure = judge, baseline, on_failure
        self._limits = limits
        self._history = History()

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        return (BuildMessage, ExecutionMessage, ScoresMessage, PassMessage)

    async def on_messages(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> Response:
        async for item in self.on_messages_stream(messages, cancellation_token):
            if isinstance(item, Response):
                return item
        raise RuntimeError("the executor ended its turn without a response")

    async def on_messages_stream(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> AsyncGenerator[BaseAgentEvent | BaseChatMessage | Response, None]:
        self._history.add(messages)
        try:
            payload = await self._work(self._history.thread, cancellation_token)
        except Exception as error:
            self._on_failure(error)
            raise
        said = message("executor", payload)
        self._history.add([said])
        yield Response(chat_message=said)

    async def _work(
        self, thread: Thread, token: CancellationToken
    ) -> BuildReport | Evaluation | CaseScores | Pass:
        judge, cases = self._judge, extra_cases(thread)
        if waiting := run_state.to_score(thread, self._limits):
            count = self._limits.mutants
            return await self._in_thread(lambda: judge.score(waiting, count), token)
        if run_state.baseline(thread) is None:
            source = self._baseline
            return await self._in_thread(lambda: judge.evaluate(source, cases), token)
        if (winner := to_prove(thread, self._limits)) is not None:
            return await self._confirm(winner, thread, token)
        if run_state.unbuilt(thread):
            source, *also = [kernel.source for kernel in run_state.unbuilt(thread)]
            return await self._in_thread(lambda: judge.build(source, also), token)
        if (kernel := run_state.unrun(thread)) is not None:
            source = kernel.source
            return await self._in_thread(lambda: judge.evaluate(source, cases), token)
        if (winner := to_confirm(thread, self._limits)) is not None:
            return await self._confirm(winner, thread, token)
        return Pass(words="there is no kernel to run")

    async def _confirm(self, winner: str, thread: Thread, token: CancellationToken) -> Evaluation:
        source = run_state.source_of(thread, winner) or self._baseline
        cases = extra_cases(thread)
        return await self._in_thread(
            lambda: self._judge.evaluate(source, cases, fresh_seeds=True), token
        )

    async def _in_thread(self, work: Callable[[], T], token: CancellationToken) -> T:
        """Run the judge beside the event loop; a cancelled turn stops it."""
        running = asyncio.ensure_future(asyncio.to_thread(work))
        token.link_future(running)
        try:
            return await running
        except asyncio.CancelledError:
            self._judge.cancel()
            raise
