"""One run: a chat about one task on one device, recorded as it goes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, aclosing, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, cast

from autogen_agentchat.base import TaskResult
from autogen_agentchat.conditions import ExternalTermination
from autogen_agentchat.messages import (
    BaseAgentEvent,
    BaseChatMessage,
    SelectSpeakerEvent,
)
from autogen_core import CancellationToken

from astra_chat.agents import run_state
from astra_chat.agents.approval import question
from astra_chat.agents.executor import JudgeProtocol
from astra_chat.agents.messages import DoubtEvent, RepairEvent, message
from astra_chat.agents.messages import turn as typed
from astra_chat.agents.prompt import ChatContext
from astra_chat.agents.run_state import Turn
from astra_chat.agents.selector import Selector
from astra_chat.agents.turn_order import Next, next_speakers
from astra_chat.agents.turns import MODEL_ROLES, Kernel, RunRequest, Speaker
from astra_chat.models.meter import Meter, MeteredJudge
from astra_chat.models.recording_judge import taped
from astra_chat.session.approvers import Answer, approver_for
from astra_chat.session.export import export_best, leave_source
from astra_chat.session.final_message import deviation, ended
from astra_chat.session.recorded_options import resume_command
from astra_chat.session.recorder import begin
from astra_chat.session.request import Request
from astra_chat.session.resume import Past
from astra_chat.session.signals import in_own_loop, on_signal, plain_ctrl_c
from astra_chat.session.team import STALLED, build_team
from astra_chat.spending.budget import BudgetSpent
from astra_chat.spending.ledger import ledger
from astra_chat.tools.errors import AstraError, MissingDependency
from astra_chat.tools.judge import Judge, baseline_source
from astra_chat.tools.progress import Progress
from astra_chat.tools.system.toolkit import find_tool
from astra_chat.transcript.events import (
    Chosen,
    Doubted,
    Ended,
    EndReason,
    Header,
    Record,
    Repaired,
    TurnEvent,
)
from astra_chat.transcript.summary import Summary, summarize

logger = logging.getLogger(__name__)

Item: TypeAlias = BaseAgentEvent | BaseChatMessage | TaskResult
"""What a team's stream yields."""


@dataclass(frozen=True)
class RunResult:
    """What a run left behind."""

    transcript: Path
    """Beside it lie, where a candidate was accepted, best.cu and best/."""
    summary: Summary
    resume_with: str
    """The command that resumes it."""

    @property
    def folder(self) -> Path:
        return self.transcript.parent


