"""A group of ranks: one process each, watched; no rank that dies or hangs makes the others hang."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Annotated, Literal, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from astra_chat.tools.run.rank_messages import (
    Burst,
    Counted,
    Done,
    Launched,
    PeerMemory,
    RankFailed,
    RankRequest,
    Samples,
)
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.types import Value
from astra_vgpu.ground.errors import AstraError

PROGRAM = (sys.executable, "-m", "astra_chat.tools.runners.ranks.rank")
START_S = 180.0
"""Limit of time up to a rank's first report: torch is loaded, a GPU's context made."""
KILL_S = 30.0
"""How long the driver may take to end a kernel that waits, after its process was killed."""
STOP_S = 0.5
"""How long a stop may wait to be seen."""
NO_MULTICAST = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1"}
"""NVLink multicast stays off, in libraries too."""
Message = PeerMemory | Launched | Burst | Counted | Samples | RankFailed | Done
MESSAGES: TypeAdapter[Message] = TypeAdapter(Annotated[Message, Field(discriminator="event")])
M = TypeVar("M", bound=Value)


@dataclass(frozen=True)
class Ended:
    """Why a group was ended before all of its ranks were done."""

    kind: Literal["crashed", "unsafe", "timed_out", "unsupported", "lacking"]
    rank: int
    message: str
    limit_s: float = 0.0
    """The limit that a silent group exceeded; 0 for others."""
    failed: RankFailed | None = None
    """What the rank itself said."""


@dataclass
class _Member:
    """One rank's process."""

    rank: int
    process: subprocess.Popen[str]
    errors: IO[str]
    messages: list[Message] = field(default_factory=list)
    rest: bytes = b""
    """What it has written of its next line."""

    def lines(self) -> list[bytes] | None:
        """Whole lines that have arrived; None once its output has ended. A selector sees the pipe
        only: nothing may be left in a buffer of Python's."""
        assert self.process.stdout is not None
        read = os.read(self.process.stdout.fileno(), 2**20)
        *whole, self.rest = (self.rest + read).split(b"\n")
        return whole if read else None

    @property
    def where(self) -> str:
        """How far it reported to be."""
        last = self.messages[-1] if self.messages else None
        number = getattr(last, "number", None)
        return "at its start" if number is None else f"after {last.event} {number}"  # type: ignore[union-attr]

    def error_text(self) -> str:
        """What it wrote to stderr so far."""
        self.errors.seek(0)
        return self.errors.read().strip()

    def last_error(self) -> str:
        """The last line of that which names an error; the last of all where none does: a stack
        trace may follow."""
        lines = self.error_text().splitlines()
        named = [line for line in lines if "rror" in line]
        return f": {(named or lines)[-1].strip()}" if lines else ""


