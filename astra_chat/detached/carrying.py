"""Jobs carried to where they are judged, and results back, while the run waits: `--judge ssh:HOST`
and `--judge ray[:ADDRESS]`.

Either is a command that takes jobs on stdin and gives results on stdout (answering.py). What fails
there leaves the job open: the run stops, to be resumed.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from astra_chat.detached.answering import framed
from astra_chat.detached.claims import Claims, JobClaim
from astra_chat.detached.jobs import Job, Wanted
from astra_chat.detached.packing import pack_job, unpack_job
from astra_chat.mailbox.files import Unreadable
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.text import one_line
from astra_chat.transcript.archive import MAX_ZIP_BYTES
from astra_vgpu.ground.errors import BadInput, MissingDependency

SSH = "ssh -o BatchMode=yes -o ConnectTimeout=20 -o ServerAliveInterval=15"
"""Command that reaches a host, unless ASTRA_SSH names another. It asks nothing, and notices a host
that is gone."""
ASTRA = "astra-chat"
"""Astra's command on the host, unless ASTRA_SSH_REMOTE says how it is called there."""
RAY_CLIENT = "astra_chat.detached.ray_client"
HOST = re.compile(r"[A-Za-z0-9_.\[\]:@%][A-Za-z0-9_.\[\]:@%-]{0,255}")
ADDRESS = re.compile(r"[A-Za-z0-9_.\[\]:/%-]{1,255}")
POLL_S = 0.05
END_S = 5.0
"""Seconds in which a command has to end after its stdin is closed."""
HOST_LIMIT_S = 3600.0
"""Seconds in which a host has to judge a job, which takes minutes: one that sends no result has
hung. Ray's workers have a limit of their own."""
CHECK_LIMIT_S = 90.0
"""Seconds in which a place has to say whether it can judge the jobs of a run."""
NOTE = "astra-chat: "


class NotJudged(Exception):
    """A job stays open; the text says why."""


@dataclass(frozen=True)
class Destination:
    """Where jobs are carried to."""

    kind: Literal["ssh", "ray"]
    name: str = ""
    """A host, as ssh takes it; an address, as Ray does, "" for the cluster of this machine."""

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}" if self.name else self.kind

    def command(
        self, device: str, trust: bool, env: Mapping[str, str], more: Sequence[str] = ()
    ) -> list[str]:
        """Returns the command that judges jobs. `device`: the kind or, on Ray, the GPU that is
        wanted; `more`: options."""
        trusts = ["--trust"] if trust else []
        if self.kind == "ray":
            words = [f"--address={self.name}", f"--gpu={device}", *trusts, *more]
            return [sys.executable, "-m", RAY_CLIENT, *words]
        remote = env.get("ASTRA_SSH_REMOTE") or ASTRA
        words = ["judge", "answer", "--device", device, *trusts, *more]
        ssh = shlex.split(env.get("ASTRA_SSH") or SSH)
        return [*ssh, self.name, f"{remote} {shlex.join(words)}"]


def place_of(judge: str) -> Destination | None:
    """What --judge names, None unless it is ssh or ray. Raises BadInput."""
    kind, colon, name = judge.partition(":")
    if kind == "ssh":
        if HOST.fullmatch(name) is None:
            raise BadInput(f"--judge {one_line(judge)[:200]}: give a host, as in ssh:user@host")
        return Destination("ssh", name)
    if kind == "ray":
        if colon and ADDRESS.fullmatch(name) is None:
            raise BadInput(
                f"--judge {one_line(judge)[:200]}: give an address, as in ray:10.0.0.1:6379"
            )
        return Destination("ray", name)
    return None


