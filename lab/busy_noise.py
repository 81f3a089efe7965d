"""A/A on a busy machine: baselines timed against themselves, first alone, then while other judges
evaluate on the same GPU:
`python -m lab.busy_noise [TASK ...] --device cuda --judges 2 --repeats 8`.

Those judges are processes of their own: they build, make contexts, check, time and profile the
winners of lab/measure_evaluations.py, again and again. They take the GPU's lease as any judge does,
so a difference between the two parts is what a lease does not keep apart. At the end it prints how
many evaluations they made; without any the second part says nothing, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from lab.commands import one_line_errors
from lab.measure_astra import noise
from lab.measure_evaluations import TASKS


def command(device: str, tasks: Sequence[str], out: Path) -> list[str]:
    """Evaluates winners of these tasks once; each adds a line to the file."""
    module = [sys.executable, "-m", "lab.measure_evaluations"]
    return [*module, *tasks, "--device", device, "--count", "2", "-o", str(out), "--trust"]


@dataclass
class Repeated:
    """A program that runs again and again in a process of its own; use it in a `with`."""

    words: Sequence[str]
    runs: int = 0
    """How often it ended well by itself."""
    _ended: threading.Event = field(default_factory=threading.Event)
    _now: subprocess.Popen[bytes] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> Repeated:
        self._thread = threading.Thread(target=self._repeat, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        with self._lock:
            if self._now is not None:
                with suppress(ProcessLookupError):
                    os.killpg(self._now.pid, signal.SIGTERM)
        self._thread.join()

    def _repeat(self) -> None:
        while not self._ended.is_set():
            with self._lock:
                if self._ended.is_set():
                    return
                self._now = subprocess.Popen(
                    self.words, stdout=subprocess.DEVNULL, start_new_session=True
                )
            if self._now.wait() != 0:
                return
            self.runs += 1


@one_line_errors()
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.busy_noise")
    parser.add_argument("tasks", nargs="*", metavar="TASK", default=TASKS)
    parser.add_argument("--device", default="cuda", help="cuda or cuda:N")
    parser.add_argument(
        "--judges", type=int, default=2, help="that evaluate beside the second part"
    )
    parser.add_argument("--repeats", type=int, default=8, help="runs over all cases, of each part")
    given = parser.parse_args()
    print("alone:", flush=True)
    noise(given.device, given.repeats, given.tasks)
    with tempfile.TemporaryDirectory(prefix="astra-busy-") as name:
        files = [Path(name, f"{number}.jsonl") for number in range(given.judges)]
        with ExitStack() as ended:
            for file in files:
                ended.enter_context(Repeated(command(given.device, given.tasks, file)))
            print(f"with {given.judges} judges beside:", flush=True)
            noise(given.device, given.repeats, given.tasks)
        made = sum(len(file.read_text().splitlines()) for file in files if file.exists())
    print(f"these made {made} evaluations")
    if not made:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