class Session:
    """Runs a request once. `judge` stands in for the task's own where a caller has another."""

    def __init__(
        self,
        request: Request,
        on_record: Callable[[Record], None] = lambda _: None,
        on_progress: Callable[[Progress], None] = lambda _: None,
        on_notice: Callable[[str], None] = lambda _: None,
        judge: JudgeProtocol | None = None,
        past: Past | None = None,
    ) -> None:
        """`on_notice` gets words for the user that are no part of the record."""
        self._request, self._past, self._own_judge = request, past, judge
        self._on_record, self._on_progress = on_record, on_progress
        self._on_notice = on_notice
        self._failures: list[Exception] = []
        self._broke: Exception | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pause, self._token = ExternalTermination(), CancellationToken()
        self._interrupts = 0
        self._left: Literal["waiting", "interrupted"] | None = None
        self._approver = None if request.approver is None else approver_for(request.approver)

    def run(self) -> RunResult:
        """Hold the chat and leave a transcript that ends with how it ended.

        An exception of the machine's or our own is recorded in that end, then raised.
        """
        with self._judge() as judge:
            self._journal = begin(self._request, self._past, self._on_record)
            try:
                self._converse(self._metered(judge))
            finally:
                self._journal.close()
        summary = summarize(self._journal.records)
        return RunResult(self._journal.path, summary, self._resume_with())

    def _resume_with(self) -> str:
        return resume_command(self._journal.path, self._request)

    def _judge(self) -> AbstractContextManager[JudgeProtocol]:
        """The judge, with the models' tape running if they have one."""
        request = self._request
        past = self._past.turns if self._past else []
        return taped(
            request.models.tape, self._real_judge, request.task, request.device, request.tier,
            request.cases, past,
        )  # fmt: skip

    def _real_judge(self) -> AbstractContextManager[JudgeProtocol]:
        if self._own_judge is not None:
            return nullcontext(self._own_judge)
        request = self._request
        if request.device.kind == "cuda" and request.limits.confirmations:
            find_tool("compute-sanitizer")  # a winner passes it: better no run than none confirmed
        judge = Judge(
            request.task, request.device, tier=request.tier, cases=request.cases,
            trust=request.trust, on_progress=self._progress,
        )  # fmt: skip
        judge.prepare()
        return judge

    def _metered(self, judge: JudgeProtocol) -> JudgeProtocol:
        """Start the meter, of which the earlier sittings are a part, and the models' tape."""
        request, before = self._request, self._journal.records
        self._meter = Meter(request.budget, ledger(before), before[-1].t)
        head = before[0].event
        assert isinstance(head, Header)
        request.models.begin(request.task, head, self._meter)
        return MeteredJudge(judge, self._meter)

    def _progress(self, report: Progress) -> None:
        """From the judge's thread to the chat's, where everything else is shown."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._on_progress, report)

    def _interrupt(self) -> None:
        """Ctrl-C: first the turn is finished, then nothing is waited for."""
        self._interrupts += 1
        if self._interrupts == 1:
            self._pause.set()
            self._on_notice("finishing this turn, then stopping; Ctrl-C again stops at once")
        else:
            self._token.cancel()

    def _interrupt_from_outside(self) -> None:
        """The same from another thread than the chat's."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._interrupt)

    @property
    def _stopped(self) -> bool:
        """Whether the user, or the want of a decision, ends the chat before its end."""
        return self._interrupts > 0 or self._token.is_cancelled() or self._left is not None

    def _converse(self, judge: JudgeProtocol) -> None:
        """Hold the chat and record its end, whatever it is."""
        try:
            in_own_loop(lambda: self._chat(judge), self._interrupt_from_outside)
            self._finish()
        except KeyboardInterrupt:
            self._finish()
        except BudgetSpent as spent:
            self._finish(spent)
        except Exception as error:
            error.add_note(f"go on with: {self._resume_with()}")
            with suppress(MissingDependency):  # where nothing can be written, that is the error
                self._end(ended(self._journal.thread, "error", error, self._leave_best()))
            raise

    async def _chat(self, judge: JudgeProtocol) -> None:
        """Let the team talk until the chat is at its end or the user stops it."""
        request = self._request
        setting = ChatContext(
            task=request.task,
            baseline=baseline_source(request.task, request.tier),
            tier=request.tier,
            device=request.device.name,
            limits=request.limits,
            roles=("single",) if request.strategy.kind == "single" else MODEL_ROLES,
        )
        self._loop = asyncio.get_running_loop()
        # AutoGen leaves tasks behind whose errors nobody fetches; ours come by `_failures`.
        self._loop.set_exception_handler(lambda loop, context: None)
        if not self._journal.thread:
            self._take(Turn("user", self._commission()))
        self._note_deviation()
        try:
            while not self._stopped and (speakers := self._following().speakers):
                if speakers == ("human",):
                    self._ask(setting.baseline)
                else:
                    with on_signal(self._interrupt, self._token.cancel):
                        await self._talk(setting, judge)
        finally:
            await request.models.close()

    def _ask(self, baseline: str) -> None:
        """Let the human decide. No team is running, so waiting for an answer blocks nobody."""
        asked = question(self._journal.thread, baseline, self._request.limits)
        assert asked is not None and self._approver is not None
        answer: Answer
        try:
            with plain_ctrl_c():
                answer = self._approver.decide(asked)
        except KeyboardInterrupt:
            answer = "stop"
        if isinstance(answer, Turn):
            self._take(answer)
        else:
            self._left = "waiting" if answer == "wait" else "interrupted"

    async def _talk(self, setting: ChatContext, judge: JudgeProtocol) -> None:
        """One run of a fresh team, which is told all that was said."""
        said = [message(turn.speaker, turn.payload) for turn in self._journal.thread]
        team, moderator = build_team(
            setting, self._request.models, judge, self._failures.append, self._pause
        )
        running = team.run_stream(
            task=said, cancellation_token=self._token, output_task_messages=False
        )
        try:
            async with aclosing(running) as stream:
                await self._follow(stream, moderator, self._token)
        except asyncio.CancelledError:
            if self._broke is not None:
                raise self._broke from None
            if not self._token.is_cancelled():
                raise
        except RuntimeError:
            if self._failures:
                # AutoGen keeps an exception's text only; the agents handed us the exception.
                raise self._failures[0] from None
            raise

    async def _follow(
        self, stream: AsyncIterator[Item], moderator: Selector, token: CancellationToken
    ) -> None:
        """Record the team's stream until it ends."""
        try:
            async for item in stream:
                self._hear(item, moderator)
        except Exception as error:
            # Before the stream is closed, which waits for the team: it would go on. Closing may
            # end in a CancelledError that takes this one's place.
            self._broke = error
            token.cancel()
            raise

    def _hear(self, item: Item, moderator: Selector) -> None:
        match item:
            case TaskResult(stop_reason=reason):
                if reason == STALLED:
                    raise RuntimeError("the team fell silent before its end")
            case SelectSpeakerEvent():
                chosen = Chosen(decision=moderator.decisions.popleft())
                self._journal.record(*self._meter.take("selector"), chosen)
            case RepairEvent(source=source, content=reason):
                repaired = Repaired(speaker=cast(Speaker, source), reason=reason)
                self._journal.record(*self._meter.take(source, 1), repaired)
            case DoubtEvent(source=source, content=reason, stands=stands):
                doubted = Doubted(speaker=cast(Speaker, source), reason=reason, stands=stands)
                self._journal.record(*self._meter.take(source, 1), doubted)
            case BaseChatMessage(source=source):
                self._journal.record(*self._meter.take(source))
                self._take(typed(item))

    def _commission(self) -> RunRequest:
        request = self._request
        return RunRequest(
            task=request.task.name,
            summary=request.task.summary,
            device=request.device.name,
            tier=request.tier,
            rounds=request.limits.rounds,
            approval=request.approver is not None,
            strategy=request.strategy,
        )

    def _following(self) -> Next:
        return next_speakers(self._journal.thread, self._request.limits)

    def _take(self, said: Turn) -> None:
        """Record a turn, and whether it left the script."""
        found = deviation([*self._journal.thread, said], self._request.models)
        self._journal.take(said, *([found] if found else []))
        logger.info("turn %d: %s, %s", len(self._journal.thread), said.speaker, said.kind)

    def _note_deviation(self) -> None:
        """Record what a kill left unsaid about the last turn."""
        found = deviation(self._journal.thread, self._request.models)
        events = [record.event for record in self._journal.records]
        last = max(i for i, event in enumerate(events) if isinstance(event, TurnEvent))
        if found is not None and found not in events[last:]:
            self._journal.record(found)

    def _finish(self, spent: BudgetSpent | None = None) -> None:
        """Leave the best candidate's files, then record the end."""
        stop: EndReason | None = self._following().stop if self._journal.thread else None
        if spent is not None:
            stop = "budget"
        notes = [str(spent)] if spent else []
        notes += self._leave_best(whole=stop is not None)
        self._end(ended(self._journal.thread, stop or self._left or "interrupted", notes=notes))

    def _end(self, end: Ended) -> None:
        """The last two lines: what was spent, and how it ended."""
        self._journal.record(*self._meter.take())
        self._journal.record(ledger(self._journal.records), end)

    def _leave_best(self, whole: bool = False) -> list[str]:
        """Write best.cu and, of a run that reached its end, best/; say what was written."""
        request, said = self._request, self._journal.thread
        folder, found = self._journal.folder, run_state.best(said)
        source = run_state.source_of(said, found[0].candidate) if found else None
        try:
            leave_source(source, folder, {k.candidate for k in run_state.turns_of(said, Kernel)})
            if source is None or not whole:
                return [] if source is None else ["its source is in best.cu"]
            export_best(request.task, source, folder / "best", arch=request.device.arch)
        except (AstraError, OSError) as error:
            return [f"its files were not all written: {error}"]
        return ["its source is in best.cu, a tvm-ffi module of it in best/"]
