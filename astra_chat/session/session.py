"""One run: a chat about one task on one device, recorded as it goes; and its AutoGen team: a
speaker for each role, a selector, and an end by the turn order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager, aclosing, closing, nullcontext, suppress
from typing import Literal, TypeAlias, cast

from autogen_agentchat.base import TaskResult, TerminationCondition
from autogen_agentchat.conditions import ExternalTermination
from autogen_agentchat.messages import (
    BaseAgentEvent,
    BaseChatMessage,
    SelectSpeakerEvent,
    StopMessage,
)
from autogen_agentchat.teams import SelectorGroupChat
from autogen_core import CancellationToken
from autogen_core.model_context import BufferedChatCompletionContext

from astra_chat.agents.approval import question
from astra_chat.agents.executor import Executor
from astra_chat.agents.judge_protocol import JudgeProtocol
from astra_chat.agents.messages import (
    MESSAGE_TYPES,
    ContradictionEvent,
    RejectedReplyEvent,
    SharedState,
    message,
    turn,
)
from astra_chat.agents.prompt import ChatContext
from astra_chat.agents.role_agent import RoleAgent
from astra_chat.agents.run_state import RunState
from astra_chat.agents.selector import Selector
from astra_chat.agents.task_text import basis_of, device_text
from astra_chat.agents.turn_order import STOP_TEXTS, AskHuman, Confirm, Stop, next_step
from astra_chat.agents.turns import MODEL_ROLES, RunRequest, Speaker, Turn
from astra_chat.approval.approvers import Approver, approver_for
from astra_chat.detached.asking import DetachedJudge, WaitsForJudge
from astra_chat.models.mailbox import Asker, WaitsForAnswer
from astra_chat.models.metered import MeteredJudge
from astra_chat.models.recording_judge import recorded_judge
from astra_chat.models.run_models import Models
from astra_chat.session.export import export_best, leave_refused, leave_source, prepare_export
from astra_chat.session.final_message import deviation, ended, refusal_text
from astra_chat.session.judges import judge_for
from astra_chat.session.progress_note import ProgressNote
from astra_chat.session.recorded_options import resume_command
from astra_chat.session.recorder import Recorder, begin
from astra_chat.session.request import Request
from astra_chat.session.results import End, RunResult
from astra_chat.session.resume import Past
from astra_chat.session.run_events import RunEvents, Silent
from astra_chat.session.signals import ChatLoop, StopRun, in_own_loop, on_signal, plain_ctrl_c
from astra_chat.spending.budget import BudgetSpent
from astra_chat.spending.meter import Meter
from astra_chat.tools.language import is_extension, is_triton
from astra_chat.tools.system.background import Background
from astra_chat.tools.task.tiers import baseline_source
from astra_chat.tools.tuning.tuning_judge import TuningJudge
from astra_chat.transcript.events import (
    Chosen,
    Contradiction,
    RejectedReply,
    TurnEvent,
)
from astra_chat.transcript.ledger import ledger
from astra_chat.transcript.run_folder import BEST_MODULE, TRITON_SOURCE
from astra_chat.transcript.summary import summarize
from astra_vgpu.ground.errors import AstraError, MissingDependency

logger = logging.getLogger(__name__)

Item: TypeAlias = BaseAgentEvent | BaseChatMessage | TaskResult
"""What a team's stream yields."""
STALLED = "The group chat is stopped."
"""AutoGen's stop reason if no agent speaks although the chat has not ended."""