@dataclass(frozen=True)
class Carrier:
    """Carries the jobs of one run."""

    place: Destination
    device: str
    """Kind of device or, on Ray, the GPU that is wanted: what Destination.command takes."""
    trust: bool = False
    limit_s: float = math.inf
    """Seconds in which the command has to judge all that it is given."""

    def require(self, wanted: Wanted) -> None:
        """Raise BadInput or MissingDependency where the place cannot be reached, or cannot judge
        what is wanted."""
        asks = ["--check"] if self.place.kind == "ray" else ["--check", wanted.model_dump_json()]
        command = self.place.command(self.device, self.trust, os.environ, asks)
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=CHECK_LIMIT_S,
                check=False,
            )
        except OSError as error:
            raise MissingDependency(
                f"--judge {self.place}: {command[0]}: {error.strerror}"
            ) from None
        except subprocess.TimeoutExpired:
            raise MissingDependency(
                f"--judge {self.place} did not answer within {CHECK_LIMIT_S:.0f} s"
            ) from None
        if done.returncode:
            kind = BadInput if done.returncode == 2 else MissingDependency
            said = done.stderr.decode(errors="replace")
            raise kind(f"--judge {self.place}: {why_failed(self.place, said, done.returncode)}")

    def judge(
        self, folder: Path, job: Job, stop: Stop, tell: Callable[[str], None] = lambda _: None
    ) -> None:
        """Leave a result or a refusal beside a job; `tell` hears each line of what goes on there.

        Raises NotJudged, Cancelled when `stop` is set, and MissingDependency where nothing can be
        written here.
        """
        claim = Claims().take(folder)
        if not isinstance(claim, JobClaim):
            raise NotJudged(f"it is being judged by {one_line(claim.name)}")
        with claim, tempfile.TemporaryDirectory(prefix="astra-carry-") as name:
            file = Path(name, "carried.zip")
            try:
                pack_job(folder, file)
                self._ask(file, stop, tell)
                if claim.lost:
                    raise NotJudged("another worker took it over; this result is dropped")
                if not unpack_job(file, folder, job):
                    raise NotJudged(f"{self.place} sent no result for this job")
            except (BadInput, Unreadable) as error:
                raise NotJudged(f"{self.place} sent no results: {one_line(str(error))}") from None

    def _ask(self, file: Path, stop: Stop, tell: Callable[[str], None]) -> None:
        """Put the results in the place of the jobs in a file. Raises NotJudged and Cancelled."""
        packed, told = file.read_bytes(), file.with_name("told")
        command = self.place.command(self.device, self.trust, os.environ)
        with file.open("wb") as out, told.open("wb") as err:
            try:
                child = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=out,
                    stderr=err,
                    bufsize=0,
                    start_new_session=True,
                )
            except OSError as error:
                raise NotJudged(f"{self.place}: {command[0]}: {error.strerror}") from None
        assert child.stdin is not None
        threading.Thread(target=_give, args=(child.stdin, framed(packed)), daemon=True).start()
        try:
            heard, began = 0, time.monotonic()
            while child.poll() is None:
                stop.check()
                if time.monotonic() - began > self.limit_s:
                    raise NotJudged(f"{self.place} sent no results within {self.limit_s:.0f} s")
                heard = _tell_new(told, heard, tell)
                if file.stat().st_size > MAX_ZIP_BYTES:
                    raise NotJudged(f"{self.place} sent more than {MAX_ZIP_BYTES:,} bytes")
                time.sleep(POLL_S)
            _tell_new(told, heard, tell)
        finally:
            _end(child)
        if child.returncode:
            text = told.read_bytes()[-100_000:].decode(errors="replace")
            raise NotJudged(f"{self.place}: {why_failed(self.place, text, child.returncode)}")


def carrier_for(place: Destination, device_kind: str, spec: str, trust: bool) -> Carrier:
    """Returns the carrier for jobs that want this device; `spec`: the GPU's key in
    astra_vgpu/ground/gpu_specs.py."""
    wanted = spec if place.kind == "ray" and device_kind == "cuda" else device_kind
    limit_s = HOST_LIMIT_S if place.kind == "ssh" else math.inf
    return Carrier(place, wanted, trust, limit_s)


def _give(stdin: IO[bytes], packed: bytes) -> None:
    """Write the jobs to stdin, which stays open: its end says that nobody waits."""
    left = memoryview(packed)
    with suppress(OSError, ValueError):  # the command ended: its exit code says why
        while left:
            left = left[stdin.write(left) :]


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a command by closing its stdin; one that goes on is killed with all that it started."""
    assert child.stdin is not None
    child.stdin.close()
    try:
        child.wait(END_S)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _tell_new(told: Path, heard: int, tell: Callable[[str], None]) -> int:
    """Pass on our own notes among the whole lines after the first `heard` bytes; returns how many
    bytes are heard now."""
    with told.open("rb") as file:
        file.seek(heard)
        lines = file.read(100_000).rpartition(b"\n")
    for line in lines[0].decode(errors="replace").splitlines():
        if line.startswith(NOTE):
            tell(one_line(line.removeprefix(NOTE))[:200])
    return heard + len(lines[0]) + len(lines[1])


def why_failed(place: Destination, told: str, code: int) -> str:
    """Returns in one line why a command failed: our own note where there is one, else the command's
    last line. Ray ends a client whose cluster is gone, with many."""
    if place.kind == "ray" and code not in (2, 3):
        return (
            f"the connection to the cluster was lost, or its client was killed (exit code {code})"
        )
    lines = [line for line in told.splitlines() if line.strip()]
    notes = [line.removeprefix(NOTE) for line in lines if line.startswith(NOTE)]
    if notes or lines:
        return one_line((notes or lines)[-1])[:500]
    return f"it was killed by signal {-code}" if code < 0 else f"it ended with exit code {code}"
