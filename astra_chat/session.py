"""One run: a chat about one task on one device, recorded as it goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, aclosing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, cast

from autogen_agentchat.base import TaskResult
from autogen_agentchat.messages import (
    BaseAgentEvent,
    BaseChatMessage,
    SelectSpeakerEvent,
)
from autogen_core import CancellationToken

from astra_chat.agents import thread as facts
from astra_chat.agents.brief import Setting
from astra_chat.agents.executor import Judging
from astra_chat.agents.messages import RepairEvent, message
from astra_chat.agents.messages import turn as typed
from astra_chat.agents.moderator import Moderator
from astra_chat.agents.payloads import Commission, Speaker
from astra_chat.agents.policy import next_speakers
from astra_chat.agents.thread import Turn
from astra_chat.ending import deviation, ended
from astra_chat.export import export_best
from astra_chat.interrupt import in_own_loop, on_signal
from astra_chat.provenance import header
from astra_chat.request import Request, place, request_for
from astra_chat.summary import Summary, summarize
from astra_chat.team import STALLED, build_team
from astra_chat.tools.errors import AstraError, BadInput
from astra_chat.tools.judge import Judge, baseline_source
from astra_chat.tools.types import Progress
from astra_chat.transcript.events import Chosen, Event, Options, Record, Repaired
from astra_chat.transcript.turns import blobs, events_of
from astra_chat.transcript.writer import NAME, Writer

Item: TypeAlias = BaseAgentEvent | BaseChatMessage | TaskResult
"""What a team's stream yields."""


@dataclass(frozen=True)
class RunResult:
    """What a run left behind."""

    folder: Path
    """Holds transcript.jsonl and, where a candidate was accepted, best.cu and best/."""
    summary: Summary

    @property
    def transcript(self) -> Path:
        return self.folder / NAME


