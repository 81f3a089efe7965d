"""`astra-chat report`: one clear line for what is off, nothing of others overwritten, and neither
AutoGen nor torch needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.astra_chat.commands import Command
from tests.chat_samples import write_transcript
from tests.sources import IMPORT_PATH


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    return write_transcript(tmp_path / "run" / "transcript.jsonl")


def test_a_file_and_a_folder(command: Command, transcript: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.html"
    said = command("report", transcript, transcript.parent, "-o", out)
    assert (said.code, said.out, said.lines) == (0, f"{out}\n", [])
    assert "2 runs" in out.read_text()


def test_the_name_of_the_file_where_none_is_given(  # type: ignore[no-untyped-def]
    command, transcript: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command("report", transcript).out == "report.html\n"
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")


def bad_input(folder: Path, kind: str) -> Path:
    path = folder / "bad.jsonl"
    match kind:
        case "empty":
            path.write_bytes(b"")
        case "binary":
            path.write_bytes(bytes(range(256)) * 64)
        case "another's":
            path.write_text('{"hello": "world"}\n')
        case "one line of nothing":
            path.write_text("[" * 200_000)
        case "nested":
            path.write_text("[" * 200_000 + "\n")
        case "folder":
            path.mkdir()
        case "loop":
            path.symlink_to(path)
        case "broken in the middle":
            lines = write_transcript(path).read_text().splitlines(keepends=True)
            path.write_text("".join([*lines[:3], '{"v": 2}\n', *lines[3:]]))
        case "lines missing":
            lines = write_transcript(path).read_text().splitlines(keepends=True)
            path.write_text("".join([*lines[:3], *lines[4:]]))
    return path


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("missing", "cannot read"),
        ("empty", "is empty"),
        ("binary", "not an Astra transcript"),
        ("another's", "not an Astra transcript"),
        ("one line of nothing", "not an Astra transcript"),
        ("nested", "not an Astra transcript"),
        ("folder", "cannot read"),
        ("loop", "cannot read"),
        ("broken in the middle", "line 4"),
        ("lines missing", "line 4"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(  # type: ignore[no-untyped-def]
    command, transcript: Path, tmp_path: Path, kind: str, words: str
) -> None:
    out = tmp_path / "out.html"
    said = command("report", transcript, bad_input(tmp_path, kind), "-o", out)
    assert said.code == 2 and said.out == "" and not out.exists()
    assert len(said.lines) == 1 and words in said.lines[0] and "bad.jsonl" in said.lines[0]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(command: Command, transcript: Path) -> None:
    transcript.chmod(0)
    said = command("report", transcript)
    assert said.code == 2 and "Permission denied" in said.lines[0]


@pytest.mark.parametrize("out", ["", "none/out.html", "/proc/none.html"])
def test_where_nothing_can_be_written(
    command: Command, transcript: Path, tmp_path: Path, out: str
) -> None:
    said = command("report", transcript, "-o", tmp_path / out)
    assert said.code == 2 and len(said.lines) == 1
    assert f"cannot write {tmp_path / out}" in said.lines[0]


def test_only_an_earlier_report_is_overwritten(
    command: Command, transcript: Path, tmp_path: Path
) -> None:
    out, before = tmp_path / "out.html", transcript.read_bytes()
    assert command("report", transcript, "-o", out).code == 0
    first = out.read_bytes()
    assert (
        command("report", transcript, transcript, "-o", out).code == 0 and out.read_bytes() != first
    )
    for other in (transcript, tmp_path / "notes.txt"):
        other.write_bytes(before)
        said = command("report", transcript, "-o", other)
        assert said.code == 2 and len(said.lines) == 1 and "is not a report" in said.lines[0]
        assert other.read_bytes() == before


def test_a_killed_run_is_reported(command: Command, transcript: Path, tmp_path: Path) -> None:
    text = transcript.read_text()
    transcript.write_text(text[: text.rstrip().rindex("\n") + 9])
    assert command("report", transcript, "-o", tmp_path / "out.html").code == 0
    assert "killed before it ended" in (tmp_path / "out.html").read_text()


ALONE = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("autogen", "autogen_core", "autogen_agentchat", "autogen_ext",
                                  "pyautogen", "openai", "torch"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
from astra_chat.cli.main import main
main()
"""


@pytest.mark.parametrize("words", [["report", "-o", "out.html"], ["replay"], ["replay", "--json"]])
@pytest.mark.second_tier
def test_where_autogen_cannot_be_imported(transcript: Path, words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ALONE, *words, str(transcript)],
        cwd=transcript.parent,
        env=os.environ | {"PYTHONPATH": IMPORT_PATH},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "doubled" in done.stdout + "".join(p.read_text() for p in transcript.parent.glob("*.h*"))


@pytest.mark.second_tier
def test_without_autogen_a_run_cannot_start(transcript: Path) -> None:
    """What the test above takes away is really gone."""
    done = subprocess.run(
        [sys.executable, "-c", ALONE, "run", "silu_and_mul"],
        cwd=transcript.parent,
        env=os.environ | {"PYTHONPATH": IMPORT_PATH},
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0 and "autogen" in done.stderr


def test_for_scripts(command: Command, transcript: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.html"
    said = command("report", transcript, "-o", out, "--quiet")
    assert (said.code, said.out, said.lines) == (0, "", []) and out.is_file()
    document = json.loads(command("report", transcript, transcript, "-o", out, "--json").out)
    assert document["schema"] == "astra-chat/report/1" and document["report"] == str(out)
    assert [run["best"]["ratio"] for run in document["runs"]] == [1.9, 1.9]
    assert document["runs"][0]["transcript"] == str(transcript)


def test_on_stdout(command: Command, transcript: Path) -> None:
    said = command("report", transcript, "-o", "-")
    assert said.code == 0 and said.out.startswith("<!doctype html>") and said.lines == []
    assert said.out.rstrip().endswith("</html>")


@pytest.mark.second_tier
def test_into_a_pipe(transcript: Path) -> None:
    """From which an earlier report cannot be read."""
    done = subprocess.run(
        [sys.executable, "-m", "astra_chat", "report", str(transcript), "-o", "/dev/stdout"],
        cwd=transcript.parent,
        env=os.environ | {"PYTHONPATH": IMPORT_PATH},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0 and done.stdout.startswith("<!doctype html>"), done.stderr
    assert done.stdout.rstrip().endswith("</html>")


def test_what_is_no_file_is_not_waited_for(
    command: Command, transcript: Path, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    said = command("report", transcript, "-o", tmp_path / "pipe")
    assert said.code == 2 and "not a regular file" in said.lines[0] and len(said.lines) == 1
    said = command("report", transcript, "-o", "-", "--json")
    assert said.code == 2 and said.out == "" and "--json and -o -" in said.lines[0]


def test_a_full_disk_leaves_the_earlier_report(  # type: ignore[no-untyped-def]
    command, transcript: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.html"
    assert command("report", transcript, "-o", out).code == 0
    before = out.read_bytes()

    def full(self: Path, *_: object, **__: object) -> int:
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    said = command("report", transcript, transcript, "-o", out)
    assert said.code == 2 and "No space left" in said.lines[0]
    assert out.read_bytes() == before and not list(tmp_path.glob(".*"))
