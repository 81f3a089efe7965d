"""`astra-chat mailbox`, and a run that waits for its answers: exit codes and one clear line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from astra_chat.cli.exit_codes import WAITING, exit_code_of
from astra_chat.cli.main import app
from astra_chat.mailbox import runs
from astra_chat.mailbox.questions import ask, waiting
from astra_chat.tools.task.folder import Task
from astra_chat.transcript.reader import read
from tests.astra_chat.mailbox_samples import open_question, run, scripted
from tests.chat_samples import VECTOR

ROOT = Path(__file__).parents[3]
PASS = '{"reply": {"kind": "pass", "words": "no further case"}}'


def command(*words: object, stdin: str = "") -> tuple[int, str]:
    """Exit code and everything printed, as main() gives them."""
    said: list[str] = []

    def work() -> None:
        done = CliRunner().invoke(app, ["mailbox", *map(str, words)], input=stdin)
        said.append(done.output)
        if done.exception is not None:
            raise done.exception

    code = exit_code_of(work)
    return code, "".join(said)


@pytest.fixture
def box(task: Task, tmp_path: Path) -> Path:
    """A mailbox in which a run waits for its tester."""
    run(task, tmp_path / "box", tmp_path / "out")
    return tmp_path / "box"


def test_next_prints_the_prompt_and_answer_checks_the_reply(
    box: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    question = open_question(box)
    code, text = command("next", box)
    assert code == 0 and text == question.prompt
    code, text = command("next", box, "--json")
    document = json.loads(text)
    assert (document["id"], document["role"], document["state"]) == (question.id, "tester", "open")
    assert document["prompt"] == question.prompt and document["reply"] == question.schema
    (tmp_path / "reply.json").write_text("{}")
    code, _ = command("answer", box, question.id, tmp_path / "reply.json")
    said = capsys.readouterr().err
    assert code == 2 and said.startswith("astra-chat: the answer cannot be used: it does not match")
    code, text = command("answer", box, question.id, "-", "--answered-by", "Ada", stdin=PASS)
    assert (code, text) == (0, "given: checked against the schema and the run's facts\n")
    code, _ = command("answer", box, question.id, "-", stdin=PASS)
    assert code == 2 and "already has an answer" in capsys.readouterr().err
    code, text = command("next", box, "--timeout", 0)
    assert (code, text) == (WAITING, f"astra-chat: no question in {box} is waiting for an answer\n")
    assert command("list", box) == (
        0,
        f"id\tstate\ttask\trole\n{question.id}\tanswered\tdoubled\ttester\n",
    )
    assert json.loads(command("list", box, "--json")[1])["questions"][0]["state"] == "answered"


def test_an_answer_is_given_and_the_next_question_printed_by_one_call(box: Path) -> None:
    first = open_question(box)
    heading = f"# Question to the tester of run {first.meta.run}, task doubled\n"
    assert first.prompt.startswith(heading)
    meta = first.meta.model_copy(update={"id": "second", "asked": "2100-01-01", "run": "other"})
    ask(box, meta, "# Prompt\n\nWhat now?\n", first.schema)
    code, text = command("answer", box, first.id, "-", "--next", stdin=PASS)
    assert code == 0 and text.startswith("given: checked against") and text.endswith("What now?\n")
    code, text = command("answer", box, "second", "-", "--next", "--json", stdin=PASS)
    assert code == WAITING or json.loads(text)["next"]["id"]


def test_the_wait_for_the_next_question_can_be_limited(
    box: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = open_question(box).id
    code, _ = command("answer", box, name, "-", "--timeout", 0, stdin=PASS)
    assert code == 2 and "give it with --next" in capsys.readouterr().err
    code, text = command("answer", box, name, "-", "--next", "--timeout", 0, stdin=PASS)
    assert code == WAITING and text.startswith("given: checked against")


def test_next_says_that_no_run_is_left_to_ask(box: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "GRACE_S", 0.0)
    command("answer", box, open_question(box).id, "-", stdin=PASS)
    code, text = command("next", box)
    assert code == WAITING and text.count("\n") == 1
    assert "is waiting for an answer, and none will come: run " in text
    assert "(astra-chat mailbox next)" in text, "it stopped to wait, and can be resumed"


def test_a_kernel_comes_with_words(
    box: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.cu").write_text(VECTOR)
    (tmp_path / "words.md").write_text("Four at a time.")
    name = open_question(box).id
    code, _ = command("answer", box, name, tmp_path / "k.cu")
    assert code == 2 and "describe what you did with --words" in capsys.readouterr().err
    code, _ = command("answer", box, name, tmp_path / "k.cu", "--words-file", tmp_path / "words.md")
    assert code == 2 and "does not ask the tester for a kernel" in capsys.readouterr().err
    code, _ = command("answer", box, name, "-", "--words", "a", "--words-file", "b")
    assert code == 2 and "not both" in capsys.readouterr().err


def test_next_briefly_leaves_out_what_was_said_before(box: Path) -> None:
    first = open_question(box)
    text = first.prompt.replace(first.id, "again")
    meta = first.meta.model_copy(update={"id": "again", "asked": "2100-01-01"})
    ask(box, meta, text, first.schema)
    assert command("next", box) == (0, text)
    _, short = command("next", box, "--brief")
    assert len(short) < len(text) / 2 and str(first.folder / "prompt.md") in short
    _, document = command("next", box, "--brief", "--json")
    assert json.loads(document)["prompt"] == short


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["next", "{box}/nowhere"], "a run creates it with --models mailbox:"),
        (["list", "{box}/nowhere"], "a run creates it with --models mailbox:"),
        (["answer", "{box}", "../out", "-"], "has no question '../out'"),
        (["answer", "{box}", "{id}", "/no/such/file"], "cannot read /no/such/file"),
        (["answer", "{box}", "{id}", "/dev/zero"], "the answer is longer than"),
    ],
)
def test_bad_input_is_one_line(
    box: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    said: str,
) -> None:
    monkeypatch.setattr(runs, "START_S", 0.0)
    code, _ = command(*[word.format(box=box, id=open_question(box).id) for word in words])
    err = capsys.readouterr().err
    assert code == 2 and said in err and len(err.splitlines()) == 1


def astra(*words: object) -> list[str]:
    return [sys.executable, "-m", "astra_chat", *map(str, words)]


@pytest.mark.parametrize("how", ["--no-wait", "ctrl-c"])
@pytest.mark.second_tier
def test_a_run_stops_with_exit_code_4_and_goes_on(task: Task, tmp_path: Path, how: str) -> None:
    """In a process of its own, whose Ctrl-C is a signal."""
    box, out = tmp_path / "box", tmp_path / "out"
    options = ["--device", "virtual", "--mutants", 0, "-o", out, "--models", f"mailbox:{box}"]
    if how == "--no-wait":
        options.append(how)
    started = subprocess.Popen(
        astra("run", task.folder, *options),
        cwd=ROOT,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ},
    )
    deadline = time.monotonic() + 900
    while how == "ctrl-c" and not (box.is_dir() and list(waiting(box))):
        assert started.poll() is None and time.monotonic() < deadline, started.communicate()
        time.sleep(0.05)
    if how == "ctrl-c":
        time.sleep(0.5)  # it looks every LOOK_S
        started.send_signal(signal.SIGINT)
    _, said = started.communicate(timeout=900)
    question = open_question(box)
    assert started.returncode == WAITING, said
    assert f"answer with: astra-chat mailbox answer {box} {question.id} FILE" in said
    path = out / "transcript.jsonl"
    assert f"then resume with: astra-chat run --resume {path} --models mailbox:{box}" in said
    assert "Traceback" not in said
    ended = read(path).ended
    assert ended is not None and (ended.reason, ended.question) == ("waiting", question.id)
    approve = subprocess.run(
        astra("approve", path), cwd=ROOT, capture_output=True, text=True, timeout=900
    )
    assert approve.returncode == 2 and "is waiting for an answer in its mailbox" in approve.stderr
    assert scripted(task, question)
