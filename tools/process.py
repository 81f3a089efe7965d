"""Child processes: an allow-list environment, limits, and a kill that reaches the whole group."""

from __future__ import annotations

import json
import os
import secrets
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PASSED_ON = (
    "PATH", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH",
    "CUDA_VISIBLE_DEVICES", "VIRTUAL_ENV", "PYTHONPATH", "ASTRA_CACHE", "XDG_CACHE_HOME", "HOME",
)  # fmt: skip
"""Nothing else of our environment reaches a build or a runner: no API key above all."""
TAIL_BYTES = 32_768
POLL_S = 0.02
REPORT_BYTES = 16 * 2**20


class StepTimeout(Exception):
    """The child ran past its limit and was killed."""


class Cancelled(Exception):
    """`Stop.set` was called; the child was killed."""


@dataclass
class Stop:
    """Lets another thread stop whatever child runs at the moment."""

    _event: threading.Event = field(default_factory=threading.Event)

    def set(self) -> None:
        self._event.set()

    def check(self) -> None:
        if self._event.is_set():
            raise Cancelled("stopped by the user")


@dataclass(frozen=True)
class Finished:
    returncode: int
    output: str
    """Tail of stdout and stderr together."""


def child_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    return {k: os.environ[k] for k in PASSED_ON if k in os.environ} | dict(extra or {})


def run_limited(
    argv: Sequence[str], *, timeout_s: float, memory_bytes: int | None, cwd: Path, stop: Stop
) -> Finished:
    """Run to the end. Raises StepTimeout or Cancelled after killing the process group.

    No memory limit (None) suits CUDA programs, which reserve more addresses than any machine has.
    """
    if memory_bytes:
        shell = 'ulimit -v "$1"; shift; exec "$@"'
        argv = ["/bin/sh", "-c", shell, "sh", str(memory_bytes // 1024), *argv]
    child = _start(argv, stdin=subprocess.DEVNULL, cwd=cwd)
    with _Tail(child) as tail:
        _wait(child, timeout_s, stop)
    return Finished(child.returncode, tail.text())


class Worker:
    """One of our own modules in a child, which reports over a private pipe, never over stdout.

    The request goes in as JSON on stdin; each report is a JSON line that carries the nonce of
    this run, so what a candidate writes anywhere else cannot pass for a verdict.
    """

    def __init__(
        self, module: str, request: Mapping[str, Any], *, timeout_s: float, stop: Stop
    ) -> None:
        self._stop, self._deadline = stop, time.monotonic() + timeout_s
        self._nonce = secrets.token_hex(16)
        reader, writer = os.pipe()
        try:
            self._child = _start(
                [sys.executable, "-m", module], stdin=subprocess.PIPE, pass_fds=(writer,)
            )
        finally:
            os.close(writer)
        self._pipe = reader
        self._tail = _Tail(self._child)
        envelope = {"fd": writer, "nonce": self._nonce, "request": request}
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(json.dumps(envelope).encode())
            self._child.stdin.close()
        except BrokenPipeError:
            pass  # it died at start: its exit status says why

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        _kill(self._child)
        os.close(self._pipe)
        self._tail.close()

    def reports(self) -> Iterator[dict[str, Any]]:
        """Reports until the pipe closes. Raises StepTimeout or Cancelled."""
        pending = b""
        while True:
            if select.select([self._pipe], [], [], POLL_S)[0]:
                chunk = os.read(self._pipe, 65_536)
                if not chunk:
                    return
                *lines, pending = (pending + chunk).split(b"\n")
                yield from filter(None, map(self._genuine, lines))
                pending = pending[-REPORT_BYTES:]
            elif self._child.poll() is not None:
                return
            self._stop.check()
            if time.monotonic() > self._deadline:
                raise StepTimeout

    def finish(self) -> Finished:
        """Exit status and what was printed, after the last report."""
        _wait(self._child, max(1.0, self._deadline - time.monotonic()), self._stop)
        self._tail.close()
        return Finished(self._child.returncode, self._tail.text())

    def _genuine(self, line: bytes) -> dict[str, Any] | None:
        try:
            report = json.loads(line)
        except ValueError:
            return None
        if not isinstance(report, dict) or report.pop("nonce", None) != self._nonce:
            return None
        return report


class Reporter:
    """The child's end of the private pipe."""

    def __init__(self) -> None:
        envelope = json.loads(sys.stdin.buffer.read())
        self.request: dict[str, Any] = envelope["request"]
        self._nonce, self._fd = envelope["nonce"], envelope["fd"]

    def send(self, kind: str, **fields: Any) -> None:
        line = json.dumps({"nonce": self._nonce, "kind": kind, **fields}) + "\n"
        os.write(self._fd, line.encode())


def signal_name(returncode: int) -> str:
    """ "killed by SIGSEGV" or "exit status 3"."""
    if returncode < 0:
        return f"killed by {signal.Signals(-returncode).name}"
    return f"exit status {returncode}"


class _Tail:
    """Drains a child's output and keeps its last bytes: a flood costs nothing."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
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


def _start(argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=child_environment(),
        start_new_session=True,
        **options,
    )


def _wait(child: subprocess.Popen[bytes], timeout_s: float, stop: Stop) -> None:
    deadline = time.monotonic() + timeout_s
    while child.poll() is None:
        try:
            stop.check()
            if time.monotonic() > deadline:
                raise StepTimeout
        except (Cancelled, StepTimeout):
            _kill(child)
            raise
        time.sleep(POLL_S)


def _kill(child: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()
