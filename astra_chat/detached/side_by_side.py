"""Several workers of one GPU: while one measures, with the GPU to itself, the next jobs are guarded
and built, their plans recorded and their oracles computed.

The first is the command that was called; it starts the others, which end when their stdin does.
Claims keep two from one job. What the others say, and their counts, come as lines of JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from astra_chat.detached.ray_worker import FEW_THREADS, jobs_at_once
from astra_chat.tools.system.cores import cores
from astra_chat.tools.system.devices import gpu_handles
from astra_chat.tools.types import Device

END_S = 30.0
"""Seconds after which one that was to end is killed."""
SAID, COUNT = "said", "count"
Say = Callable[[str], None]
Counted = dict[str, int]


def most_workers(device: Device) -> int:
    """Returns how many workers a GPU has cores for; without a GPU they would only share them."""
    return jobs_at_once(cores(), max(1, len(gpu_handles()))) if device.kind == "cuda" else 1


def tell_the_first(**what: object) -> None:
    """Write a line to the worker that started this one."""
    with suppress(BrokenPipeError):
        print(json.dumps(what), flush=True)


@dataclass
class Beside:
    """The other workers; use it in a `with`, whose end is theirs."""

    words: Sequence[str]
    """Arguments of `astra-chat judge work` of each."""
    count: int
    say: Say
    """Called with each line that one of the others says."""
    _judged: int = 0
    _running: list[tuple[subprocess.Popen[str], threading.Thread]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> Beside:
        for _ in range(self.count):
            process = subprocess.Popen(
                [sys.executable, "-m", "astra_chat", "judge", "work", *self.words],
                env={**os.environ, **FEW_THREADS},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            reader = threading.Thread(target=self._read, args=(process,), daemon=True)
            reader.start()
            self._running.append((process, reader))
        return self

    def __exit__(self, *_: object) -> None:
        for process, _reader in self._running:
            assert process.stdin is not None
            with suppress(OSError):
                process.stdin.close()
        for process, reader in self._running:
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            reader.join()

    def all_of(self, first: Mapping[str, int], look: Callable[[], Mapping[str, int]]) -> Counted:
        """What came of all jobs once the others find none. `first`: of the first worker's. `look`
        judges what is open still, as where another was killed, and counts what each of ours
        refuses or leaves."""
        for process, reader in self._running:
            process.wait()
            reader.join()
        if not self._running:
            return dict(first)
        last = look()
        return {**last, "judged": first["judged"] + self._judged + last["judged"]}

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            found = json.loads(line)
            with self._lock:
                if SAID in found:
                    self.say(str(found[SAID]))
                self._judged += found.get(COUNT, {}).get("judged", 0)