def run_request(
    request: Request,
    events: RunEvents | None = None,
    judge: JudgeProtocol | None = None,
    past: Past | None = None,
    stop: StopRun | None = None,
) -> RunResult:
    """Run a request once, and leave a transcript that ends with how it ended.

    `judge` stands in for the task's own; `stop` stops the run from another thread. An exception of
    the machine's or our own is recorded in that end, then raised.
    """
    loop, listener = ChatLoop(stop), ProgressNote(events or Silent())
    approver = approver_for(request.approver) if request.approver else None
    own: TuningJudge | DetachedJudge | None = None

    def real_judge() -> AbstractContextManager[JudgeProtocol]:
        nonlocal own
        if judge is not None:
            return nullcontext(judge)
        own = judge_for(request, listener, loop, turns)
        return own

    turns = past.turns if past else []
    with (
        recorded_judge(
            request.models.recording,
            real_judge,
            request.task,
            request.device,
            request.options.tier,
            request.options.cases,
            turns,
        ) as opened,
        closing(begin(request, past, listener.record)) as recorder,
    ):
        listener.begin(recorder)
        meter = Meter(request.budget, ledger(recorder.records), recorder.records[-1].t)
        run = recorder.records[0].run
        if isinstance(own, DetachedJudge):
            own.begin(recorder.folder, run)
        asker = Asker(run, request.task.name, recorder.path, wait=not request.no_wait)
        request.models.begin(request.task, recorder.header, meter, asker)
        metered = MeteredJudge(opened, meter)
        try:
            end = Session(request, recorder, metered, meter, approver, listener, loop).run()
        finally:
            listener.clear()
    path, question = recorder.path, end.question.folder if end.question else None
    summary, again = summarize(recorder.records), resume_command(path, request)
    return RunResult(path, summary, again, question, end.job)