def run(
    task: str | Path,
    *,
    models: str = "scripted",
    base_url: str | None = None,
    device: str = "auto",
    gpu: str | None = None,
    out: str | Path | None = None,
    rounds: int = 5,
    cases: str | None = None,
    baseline: str = "sglang",
    on_record: Callable[[Record], None] = lambda _: None,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> RunResult:
    """Run a chat about a shipped task or a task folder, as `astra-chat run` does.

    Raises BadInput for what cannot be used and EnvironmentLack where the machine lacks something.
    An interrupted run returns: its summary says so.
    """
    request = request_for(task, models, device, gpu, out, rounds, cases, baseline, base_url)
    return Session(request, on_record, on_progress).run()


class Session:
    """Runs a request once. `judge` stands in for the task's own where a caller has another."""

    def __init__(
        self,
        request: Request,
        on_record: Callable[[Record], None] = lambda _: None,
        on_progress: Callable[[Progress], None] = lambda _: None,
        judge: Judging | None = None,
    ) -> None:
        self._request, self._on_record, self._on_progress = request, on_record, on_progress
        self._own_judge = judge
        self._records: list[Record] = []
        self._thread: list[Turn] = []
        self._stored: set[str] = set()
        self._failures: list[Exception] = []
        self._folder, self._name = place(request)
        self._writer: Writer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._token = CancellationToken()

    def run(self) -> RunResult:
        """Hold the chat and leave a transcript that ends with how it ended.

        An exception of the machine's or our own is recorded in that end, then raised.
        """
        request = self._request
        options = Options(
            models=request.models.name,
            tier=request.tier,
            rounds=request.limits.rounds,
            repairs=request.limits.repairs,
            cases=request.cases,
            flags=request.task.flags,
        )
        head = header(request.task, request.device, options)
        self._require_room()
        with self._judge() as judge:
            self._writer = Writer(self._folder / NAME, self._name)
            try:
                self._record(head, *blobs(request.task.files().values(), self._stored))
                self._converse(judge)
            finally:
                self._writer.close()
        return RunResult(self._folder, summarize(self._records))

    def _require_room(self) -> None:
        """Nothing of an earlier run is overwritten; the Writer sees to the transcript itself."""
        for name in ("best.cu", "best"):
            if (self._folder / name).exists():
                raise BadInput(
                    f"{self._folder / name} is there already and is not overwritten:"
                    " name another folder"
                )

    def _judge(self) -> AbstractContextManager[Judging]:
        if self._own_judge is not None:
            return nullcontext(self._own_judge)
        request = self._request
        return Judge(
            request.task,
            request.device,
            tier=request.tier,
            cases=request.cases,
            on_progress=self._progress,
        )

    def _progress(self, report: Progress) -> None:
        """From the judge's thread to the chat's, where everything else is shown."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._on_progress, report)

    def _cancel(self) -> None:
        """Stop the chat from another thread than its own."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._token.cancel)

    def _converse(self, judge: Judging) -> None:
        """Hold the chat and record its end, whatever it is."""
        try:
            interrupted = in_own_loop(lambda: self._chat(judge), self._cancel)
            self._finish("interrupted" if interrupted else None)
        except KeyboardInterrupt:
            self._finish("interrupted")
        except Exception as error:
            self._record(ended(self._thread, "error", error))
            error.add_note(f"the transcript so far: {self._folder / NAME}")
            raise

    async def _chat(self, judge: Judging) -> bool:
        """Record the team's stream until it ends; True if it was interrupted."""
        request = self._request
        setting = Setting(
            task=request.task,
            baseline=baseline_source(request.task, request.tier),
            tier=request.tier,
            device=request.device.name,
            limits=request.limits,
        )
        team, moderator = build_team(setting, request.models, judge, self._failures.append)
        token = self._token
        self._loop = asyncio.get_running_loop()
        # AutoGen leaves tasks behind whose errors nobody fetches; ours come by `_failures`.
        self._loop.set_exception_handler(lambda loop, context: None)
        asked = message("user", self._commission())
        try:
            with on_signal(token.cancel):
                running = team.run_stream(task=asked, cancellation_token=token)
                async with aclosing(running) as stream:
                    await self._follow(stream, moderator, token)
        except asyncio.CancelledError:
            if not token.is_cancelled():
                raise
            return True
        except RuntimeError:
            if self._failures:
                # AutoGen keeps an exception's text only; the agents handed us the exception.
                raise self._failures[0] from None
            raise
        finally:
            await request.models.close()
        return False

    async def _follow(
        self, stream: AsyncIterator[Item], moderator: Moderator, token: CancellationToken
    ) -> None:
        """Record the team's stream until it ends."""
        try:
            async for item in stream:
                self._hear(item, moderator)
        except Exception:
            # Before the stream is closed, which waits for the team: it would go on.
            token.cancel()
            raise

    def _hear(self, item: Item, moderator: Moderator) -> None:
        match item:
            case TaskResult(stop_reason=reason):
                if reason == STALLED:
                    raise RuntimeError("the team fell silent before its end")
            case SelectSpeakerEvent():
                self._record(Chosen(decision=moderator.decisions.popleft()))
            case RepairEvent(source=source, content=reason):
                self._record(Repaired(speaker=cast(Speaker, source), reason=reason))
            case BaseChatMessage():
                self._take(typed(item))

    def _commission(self) -> Commission:
        request = self._request
        return Commission(
            task=request.task.name,
            summary=request.task.summary,
            device=request.device.name,
            tier=request.tier,
            rounds=request.limits.rounds,
        )

    def _take(self, said: Turn) -> None:
        """Record a turn, and whether it left the script."""
        self._thread.append(said)
        self._record(*events_of(said, self._stored))
        if (found := deviation(self._thread, self._request.models)) is not None:
            self._record(found)

    def _finish(self, reason: Literal["interrupted"] | None) -> None:
        """Leave the best candidate's files, then record the end."""
        stop = reason or next_speakers(self._thread, self._request.limits).stop
        assert stop is not None
        found = facts.best(self._thread)
        notes: list[str] = []
        if found is not None:
            source = facts.source_of(self._thread, found[0].candidate)
            assert source is not None
            notes = self._leave(source, whole=reason is None)
        self._record(ended(self._thread, stop, notes=notes))

    def _leave(self, source: str, whole: bool) -> list[str]:
        """Write best.cu and, of a run that reached its end, best/; say what was written."""
        request = self._request
        try:
            (self._folder / "best.cu").write_text(source)
            if not whole:
                return ["its source is in best.cu"]
            export_best(request.task, source, self._folder / "best", arch=request.device.arch)
        except (AstraError, OSError) as error:
            return [f"its files were not all written: {error}"]
        return ["its source is in best.cu, a tvm-ffi module of it in best/"]

    def _record(self, *events: Event) -> None:
        assert self._writer is not None
        for record in self._writer.append(*events):
            self._records.append(record)
            self._on_record(record)
