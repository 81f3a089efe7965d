"""Child processes: allow-listed environment, limits, timeouts, and a kill of the whole group."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from astra_chat.tools.entropy import nonce
from astra_chat.tools.sandbox.fork_server import REPORT
from astra_chat.tools.sandbox.policy import SandboxPolicy
from astra_chat.tools.sandbox.ready import ready
from astra_chat.tools.system.forked import Forked, ForkServer
from astra_chat.tools.system.memory_watch import MemoryWatch, StepMemory
from astra_chat.tools.system.process_tree import kill_family, processor_s
from astra_vgpu.ground.errors import AstraError, MissingDependency

PASSED_ON = (
    "PATH",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_VISIBLE_DEVICES",
    "VIRTUAL_ENV",
    "PYTHONPATH",
    "ASTRA_CACHE",
    "ASTRA_CACHE_LIMIT",
    "XDG_CACHE_HOME",
    "HOME",
    "OMP_NUM_THREADS",
)
"""Nothing else of our environment reaches a build or a runner: no API key above all."""
CUDA_ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
"""CUDA counts GPUs as NVML does: by itself it takes the fastest first."""
TAIL_BYTES = 32_768
POLL_S = 0.02
REPORT_BYTES = 16 * 2**20
END_S = 10.0
"""After its last report, to end."""
WAITING = 10.0
"""Limits of time till a child ends that does nothing, where only its work counts."""


MISSING_LIBRARY = re.compile(r"^(?:ImportError|ModuleNotFoundError): (.+)$", re.MULTILINE)

logger = logging.getLogger(__name__)

Child = subprocess.Popen[bytes] | Forked


class StepTimeout(Exception):
    """The child ran past its limit and was killed."""


class Cancelled(Exception):
    """`Stop.set` was called; the child was killed."""


@dataclass
class Stop:
    """Lets another thread stop whatever child runs at the moment."""

    beside: Stop | None = None
    """What stops the same work, too."""
    _event: threading.Event = field(default_factory=threading.Event)

    def set(self) -> None:
        self._event.set()

    def check(self) -> None:
        if self.beside is not None:
            self.beside.check()
        if self._event.is_set():
            raise Cancelled("stopped by the user")

    @contextmanager
    def on_ctrl_c(self) -> Iterator[None]:
        """Ctrl-C sets it as well. Within a pool of threads, which else waits for their children."""
        try:
            yield
        except KeyboardInterrupt:
            self.set()
            raise


@dataclass(frozen=True)
class Finished:
    returncode: int
    output: str
    """Tail of stdout and stderr together."""


def child_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    passed_on = {k: os.environ[k] for k in PASSED_ON if k in os.environ}
    return passed_on | CUDA_ORDER | dict(extra or {})


def run_limited(
    argv: Sequence[str],
    *,
    timeout_s: float,
    cwd: Path,
    stop: Stop,
    memory_bytes: int | None = None,
    sandbox: SandboxPolicy | None = None,
) -> Finished:
    """Run to the end; in `sandbox`, which then also limits memory, argv[0] is a full path.

    Raises StepTimeout, StepMemory or Cancelled after killing the process group, and
    MissingDependency where the program is not there.
    """
    if shutil.which(argv[0]) is None:  # else it is the sandbox, or a shell, that does not find it
        raise MissingDependency(
            f"program {argv[0]} not found: install it, or see astra-chat doctor"
        )
    if memory_bytes:
        shell = 'ulimit -v "$1"; shift; exec "$@"'
        argv = ["/bin/sh", "-c", shell, "sh", str(memory_bytes // 1024), *argv]
    child = _start(argv, sandbox, stdin=subprocess.DEVNULL, cwd=cwd)
    with _Tail(child) as tail:
        _wait(child, timeout_s, stop)
    return Finished(_status(child.returncode) if sandbox else child.returncode, tail.text())


class Begun:
    """A program that has started and may wait for its standard input."""

    def __init__(self, argv: Sequence[str], *, cwd: Path, sandbox: SandboxPolicy) -> None:
        """argv[0] is a full path. Raises MissingDependency where that is no program."""
        if shutil.which(argv[0]) is None:
            raise MissingDependency(
                f"program {argv[0]} not found: install it, or see astra-chat doctor"
            )
        self._child = _start(argv, sandbox, stdin=subprocess.PIPE, cwd=cwd)
        self._tail = _Tail(self._child)

    def finish(self, given: bytes, timeout_s: float, stop: Stop) -> Finished:
        """Give it its input, and wait for its end.

        Raises StepTimeout, StepMemory or Cancelled after killing the process group.
        """
        assert self._child.stdin is not None
        with suppress(BrokenPipeError):  # it died at start: its exit status says why
            self._child.stdin.write(given)
            self._child.stdin.close()
        _wait(self._child, timeout_s, stop)
        self._tail.close()
        return Finished(_status(self._child.returncode), self._tail.text())

    def close(self) -> None:
        """End it, if it has not ended."""
        _kill(self._child)
        self._tail.close()


class Worker:
    """One of our own modules in a child, which reports over a private pipe, never over stdout.

    The request goes in as JSON on stdin; each report is a JSON line that carries the nonce of
    this run, so what a candidate writes anywhere else cannot pass for a verdict. A child that
    runs a candidate runs in `sandbox`; None is for our own and the user's code.
    """

    def __init__(
        self,
        module: str,
        *,
        sandbox: SandboxPolicy | None = None,
        server: ForkServer | None = None,
    ) -> None:
        """Start it; it loads what it needs and waits until `ask` tells it what to do. `server`
        starts it where that has loaded it already."""
        self._module, self._stop, self._deadline = module, Stop(), time.monotonic()
        self._limit_s, self._used_s, self._only_work = 0.0, 0.0, False
        self._nonce = nonce()
        reader, writer = os.pipe()
        self._child: Child
        try:
            if server and server.serves(module):
                environment = child_environment((sandbox or SandboxPolicy()).environment())
                self._child = server.start(module, sandbox, environment, writer)
                self._report = REPORT
            else:
                self._child = _start(
                    [sys.executable, "-m", module],
                    sandbox,
                    stdin=subprocess.PIPE,
                    pass_fds=(writer,),
                )
                self._report = writer
        finally:
            os.close(writer)
        self._pipe, self._ready = reader, False
        self._memory = MemoryWatch(self._child.pid) if sandbox else None
        self._tail = _Tail(self._child)

    def ask(
        self, request: Mapping[str, Any], timeout_s: float, stop: Stop, *, only_work: bool = False
    ) -> None:
        """Send the request; it may run so long from now on, and until `stop` says otherwise.

        With `only_work` it may take longer while its processor time is below the limit: on a busy
        machine. For children that only compute, and do not wait for a GPU.
        """
        self._only_work = only_work
        self.allow(timeout_s, stop)
        assert self._child.stdin is not None
        with suppress(BrokenPipeError):  # it died at start: its exit status says why
            self._send({"request": request})
            self._child.stdin.close()

    def open_gpu(self, index: int, timeout_s: float, stop: Stop) -> str:
        """Let it open a GPU before it is asked for anything; returns why it could not, or "".

        Raises as `reports`.
        """
        self.allow(timeout_s, stop)
        with suppress(BrokenPipeError):
            self._send({"gpu": index})
        found = next((one for one in self.reports() if one["kind"] == "opened"), None)
        return str(found["why"]) if found else f"it was {signal_name(self._child.wait())}"

    def _send(self, content: Mapping[str, Any]) -> None:
        """One line of JSON."""
        assert self._child.stdin is not None
        envelope = {"fd": self._report, "nonce": self._nonce, **content}
        self._child.stdin.write(json.dumps(envelope).encode() + b"\n")
        self._child.stdin.flush()

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._child.pid

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        _kill(self._child)
        os.close(self._pipe)
        self._tail.close()

    def allow(self, timeout_s: float, stop: Stop) -> None:
        """Let it run so long from now on, and until `stop` says otherwise."""
        self._deadline, self._stop = time.monotonic() + timeout_s, stop
        self._limit_s, self._used_s = timeout_s, processor_s(self._child.pid)

    @contextmanager
    def _unlimited(self) -> Iterator[None]:
        """Add the time in here to the child's limit."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._deadline += time.monotonic() - began

    def _is_late(self) -> bool:
        over_s = time.monotonic() - self._deadline
        if over_s < 0 or not self._only_work or over_s > (WAITING - 1) * self._limit_s:
            return over_s > 0
        return processor_s(self._child.pid) - self._used_s > self._limit_s

    def reports(self) -> Iterator[dict[str, Any]]:
        """Reports until the pipe closes. What the caller does between two of them does not count
        against the child's limit.

        Raises StepTimeout, StepMemory or Cancelled, and AstraError where our own code failed.
        """
        pending, over = b"", False
        while True:
            if ready([self._pipe], 0 if over else POLL_S):
                chunk = os.read(self._pipe, 65_536)
                if not chunk:
                    return
                *lines, pending = (pending + chunk).split(b"\n")
                for report in filter(None, map(self._genuine, lines)):
                    if report["kind"] == "broken":
                        raise AstraError(f"{self._module} failed: {report['message']}")
                    if report["kind"] == "ready":
                        self._ready = True
                    else:
                        with self._unlimited():
                            yield report
                pending = pending[-REPORT_BYTES:]
            elif over:
                return
            else:  # it may have reported between the wait and its end: look once more
                over = self._child.poll() is not None
            self._stop.check()
            if self._memory:
                self._memory.check()
            if self._is_late():
                raise StepTimeout

    def finish(self) -> Finished:
        """Exit status and what was printed, after the last report.

        Raises AstraError where the child died before any code but ours had run, MissingDependency
        where that was for want of a library.
        """
        _wait(self._child, max(END_S, self._deadline - time.monotonic()), self._stop)
        self._tail.close()
        if not self._ready:
            raise self._not_started(self._tail.text())
        return Finished(_status(self._child.wait()), self._tail.text())

    def _not_started(self, printed: str) -> AstraError:
        """In one line; all that it printed goes to the log."""
        logger.debug("%s printed: %s", self._module, printed)
        if lacking := MISSING_LIBRARY.findall(printed):
            return MissingDependency(
                f"{self._module} did not start: {lacking[-1]}; reinstall Astra and its"
                f" dependencies into this environment ({sys.prefix}), then run astra-chat doctor"
            )
        last = printed.strip().rpartition("\n")[2][:300]
        why = last or signal_name(self._child.wait())
        return AstraError(f"{self._module} did not start: {why} (--log-level debug shows more)")

    def _genuine(self, line: bytes) -> dict[str, Any] | None:
        try:
            report = json.loads(line)
        except ValueError:
            return None
        if not isinstance(report, dict) or report.pop("nonce", None) != self._nonce:
            return None
        return report


