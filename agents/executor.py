"""The executor: gives candidates to the judge and reports its results."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from typing import TypeVar

from autogen_agentchat.agents import UserProxyAgent
from autogen_agentchat.base import Response
from autogen_agentchat.messages import BaseAgentEvent, BaseChatMessage
from autogen_core import CancellationToken

from astra_chat.agents.judge_protocol import JudgeProtocol
from astra_chat.agents.messages import (
    BuildMessage,
    ExecutionMessage,
    KernelMessage,
    PassMessage,
    ScoresMessage,
    SharedState,
    TuningMessage,
)
from astra_chat.agents.run_state import RunState
from astra_chat.agents.turn_order import (
    Baseline,
    Build,
    Confirm,
    Propose,
    Run,
    Score,
    Tune,
    next_step,
)
from astra_chat.agents.turns import Kernel, Pass
from astra_chat.tools.evaluation import BuildReport, Evaluation
from astra_chat.tools.mutation.scores import CaseScores
from astra_chat.tools.tuning.tuned import Tuning

T = TypeVar("T")
MEASURED = 16
"""Points of a candidate that a GPU measures, at most; a budget may leave fewer."""


class Executor(UserProxyAgent):
    """A UserProxyAgent that stands for the judge, not for a human: does what `next_step` says.

    Every kernel takes two turns: the build, then, if it builds, the evaluation. In between, no code
    of the candidate has run, and a human may decide that none will.
    """

    def __init__(
        self,
        judge: JudgeProtocol,
        baseline: str,
        state: SharedState,
        on_failure: Callable[[Exception], None],
    ) -> None:
        """`baseline`: its source."""
        super().__init__("executor", description="builds, checks, times and profiles candidates")
        self._judge, self._baseline, self._on_failure = judge, baseline, on_failure
        self._state = state

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        return (
            BuildMessage,
            ExecutionMessage,
            ScoresMessage,
            TuningMessage,
            KernelMessage,
            PassMessage,
        )

    async def on_messages_stream(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> AsyncGenerator[BaseAgentEvent | BaseChatMessage | Response, None]:
        try:
            payload = await self._work(self._state.now, cancellation_token)
        except Exception as error:
            self._on_failure(error)
            raise
        yield Response(chat_message=self._state.add("executor", payload))

    async def _work(
        self, state: RunState, token: CancellationToken
    ) -> BuildReport | Evaluation | CaseScores | Tuning | Kernel | Pass:
        judge, cases, mutants = self._judge, state.cases, state.limits.mutants
        work: Callable[[], BuildReport | Evaluation | CaseScores | Tuning]
        match next_step(state):
            case Score(cases=proposed):
                best = state.best[0].candidate if state.best else ""
                work = partial(judge.score, proposed, mutants, state.sources.get(best, ""))
            case Baseline():
                work = partial(judge.evaluate, self._baseline, cases)
            case Build(kernels=(kernel, *others)):
                work = partial(judge.build, kernel.source, [other.source for other in others])
            case Run(kernel=kernel):
                work = partial(judge.evaluate, kernel.source, cases)
            case Tune(kernel=kernel):
                work = partial(judge.tune, kernel.source, state.limits.tune, MEASURED)
            case Propose(kernel=kernel):
                return kernel
            case Confirm(source=source):
                work = partial(judge.evaluate, source, cases, fresh_seeds=True)
            case _:
                return Pass(words="no kernel has been proposed yet")
        return await self._in_thread(work, token)

    async def _in_thread(self, work: Callable[[], T], token: CancellationToken) -> T:
        """Run the judge beside the event loop; a cancelled turn stops it."""
        running = asyncio.ensure_future(asyncio.to_thread(work))
        token.link_future(running)
        try:
            return await running
        except asyncio.CancelledError:
            self._judge.cancel()
            raise
