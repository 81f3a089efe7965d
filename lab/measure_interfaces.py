"""Seconds to a first judged kernel through each interface, for somebody who has just installed
Astra: `python -m lab.measure_interfaces [PYTHON]`, PYTHON being that of the
installation.

Each interface is a new process in an empty folder; first nothing is cached, then it is done again.
The kernel is correct and given at once. In the run with a mailbox the recorded answers of a live
run are given as they are asked for, so nobody's thinking is in the time.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from astra_chat.models.spec import ROLES, Role
from astra_chat.models.transcript_models import TranscriptModels, own_transcript
from astra_chat.tools.task.folder import BUILTIN, find_task
from astra_chat.transcript.reader import read
from astra_chat.transcript.turns import evaluations_of

TASK = "silu_and_mul"
KERNEL = BUILTIN / TASK / "script" / "fitted.cu"
CALL = """
import sys
from pathlib import Path
from astra_chat import evaluate
print(evaluate(sys.argv[1], Path(sys.argv[2]), device="virtual").verdict)
"""
WAIT_S = 600.0


@dataclass(frozen=True)
class Place:
    """Where an interface is tried."""

    python: str
    folder: Path
    """Empty folder in which the process runs."""
    cache: Path

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "ASTRA_CACHE": str(self.cache)}

    def command(self, *words: object) -> list[str]:
        return [self.python, "-m", "astra_chat", *map(str, words)]

    def said(self, *words: object) -> str:
        """What a command prints. Raises CalledProcessError where it fails."""
        return self.output(self.command(*words))

    def output(self, command: list[str]) -> str:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=True,
        )
        return done.stdout


def check(place: Place) -> str:
    return place.said("check", TASK, KERNEL, "--device", "virtual")


def evaluate(place: Place) -> str:
    return place.said("evaluate", TASK, KERNEL, "--device", "virtual", "--json")


def python(place: Place) -> str:
    return place.output([place.python, "-c", CALL, TASK, str(KERNEL)])


def mcp(place: Place) -> str:
    """The official client, the server in a process of its own."""
    return asyncio.run(_mcp(place))


async def _mcp(place: Place) -> str:
    from mcp import Client, StdioServerParameters

    command, *words = place.command("mcp")
    server = StdioServerParameters(
        command=command, args=words, cwd=place.folder, env=place.environment
    )
    asked = {"task": TASK, "device": "virtual", "kernel": KERNEL.read_text(), "wait_s": 60}
    async with Client(server) as client:
        found = (await client.call_tool("evaluate", asked)).structured_content
        while found is not None and found["state"] in ("queued", "running"):
            again = {"job": found["job"], "wait_s": 60}
            found = (await client.call_tool("evaluation", again)).structured_content
    return json.dumps(found)


def mailbox(place: Place) -> str:
    """Up to the first evaluation of a candidate, after which the profiler is asked; the baseline's
    comes before it."""
    own = own_transcript(find_task(TASK))
    assert own is not None
    answers, box, out = TranscriptModels(own), place.folder / "box", place.folder / "out"
    words = ("run", TASK, "--models", f"mailbox:{box}", "--device", "virtual", "-o", out, "--quiet")
    quiet = subprocess.DEVNULL
    with subprocess.Popen(
        place.command(*words), cwd=place.folder, env=place.environment, stdout=quiet, stderr=quiet
    ) as running:
        try:
            while not box.is_dir() and running.poll() is None:
                time.sleep(0.1)
            while True:
                next_one = place.said("mailbox", "next", box, "--json", "--timeout", WAIT_S)
                if found := judged(out):
                    return found
                _answer(place, box, json.loads(next_one), answers)
        finally:
            running.kill()


def _answer(place: Place, box: Path, asked: dict[str, str], answers: TranscriptModels) -> None:
    reply = answers.client(_role(asked["role"])).answer([asked["prompt"]])
    (file := place.folder / "reply.json").write_text(reply)
    place.said("mailbox", "answer", box, asked["id"], file)


def _role(name: str) -> Role:
    return next(role for role in ROLES if role == name)


def judged(out: Path) -> str:
    """The outcome of the first candidate that a run judged; "" where there is none yet."""
    found = evaluations_of(read(out).records)
    return found[1].outcome.kind if len(found) > 1 else ""


INTERFACES: dict[str, Callable[[Place], str]] = {
    "astra-chat check": check,
    "astra-chat evaluate --json": evaluate,
    "Python: evaluate": python,
    "MCP: evaluate": mcp,
    "run with a mailbox": mailbox,
}
"""Functions that try an interface, by its name; each returns how the kernel was judged."""


def seconds(interface: Callable[[Place], str], python: str, times: int = 2) -> list[float]:
    """Returns the seconds of so many tries in a row with one cache, which is empty at first."""
    found = []
    with tempfile.TemporaryDirectory(prefix="astra-interfaces-") as name:
        for number in range(times):
            (folder := Path(name) / str(number)).mkdir()
            start = time.perf_counter()
            said = interface(Place(python, folder, Path(name) / "cache"))
            found.append(time.perf_counter() - start)
            if not any(word in said for word in ("correct", "accepted", "timed", "tie")):
                raise RuntimeError(f"the kernel was not judged as correct: {said[:2000]}")
    return found


def main(words: list[str]) -> None:
    interpreter = words[0] if words else sys.executable
    for name, interface in INTERFACES.items():
        first, again = seconds(interface, interpreter)
        print(f"{name}: {first:.1f} s with nothing cached, {again:.1f} s again", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