class RankGroup:
    """The ranks of one request, from their start to their end."""

    def __init__(
        self,
        requests: Sequence[RankRequest],
        timeout_s: float,
        program: Sequence[str] = PROGRAM,
        start_s: float = START_S,
    ) -> None:
        """Starts a process for each request.

        Args:
            requests: What each rank has to do, by rank.
            timeout_s: Seconds after which the group is ended if one rank reports nothing.
            program: The command line of a rank.
            start_s: The same limit up to each rank's first report.
        """
        self._timeout_s, self._start_s = timeout_s, start_s
        self._members = list[_Member]()
        for request in requests:
            errors = tempfile.TemporaryFile("w+")
            process = subprocess.Popen(
                program,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, **NO_MULTICAST},
                start_new_session=True,
            )
            self._members.append(_Member(request.rank, process, errors))
        for member, request in zip(self._members, requests, strict=True):
            self._tell(member, request.model_dump_json())

    @property
    def processes(self) -> list[subprocess.Popen[str]]:
        """The processes by rank."""
        return [member.process for member in self._members]

    def run(
        self,
        seen: Callable[[int, Message], None] = lambda rank, message: None,
        stop: Stop | None = None,
    ) -> Ended | None:
        """Exchanges the ranks' memory and waits until all are done; None where they are.

        Args:
            seen: Called with each rank's number and message.
            stop: Ends the wait from another thread.

        Returns:
            Why the group was ended: a rank died, failed, or reported nothing for too long. Raises
            Cancelled where it was stopped.
        """
        with selectors.DefaultSelector() as ready:
            for member in self._members:
                assert member.process.stdout is not None
                ready.register(member.process.stdout, selectors.EVENT_READ, member)
            last = time.monotonic()
            while waiting := [m for m in self._members if not _is_done(m)]:
                limit_s = self._timeout_s if all(m.messages for m in waiting) else self._start_s
                left_s = last + limit_s - time.monotonic()
                if left_s <= 0:
                    return self._silent(waiting, limit_s)
                if stop is not None:
                    stop.check()
                for key, _ in ready.select(min(left_s, STOP_S)):
                    last = time.monotonic()
                    if ended := self._read(key.data, seen):
                        return ended
        return None

    def results(self, kind: type[M]) -> list[list[M]]:
        """Returns the messages of one kind, by rank."""
        return [[m for m in member.messages if isinstance(m, kind)] for member in self._members]

    def errors(self, rank: int) -> str:
        """Returns what one rank wrote to stderr."""
        return self._members[rank].error_text()

    def close(self) -> None:
        """Ends all processes. Raises AstraError where one cannot be ended."""
        for member in self._members:
            if member.process.poll() is None:
                os.killpg(member.process.pid, signal.SIGKILL)
        for member in self._members:
            try:
                member.process.wait(KILL_S)
            except subprocess.TimeoutExpired:
                what = f"the process of rank {member.rank} ({member.process.pid}) is still running"
                raise AstraError(f"{what} {KILL_S:.0f} s after SIGKILL: reset its GPU") from None
            for stream in (member.process.stdin, member.process.stdout, member.errors):
                if stream is not None:
                    stream.close()

    def _read(self, member: _Member, seen: Callable[[int, Message], None]) -> Ended | None:
        """Takes what a rank has written. Raises AstraError for what is no message."""
        lines = member.lines()
        if lines is None:
            return self._died(member)
        for line in lines:
            try:
                message = MESSAGES.validate_json(line)
            except ValidationError:
                raise AstraError(f"rank {member.rank} sent no message: {line[:200]!r}") from None
            if ended := self._take(member, message, seen):
                return ended
        return None

    def _take(
        self, member: _Member, message: Message, seen: Callable[[int, Message], None]
    ) -> Ended | None:
        member.messages.append(message)
        seen(member.rank, message)
        if isinstance(message, RankFailed):
            text = f"rank {member.rank}: {message.message}"
            return Ended(message.kind, member.rank, text, failed=message)
        if isinstance(message, PeerMemory):
            made = [m.messages[0] for m in self._members if m.messages]
            if len(made) == len(self._members):
                handles = json.dumps([m.handles for m in made if isinstance(m, PeerMemory)])
                for other in self._members:
                    self._tell(other, handles)
        return None

    def _tell(self, member: _Member, line: str) -> None:
        assert member.process.stdin is not None
        try:
            member.process.stdin.write(f"{line}\n")
            member.process.stdin.flush()
        except BrokenPipeError:
            return  # it has died: its output ends, which says so

    def _died(self, member: _Member) -> Ended:
        """Why its output ended. Raises AstraError where it has not even shared its memory."""
        code = member.process.wait(KILL_S)
        by = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        what = f"rank {member.rank} ended ({by}) {member.where}{member.last_error()}"
        if not member.messages:  # no code of a candidate has run
            raise AstraError(what)
        return Ended(
            "crashed", member.rank, f"{what}; its peers, which were waiting for it, were stopped"
        )

    def _silent(self, waiting: Sequence[_Member], limit_s: float) -> Ended:
        """A rank that has not even launched is late; its peers wait for it."""
        late = [m for m in waiting if not m.messages] or [
            m for m in waiting if not isinstance(m.messages[-1], Launched)
        ]
        if late and len(late) < len(waiting):
            what = f"rank {late[0].rank} is late {late[0].where}: it has launched no call for"
            message = f"{what} {limit_s:g} s; its peers, which were waiting for it, were stopped"
            return Ended("timed_out", late[0].rank, message, limit_s)
        names = " and ".join(str(m.rank) for m in waiting)
        what = f"ranks {names} reported nothing for {limit_s:g} s {waiting[0].where}"
        message = (
            f"{what}: a kernel is waiting for a signal that never comes; all ranks were stopped"
        )
        return Ended("timed_out", waiting[0].rank, message, limit_s)


def _is_done(member: _Member) -> bool:
    return bool(member.messages) and isinstance(member.messages[-1], Done)


@contextmanager
def group_of(
    requests: Sequence[RankRequest], timeout_s: float, program: Sequence[str] = PROGRAM
) -> Iterator[RankGroup]:
    """A group whose processes are ended in any case."""
    group = RankGroup(requests, timeout_s, program)
    try:
        yield group
    finally:
        group.close()