class Session:
    """The chat of one request: teams talk, humans decide, everything is recorded."""

    def __init__(
        self,
        request: Request,
        recorder: Recorder,
        judge: JudgeProtocol,
        meter: Meter,
        approver: Approver | None,
        events: RunEvents,
        loop: ChatLoop,
    ) -> None:
        self._request, self._recorder = request, recorder
        self._judge, self._meter = judge, meter
        self._approver, self._events, self._loop = approver, events, loop
        self._context = ChatContext(
            task=request.task,
            baseline=baseline_source(request.task, request.options.tier),
            tier=request.options.tier,
            device=device_text(request.device),
            basis=basis_of(request.device),
            roles=("single",) if request.options.strategy.kind == "single" else MODEL_ROLES,
            budget_left=meter.left,
        )
        self._pause, self._token = ExternalTermination(), CancellationToken()
        self._interrupted = False
        self._error: Exception | None = None
        self._exporting: Background | None = None
        """Compiles the winner's module while its confirmation runs."""

    def run(self) -> End:
        """Hold the chat and record its end, whatever it is."""
        try:
            self._finish(end := self._hold())
            return end
        except Exception as error:
            error.add_note(f"resume with: {resume_command(self._recorder.path, self._request)}")
            with suppress(MissingDependency):  # where nothing can be written, that is the error
                self._finish(End("error", error=error))
            raise

    def _hold(self) -> End:
        try:
            return in_own_loop(self._chat, lambda: self._loop.call(self._interrupt))
        except KeyboardInterrupt:
            return End("interrupted")
        except BudgetSpent as spent:
            return End("budget", str(spent))
        except WaitsForAnswer as waits:
            return End("waiting", str(waits), question=waits.question)
        except WaitsForJudge as waits:
            note = f"the judge stopped: {waits.problem}" if waits.problem else ""
            return End("waiting", note, job=waits.folder)

    @property
    def _state(self) -> RunState:
        return self._recorder.state

    def _interrupt(self) -> None:
        """Ctrl-C: first the turn is finished, then nothing is waited for."""
        if self._interrupted:
            self._token.cancel()
            return
        self._interrupted = True
        self._pause.set()
        if not self._request.models.stop_waiting():
            self._events.notice("finishing this turn, then stopping; Ctrl-C again stops at once")

    async def _chat(self) -> End:
        """Let the team talk until the chat is at its end or the user stops it."""
        self._loop.enter(self._token.cancel)
        if self._state.last is None:
            self._take(Turn("user", self._run_request()))
        self._note_deviation()
        try:
            return await self._until_end()
        finally:
            await self._request.models.close()

    async def _until_end(self) -> End:
        while True:
            step = next_step(self._state)
            if isinstance(step, Stop):
                return End(step.reason)
            if self._interrupted or self._token.is_cancelled():
                return End("interrupted")
            if not isinstance(step, AskHuman):
                with on_signal(self._interrupt, self._token.cancel):
                    await self._talk()
            elif (left := self._ask()) is not None:
                return End(left)

    def _ask(self) -> Literal["waiting", "interrupted"] | None:
        """Let the human decide. No team is running, so waiting for an answer blocks nobody."""
        asked = question(self._state, self._context.baseline)
        assert asked is not None and self._approver is not None
        try:
            with plain_ctrl_c():
                answer = self._approver.decide(asked)
        except KeyboardInterrupt:
            return "interrupted"
        if not isinstance(answer, Turn):
            return "waiting" if answer == "wait" else "interrupted"
        self._take(answer)
        return None

    async def _talk(self) -> None:
        """One run of a fresh team; of what was said before it gets the state, and the last turn."""
        last = self._state.last
        assert last is not None
        team, selector = build_team(
            self._context, self._state, self._request.models, self._judge, self._fail, self._pause
        )
        running = team.run_stream(
            task=message(last.speaker, last.payload),
            cancellation_token=self._token,
            output_task_messages=False,
        )
        try:
            async with aclosing(running) as stream:
                await self._follow(stream, selector)
        except (asyncio.CancelledError, RuntimeError):
            # AutoGen keeps an exception's text only; whoever failed handed us the exception.
            if self._error is not None:
                raise self._error from None
            if not self._token.is_cancelled():
                raise

    def _fail(self, error: Exception) -> None:
        """The first error is the one that counts."""
        self._error = self._error or error

    async def _follow(self, stream: AsyncIterator[Item], selector: Selector) -> None:
        """Record the team's stream until it ends."""
        try:
            async for item in stream:
                self._hear(item, selector)
        except Exception as error:
            # Before the stream is closed, which waits for the team: it would continue. Closing may
            # end in a CancelledError that takes this one's place.
            self._fail(error)
            self._token.cancel()
            raise

    def _hear(self, item: Item, selector: Selector) -> None:
        match item:
            case TaskResult(stop_reason=reason):
                if reason == STALLED:
                    raise RuntimeError("the team stopped before the end of the run")
            case SelectSpeakerEvent():
                chosen = Chosen(decision=selector.decisions.popleft())
                self._recorder.record(*self._meter.take("selector"), chosen)
            case RejectedReplyEvent(source=source, content=reason):
                rejected = RejectedReply(speaker=cast(Speaker, source), reason=reason)
                self._recorder.record(*self._meter.take(source, 1), rejected)
            case ContradictionEvent(source=source, content=reason, stands=stands):
                contradiction = Contradiction(
                    speaker=cast(Speaker, source), reason=reason, stands=stands
                )
                self._recorder.record(*self._meter.take(source, 1), contradiction)
            case BaseChatMessage(source=source):
                self._recorder.record(*self._meter.take(source))
                self._take(turn(item))

    def _run_request(self) -> RunRequest:
        request = self._request
        return RunRequest(
            task=request.task.name,
            summary=request.task.summary,
            device=request.device.name,
            tier=request.options.tier,
            rounds=request.limits.rounds,
            approval=request.approver is not None,
            strategy=request.options.strategy,
            memory=request.memory,
        )

    def _take(self, said: Turn) -> None:
        """Record a turn, and whether it left the script."""
        found = deviation(self._state.after(said), self._request.models)
        self._recorder.take(said, *([found] if found else []))
        number = self._recorder.records[-1].turn
        logger.info("turn %d: %s, %s", number, said.speaker, said.kind)
        self._export_ahead()

    def _export_ahead(self) -> None:
        """Begin to compile the module of a winner that is about to be confirmed. Not beside a GPU,
        whose launches are timed with the host's cores idle."""
        step, request = next_step(self._state), self._request
        if not isinstance(step, Confirm) or request.device.kind == "cuda":
            return
        arch = request.device.arch
        self._exporting = Background(lambda: prepare_export(request.task, step.source, arch))
        self._exporting.start()

    def _note_deviation(self) -> None:
        """Record what a kill left unsaid about the last turn."""
        found = deviation(self._state, self._request.models)
        events = [record.event for record in self._recorder.records]
        last = max(i for i, event in enumerate(events) if isinstance(event, TurnEvent))
        if found is not None and found not in events[last:]:
            self._recorder.record(found)

    def _finish(self, end: End) -> None:
        """Leave the best candidate's files, then record what was spent and how it ended."""
        reason, step = end.reason, next_step(self._state)
        if reason == "interrupted" and self._state.last and isinstance(step, Stop):
            reason = step.reason  # it came to its end all the same
        whole = reason not in ("interrupted", "waiting", "error")
        notes = [*([end.note] if end.note else []), *self._leave_best(whole)]
        notes += self._leave_refused()
        self._recorder.record(*self._meter.take())
        self._recorder.record(
            ledger(self._recorder.records),
            ended(
                self._state,
                reason,
                end.error,
                notes,
                self._request.entropy.root,
                end.question.id if end.question else "",
                end.job.name if end.job else "",
            ),
        )

    def _leave_best(self, whole: bool) -> list[str]:
        """Write best.cu and, of a run that reached its end, best/; say what was written."""
        request, folder, state = self._request, self._recorder.folder, self._state
        source = state.sources.get(state.best[0].candidate) if state.best else None
        try:
            leave_source(source, folder, set(state.sources))
            if source is not None and is_extension(source):
                return ["its source, a torch extension, is in best.cu"]
            if state.best and source is not None and whole:
                device, (evaluation, timed) = request.device, state.best
                how = "measured" if device.kind == "cuda" else "estimated for"
                origin = (
                    f"{evaluation.candidate} of run {folder.name}, {how} {device.name}:"
                    f" {timed.ratio:.3f}x the speed of the run's baseline"
                )
                module = folder / BEST_MODULE
                if self._exporting:
                    self._exporting.wait()
                export_best(request.task, source, module, arch=device.arch, origin=origin)
        except (AstraError, OSError) as error:
            return [f"not all of its files were written: {error}"]
        if source is None:
            return []
        if is_triton(source):
            named = f"its source is in {TRITON_SOURCE}"
            return [f"{named}, and a tvm-ffi module of it is in best/" if whole else named]
        if not whole:
            return ["its source is in best.cu"]
        return [
            "its source is in best.cu, and a tvm-ffi module of it is in best/; best.cu and"
            " best.built.cu, the text that nvcc compiled for the judge, give identical"
            " object files"
        ]

    def _leave_refused(self) -> list[str]:
        """Write the winners that their confirmation refused; say of each what it was, why it was
        refused and where it lies."""
        said, folder = [], self._recorder.folder
        for one in self._state.lost_winners:
            try:
                where = f"its source is in {leave_refused(one.kernel.source, folder)}"
            except OSError as error:
                where = f"its source could not be written: {error.strerror}"
            said.append(f"{refusal_text(one)}; {where}")
        return said


