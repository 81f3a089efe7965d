"""Untrusted code that shares a process with PyTorch, judged in two walled processes: ours asks and
compares, that of the candidate answers."""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from astra_chat.tools.sandbox.isolation import require_isolation
from astra_chat.tools.sandbox.policy import SandboxPolicy
from astra_chat.tools.system.memory_watch import StepMemory
from astra_chat.tools.system.subprocesses import Cancelled, StepTimeout, Stop, run_limited

INSIDE = "astra_chat.tools.walled.inside"
AFTER_S = 60.0
NOT_FINISHED = "not finished in"
"""How a message begins where a process ran into its limit (inside/ours.py knows it, too)."""
MOST_WORDS = 200
"""Characters of a candidate's last line that a row may hold."""
ENDED = "ended"
"""The file that ends the wait of our process (inside/handover.py) and says how the candidate's
ended. It is where the candidate cannot write."""


@dataclass(frozen=True)
class Judging:
    """How pairs are judged."""

    device: str
    seed: str
    timing: bool = True
    compile: bool = True
    timeout_s: float = 300.0
    more: Mapping[str, Any] = field(default_factory=dict)
    """What another program than inside/ours.py is asked besides."""
    ours: str = f"{INSIDE}.ours"
    """The program of our process."""
    read: tuple[Path, ...] = ()
    """Files and folders that both processes read."""
    ours_read: tuple[Path, ...] = ()
    """Those that our process reads besides."""
    write: tuple[Path, ...] = ()
    """Folders that our process writes to."""
    beside: Mapping[str, Path] = field(default_factory=dict)
    """Folders that the candidate finds beside its file, by name."""


def judge(
    problem: str, candidate: str, how: Judging, given_stop: Stop | None = None
) -> dict[str, Any]:
    """Returns what the program of our process found, or {"problem": why there is no result}.

    Args:
        problem, candidate: texts of Python files, `class Model` and `class ModelNew`.
        how: device, seed and limits.
        given_stop: ends both processes.

    Raises:
        MissingDependency: where untrusted code cannot be isolated.
        Cancelled: after `given_stop` is set.
    """
    require_isolation()
    with tempfile.TemporaryDirectory(prefix="astra-rejudge-") as made:
        scratch = Path(made).resolve()
        folders = {name: scratch / name for name in ("ours", "theirs", "exchange", "files")}
        for folder in folders.values():
            folder.mkdir()
        (folders["files"] / "problem.py").write_text(problem)
        # Candidates build beside their own file; what lies there is theirs.
        (folders["theirs"] / "candidate.py").write_text(candidate)
        for name, path in how.beside.items():
            (folders["theirs"] / name).symlink_to(path)
        return _judged(folders, how, given_stop or Stop())


def _judged(folders: dict[str, Path], how: Judging, given_stop: Stop) -> dict[str, Any]:
    exchange, answer = folders["exchange"], folders["ours"] / "answer.json"
    request = folders["ours"] / "request.json"
    asked = {
        "problem": folders["files"] / "problem.py",
        "exchange": exchange,
        "answer": answer,
    }
    own = {name: getattr(how, name) for name in ("device", "seed", "timing", "compile")}
    places = {name: str(path) for name, path in asked.items()}
    request.write_text(json.dumps({**how.more, **own, **places}))
    stop = Stop()
    theirs = threading.Thread(target=_candidate, args=(folders, how, stop))
    theirs.start()
    try:
        said = _run(how.ours, [str(request)], folders, how, given_stop)
    finally:
        stop.set()
        theirs.join()
    given_stop.check()
    if not answer.is_file():
        return {"problem": f"no result: {said}"}
    found: dict[str, Any] = json.loads(answer.read_text())
    if "unfinished" in found and NOT_FINISHED not in found["unfinished"]:
        found["unfinished"] += f": {said}"
        found["problem"] = f"no result: {said}"
    return found


def _candidate(folders: dict[str, Path], how: Judging, stop: Stop) -> None:
    words = [
        str(folders["theirs"] / "candidate.py"),
        str(folders["exchange"]),
        how.device,
    ]
    said = _run(f"{INSIDE}.theirs", words, folders, how, stop)
    part = folders["ours"] / f"{ENDED}.part"
    part.write_text(said[:MOST_WORDS])
    part.replace(folders["ours"] / ENDED)


def _run(program: str, words: list[str], folders: dict[str, Path], how: Judging, stop: Stop) -> str:
    """The last line that the process printed, or why it was ended."""
    ours = program == how.ours
    sandbox = SandboxPolicy(
        read=(
            folders["files"],
            *how.read,
            *how.beside.values(),
            *(how.ours_read if ours else ()),
        ),
        write=(
            folders["ours" if ours else "theirs"],
            folders["exchange"],
            *(how.write if ours else ()),
        ),
        gpu=how.device.startswith("cuda"),
    )
    # A candidate that hangs ends first: our process then says so.
    timeout_s = how.timeout_s + (AFTER_S if ours else 0.0)
    command = [sys.executable, "-m", program, *words]
    try:
        end = run_limited(
            command, timeout_s=timeout_s, cwd=sandbox.write[0], stop=stop, sandbox=sandbox
        )
    except StepTimeout:
        return f"{NOT_FINISHED} {timeout_s:.0f} s"
    except (StepMemory, Cancelled) as error:
        return f"{type(error).__name__}: {error}".rstrip(": ")
    return end.output.strip().rpartition("\n")[2] or f"exit status {end.returncode}"
