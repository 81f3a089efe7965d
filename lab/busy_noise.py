"""A/A on a busy GPU: baselines timed against themselves, first alone, then while other judges
evaluate there: `python -m lab.busy_noise [TASK ...] --device cuda --judges 2 --repeats 8`.

Those take the GPU's lease as any judge does, so what differs is what a lease does not keep apart.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from lab.commands import one_line_errors
from lab.measure_astra import noise
from lab.measure_evaluations import TASKS


@contextmanager
def repeated(words: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """This program runs again and again, until it fails or the block ends."""
    loop = ["/bin/sh", "-c", 'while "$@"; do :; done', "sh", *words]
    shell = subprocess.Popen(loop, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        yield shell
    finally:
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGTERM)
        shell.wait()


@one_line_errors()
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.busy_noise")
    parser.add_argument("tasks", nargs="*", metavar="TASK", default=TASKS)
    parser.add_argument("--device", default="cuda", help="cuda or cuda:N")
    parser.add_argument(
        "--judges", type=int, default=2, help="number of judges that evaluate in the second part"
    )
    parser.add_argument(
        "--repeats", type=int, default=8, help="number of runs over all cases in each part"
    )
    given = parser.parse_args()
    noise(given.device, given.repeats, given.tasks)
    with tempfile.TemporaryDirectory(prefix="astra-busy-") as name, ExitStack() as ended:
        file = Path(name, "evaluations.jsonl")
        module = [sys.executable, "-m", "lab.measure_evaluations", *given.tasks]
        for _ in range(given.judges):
            ended.enter_context(repeated([*module, "--device", given.device, "-o", str(file)]))
        print(f"with {given.judges} judges beside:", flush=True)
        noise(given.device, given.repeats, given.tasks)
        made = len(file.read_text().splitlines()) if file.exists() else 0
    print(f"these made {made} evaluations")


if __name__ == "__main__":
    main()