class TurnOrder(TerminationCondition):
    """Ends a run of the team where no agent takes the next step: at the end of the chat, and where
    a human decides, for whom no team waits."""

    component_type = "termination"

    def __init__(self, state: SharedState) -> None:
        self._state = state
        self._terminated = False

    @property
    def terminated(self) -> bool:
        return self._terminated

    async def __call__(
        self, messages: Sequence[BaseAgentEvent | BaseChatMessage]
    ) -> StopMessage | None:
        match next_step(self._state.now):
            case Stop(reason=reason):
                why = STOP_TEXTS[reason]
            case AskHuman():
                why = "a human decides"
            case _:
                return None
        self._terminated = True
        return StopMessage(content=why, source="selector")

    async def reset(self) -> None:
        self._terminated = False


def build_team(
    context: ChatContext,
    state: RunState,
    models: Models,
    judge: JudgeProtocol,
    on_failure: Callable[[Exception], None],
    pause: TerminationCondition,
) -> tuple[SelectorGroupChat, Selector]:
    """A fresh team; after an error or a cancellation AutoGen's are not to be used again.

    `pause` ends its run after a turn, wherever the chat stands.
    """
    # AutoGen logs every exception with a traceback; ours reach the user by `on_failure`.
    for name in ("autogen_core", "autogen_agentchat"):
        logging.getLogger(name).addHandler(logging.NullHandler())
    shared, client = SharedState(state), models.client("selector")
    selector = Selector(shared, client, on_failure)
    roles = [
        RoleAgent(role, context, shared, models.client(role), on_failure) for role in context.roles
    ]
    team = SelectorGroupChat(
        [*roles, Executor(judge, context.baseline, shared, on_failure)],
        model_client=client,
        selector_func=selector.next_speaker,
        allow_repeated_speaker=True,
        # Unused as long as the selector always answers, but AutoGen fills it: keep it short.
        model_context=BufferedChatCompletionContext(buffer_size=2),
        termination_condition=TurnOrder(shared) | pause,
        custom_message_types=[*MESSAGE_TYPES.values(), RejectedReplyEvent, ContradictionEvent],
        emit_team_events=True,
    )
    return team, selector
