"""Transcripts and recordings from anybody: what is forged is refused in clear lines, and nothing is
sent, written or allocated for it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.astra_chat.forged import EXAMPLE, FORGERIES, Forgery, Place, write
from tests.astra_chat.forged_recordings import RECORDINGS, write_recording
from tests.sources import IMPORT_PATH

ROOT = Path(__file__).resolve().parents[2]
MAX_PEAK_BYTES = 500_000_000
SECRET = "hunter2-of-the-user"


@dataclass(frozen=True)
class Met:
    """A forgery and what the command that met it did."""

    code: int
    lines: list[str]
    out: str
    peak_bytes: int
    before: dict[str, str]
    after: dict[str, str]


@pytest.fixture(scope="module")
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


@pytest.fixture(scope="module")
def met(
    tmp_path_factory: pytest.TempPathFactory, listener: socket.socket
) -> Iterator[dict[str, Met]]:
    """Every forgery, met by its command."""
    folder, port = tmp_path_factory.mktemp("forged"), listener.getsockname()[1]
    places: dict[str, Place] = {}
    asked: list[tuple[str, list[str]]] = []
    for number, (name, forgery) in enumerate({**FORGERIES, **RECORDINGS}.items()):
        place = Place(folder / str(number) / "run", folder / str(number) / "outside", port)
        for made in (place.folder, place.outside, place.folder.parent / "cwd"):
            made.mkdir(parents=True)
        (write if name in FORGERIES else write_recording)(place, forgery.edit)
        places[name] = place
        asked.append((str(place.folder.parent / "cwd"), _words(forgery, place)))
    before = {name: _tree(place.folder.parent) for name, place in places.items()}
    temporary = folder / "tmp"
    temporary.mkdir()
    environment = {
        **os.environ,
        "SECRET": SECRET,
        "OPENAI_API_KEY": SECRET,
        "PYTHONPATH": IMPORT_PATH,
        "TMPDIR": str(temporary),
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.astra_chat.run_in_forks"],
        input=json.dumps(asked),
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    yield {
        name: Met(
            said["code"],
            said["err"].splitlines(),
            said["out"],
            said["peak_bytes"],
            before[name],
            _tree(place.folder.parent),
        )
        for (name, place), said in zip(places.items(), json.loads(done.stdout), strict=True)
    }
    with pytest.raises(BlockingIOError):
        listener.accept()
    assert not list(temporary.iterdir())


def _words(forgery: Forgery, place: Place) -> list[str]:
    names = {"FILE": str(place.folder), "NEW": str(place.outside / "new")}
    names["RECORDING"] = f"replay:{place.folder / 'recording.jsonl'}"
    return [names.get(word, word) for word in forgery.words]


def _tree(folder: Path) -> dict[str, str]:
    """What lies where, without following links."""
    found = {}
    for path in sorted(folder.rglob("*")):
        state = path.lstat()
        found[str(path)] = f"{state.st_mode} {state.st_size} {state.st_mtime_ns}"
    return {name: state for name, state in found.items() if not name.endswith("/cwd")}


@pytest.mark.parametrize("name", [*FORGERIES, *RECORDINGS])
@pytest.mark.second_tier
def test_what_is_forged_does_nothing(name: str, met: dict[str, Met]) -> None:
    found, forgery = met[name], {**FORGERIES, **RECORDINGS}[name]
    assert found.code == 2, found.lines
    assert all(line.startswith("astra-chat: ") for line in found.lines), found.lines
    assert sum(forgery.said in line for line in found.lines) == 1, found.lines
    several = any("that only you may set" in line for line in found.lines)
    assert len(found.lines) == 1 or several, found.lines
    assert not any(SECRET in line for line in [*found.lines, found.out])
    assert max(map(len, found.lines)) < 2_000
    assert found.after == found.before, "nothing was written"
    assert found.peak_bytes < MAX_PEAK_BYTES


@pytest.mark.second_tier
def test_nothing_was_sent(met: dict[str, Met], listener: socket.socket) -> None:
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_there_are_enough() -> None:
    assert len(FORGERIES) >= 25 and len(RECORDINGS) >= 5


def test_the_honest_one_is_shown(tmp_path: Path) -> None:
    """Unchanged, the transcript that the forgeries are made of is accepted."""
    from astra_chat.transcript.reader import read
    from astra_chat.transcript.recorded_cases import require_bounded_cases
    from astra_chat.transcript.recorded_task import require_hashes, task_of

    def nothing(lines: list[Any], place: Place) -> None: ...

    place = Place(tmp_path / "run", tmp_path, 1)
    place.folder.mkdir()
    write(place, nothing)
    for path in [place.folder, *sorted(EXAMPLE.parent.rglob("*.jsonl*"))]:
        transcript = read(path)
        require_hashes(transcript)
        with task_of(transcript, None) as task:
            require_bounded_cases(transcript, task, "virtual")
            require_bounded_cases(transcript, task, "cuda")
