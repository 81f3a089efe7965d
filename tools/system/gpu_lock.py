"""GPU lock: one measurement at a time on a GPU, across all Astra processes of a machine.

Two files per GPU in /tmp, named by its UUID, locked by flock(2): the kernel frees the lock of a
process that ends, however it ends, so none is ever stale. A measurement has the GPU alone; checks,
which only use it, share it. Everyone first takes the second lock, the door, which a measurement
keeps while it waits: later checks cannot delay it forever.

The lock is an agreement among Astra processes: other programs do not ask for it.
"""

from __future__ import annotations

import fcntl
import getpass
import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from astra_chat.tools.system.subprocesses import Stop
from astra_vgpu.ground.errors import MissingDependency

FOLDER = Path("/tmp")
"""Not $TMPDIR: users of one machine must find the same files."""
POLL_S = 0.05
TELL_S = 1.0


@contextmanager
def lease(
    uuid: str,
    work: str,
    alone: bool,
    stop: Stop,
    on_wait: Callable[[str], None] = lambda _: None,
    *,
    folder: Path | None = None,
) -> Iterator[None]:
    """Hold the GPU for `work`, a description; `on_wait` gets the holder's about once a second.
    `folder`: of the lock's files, where a process in a sandbox cannot reach those in FOLDER.

    Raises Cancelled when `stop` is set in the meantime, MissingDependency where the files cannot be
    used.
    """
    wanted = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
    with ExitStack() as held:
        room = _open(folder or FOLDER, uuid, "lock", held)
        with ExitStack() as entering:
            door = _open(folder or FOLDER, uuid, "door", entering)
            _take(door, fcntl.LOCK_EX, room, stop, on_wait)
            _take(room, wanted, room, stop, on_wait)
            _sign(room, work)
        try:
            yield
        finally:
            if alone:
                os.ftruncate(room, 0)


def _open(folder: Path, uuid: str, kind: str, stack: ExitStack) -> int:
    """Descriptor of a lock file, closed by the stack. Never made through a link, nor twice."""
    path = folder / f"astra-gpu-{uuid}.{kind}"
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        try:
            # Creating what another user created is forbidden in sticky folders: open it first.
            descriptor = os.open(path, flags)
        except FileNotFoundError:
            descriptor = _create(path, flags)
        stack.callback(os.close, descriptor)
    except OSError as error:
        raise MissingDependency(
            f"cannot lock the GPU: {path}: {error.strerror}; remove that file or change its"
            " permissions"
        ) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise MissingDependency(f"cannot lock the GPU: {path} is not an ordinary file; remove it")
    return descriptor


def _create(path: Path, flags: int) -> int:
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:  # another process was quicker
        return os.open(path, flags)
    os.fchmod(descriptor, 0o666)  # whatever the umask: other users must be able to lock it
    return descriptor


def _take(
    descriptor: int, kind: int, room: int, stop: Stop, on_wait: Callable[[str], None]
) -> None:
    began, last_report = time.monotonic(), 0.0
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            stop.check()
        if time.monotonic() - last_report > TELL_S:
            last_report = time.monotonic()
            on_wait(f"waiting for the GPU, {last_report - began:.0f} s so far: {_holder(room)}")
        time.sleep(POLL_S)


def _sign(room: int, work: str) -> None:
    """Leave word for those who wait. Of several who share it, the last one's stands."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # no such user in a container
        user = str(os.getuid())
    signature = json.dumps({"pid": os.getpid(), "user": user, "work": work})
    os.ftruncate(room, 0)
    os.pwrite(room, signature.encode(), 0)


def _holder(room: int) -> str:
    """Who signed last, if that process is alive; the file is anyone's, so its text is cut."""
    try:
        holder = json.loads(os.pread(room, 1000, 0))
        pid, user, work = int(holder["pid"]), str(holder["user"])[:40], str(holder["work"])[:80]
    except (ValueError, KeyError, TypeError):
        return "another Astra process has locked it"
    if not Path(f"/proc/{pid}").exists():
        return "another Astra process has locked it"
    printable = "".join(c for c in f"{work} (process {pid} of {user})" if c.isprintable())
    return f"held by {printable}"