def _status(returncode: int) -> int:
    """bubblewrap tells the signal that ended its child as a shell does: 128 + number."""
    ended = 128 < returncode <= 128 + max(signal.Signals)
    return 128 - returncode if ended else returncode


SIGNALS = {
    "SIGSEGV": "the host code accessed invalid memory, or its stack overflowed",
    "SIGBUS": "the host code accessed an invalid address",
    "SIGABRT": "an assertion failed, or an exception was not caught",
    "SIGFPE": "an integer was divided by zero",
    "SIGILL": "an invalid instruction",
    "SIGKILL": "memory ran out, or another process killed it",
}


def signal_name(returncode: int) -> str:
    """ "killed by SIGSEGV (an invalid memory access)" or "exit status 3"."""
    if returncode < 0:
        name = signal.Signals(-returncode).name
        return f"killed by {name}" + (f" ({SIGNALS[name]})" if name in SIGNALS else "")
    return f"exit status {returncode}"


class _Tail:
    """Drains a child's output and keeps its last bytes: a flood costs nothing."""

    def __init__(self, child: Child) -> None:
        self._child, self._bytes = child, b""
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        assert self._child.stdout is not None
        while chunk := self._child.stdout.read1(65_536):  # type: ignore[attr-defined]
            self._bytes = (self._bytes + chunk)[-TAIL_BYTES:]

    def text(self) -> str:
        return self._bytes.decode(errors="replace")

    def close(self) -> None:
        self._thread.join(timeout=1.0)

    def __enter__(self) -> _Tail:
        return self

    def __exit__(self, *_: object) -> None:
        _kill(self._child)
        self.close()


def _start(
    argv: Sequence[str], sandbox: SandboxPolicy | None, **options: Any
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        sandbox.command(argv) if sandbox else argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=child_environment(sandbox.environment() if sandbox else None),
        start_new_session=True,
        **options,
    )


def _wait(child: Child, timeout_s: float, stop: Stop) -> None:
    deadline = time.monotonic() + timeout_s
    memory = MemoryWatch(child.pid)
    while child.poll() is None:
        try:
            stop.check()
            memory.check()
            if time.monotonic() > deadline:
                raise StepTimeout
        except (Cancelled, StepMemory, StepTimeout):
            _kill(child)
            raise
        _wait_a_little(child)


def _wait_a_little(child: Child) -> None:
    """Until a child ends, POLL_S at most."""
    try:
        end = child.end if isinstance(child, Forked) else os.pidfd_open(child.pid)
    except (OSError, ValueError):  # an old kernel; or it has just ended
        time.sleep(POLL_S)
        return
    try:
        ready([end], POLL_S)
    finally:
        if not isinstance(child, Forked):
            os.close(end)


def _kill(child: Child) -> None:
    if child.poll() is None:
        kill_family(child.pid)
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
