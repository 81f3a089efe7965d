"""`astra-chat models check`, and a live run by the command, with nothing of the key anywhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from astra_chat.models.script import load_script
from astra_chat.tools.task.folder import Task
from tests.astra_chat.fake_openai import Asked, Reply, by_script, failed, said, serving

ROOT = Path(__file__).parents[3]
KEY = "sk-test-key-of-the-command-42"
PASS = said('{"reply": {"kind": "pass", "words": "ready"}}')
ANSWERS = {"o4-mini": PASS, "chooser": said('{"choose": "planner"}')}


def command(
    *words: object, key: str = KEY, debug: bool = False, **more: str
) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    env |= {"OPENAI_API_KEY": key} if key else {}
    env |= {"ASTRA_DEBUG": "1", "OPENAI_LOG": "debug"} if debug else {}
    env |= more
    return subprocess.run(
        [sys.executable, "-m", "astra_chat", *map(str, words)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        env=env,
    )


def check(answers: dict[str, Reply], models: str) -> tuple[int, list[str], str]:
    """Exit code, lines of stdout, stderr; the answers are by model."""

    def answer(asked: Asked) -> Reply:
        return answers[asked.body["model"]]

    with serving(answer) as server:
        done = command("models", "check", "--models", models, "--base-url", server.url)
    assert KEY not in done.stdout + done.stderr
    return done.returncode, done.stdout.splitlines(), done.stderr


@pytest.mark.second_tier
def test_every_role_is_tried_and_says_what_came() -> None:
    code, lines, stderr = check(ANSWERS, "openai:o4-mini,selector=openai:chooser")
    assert code == 0 and stderr == ""
    assert [line.split()[0] for line in lines] == [
        "tester",
        "planner",
        "coder",
        "fixer",
        "profiler",
        "selector",
    ]
    assert all(": ok: " in line and "100 tokens in, 20 out" in line for line in lines)
    assert "openai:chooser" in lines[-1] and "openai:o4-mini" in lines[0]


@pytest.mark.second_tier
def test_what_fails_is_said_in_its_own_line() -> None:
    answers = ANSWERS | {
        "gone": failed(404, "no model called gone"),
        "secret": failed(401, f"bad key {KEY}"),
        "chatty": said("Hello! How can I help?"),
    }
    models = (
        "openai:o4-mini,coder=openai:gone,fixer=openai:secret,"
        "selector=openai:chooser,tester=openai:chatty"
    )
    code, lines, stderr = check(answers, models)
    assert code == 3 and stderr == "", "the gravest of them"
    assert len(lines) == 6
    assert "chatty: failed: its reply cannot be used: it does not match the schema" in lines[0]
    assert ": ok: " in lines[1]
    assert "gone: failed" in lines[2] and "no model called gone" in lines[2]
    assert "refuses the key in OPENAI_API_KEY" in lines[3]


@pytest.mark.parametrize(("level", "lines"), [("info", 1), ("warning", 1), ("error", 0)])
@pytest.mark.second_tier
def test_waiting_for_a_busy_server_is_said(level: str, lines: int) -> None:
    first = [failed(429)]

    def answer(asked: Asked) -> Reply:
        if asked.body["model"] == "busy":
            return first.pop() if first else PASS
        return ANSWERS[asked.body["model"]]

    models = "openai:o4-mini,coder=openai:busy,selector=openai:chooser,backoff_s=0.01"
    with serving(answer) as server:
        done = command(
            "--log-level", level, "models", "check", "--models", models, "--base-url", server.url
        )
    assert done.returncode == 0 and len(done.stderr.splitlines()) == lines
    busy = f"astra-chat: busy at {server.url} answered HTTP 429; try 2 of 2"
    assert done.stderr.startswith(busy if lines else "")


@pytest.mark.second_tier
def test_trials_as_one_document() -> None:
    models = "openai:o4-mini,selector=openai:chooser,coder=openai:gone"
    answers = ANSWERS | {"gone": failed(404, "no model called gone")}
    with serving(lambda asked: answers[asked.body["model"]]) as server:
        done = command("models", "check", "--models", models, "--base-url", server.url, "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 2 and document["schema"] == "astra-chat/models/1"
    ok = {trial["role"]: trial["ok"] for trial in document["trials"]}
    assert ok == dict.fromkeys(ok, True) | {"coder": False} and len(ok) == 6


def test_only_live_models_can_be_tried() -> None:
    done = command("models", "check", "--models", "scripted")
    assert done.returncode == 2 and "only live models can be tried" in done.stderr


def test_without_a_key() -> None:
    done = command("models", "check", key="")
    assert done.returncode == 3 and "set OPENAI_API_KEY" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.second_tier
def test_a_live_run_leaves_nothing_of_the_key(task: Task, tmp_path: Path) -> None:
    """The real judge, the real client, everything logged."""
    out = tmp_path / "out"
    with serving(by_script(load_script(task))) as server:
        done = command(
            "run",
            task.folder,
            "--models",
            "openai:o4-mini,reasoning_effort=low",
            "--base-url",
            server.url,
            "--device",
            "virtual",
            "--rounds",
            1,
            "-o",
            out,
            "--json",
            debug=True,
        )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [len(one["attempts"]) for one in document["rounds"]] == [3]
    assert {asked.body["reasoning_effort"] for asked in server.asked} == {"low"}
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert KEY.encode() not in written and KEY not in done.stdout + done.stderr


@pytest.mark.second_tier
def test_a_recorded_run_plays_back_without_server_key_and_compiler(
    task: Task, tmp_path: Path
) -> None:
    recording, runs = tmp_path / "tape.jsonl", tmp_path / "runs"
    with serving(by_script(load_script(task))) as server:
        live = command(
            "run",
            task.folder,
            "--models",
            f"record:{recording}:openai:o4-mini",
            "--base-url",
            server.url,
            "--device",
            "virtual",
            "--rounds",
            1,
            "-o",
            runs / "live",
        )
    assert live.returncode == 0, live.stderr
    assert KEY not in recording.read_text()
    again = command(
        "run",
        task.folder,
        "--models",
        f"replay:{recording}",
        "--rounds",
        1,
        "-o",
        runs / "again",
        key="",
        PATH="/usr/bin:/bin",
        CUDA_HOME="/nowhere",
    )
    assert again.returncode == 0, again.stderr
    shown = [clockless(one.stdout) for one in (live, again)]
    assert shown[0] == shown[1] and "o4-mini: 100 tokens in (64 cached), 20 out" in again.stdout
    other = command("run", "silu_and_mul", "--models", f"replay:{recording}", "-o", runs / "other")
    assert other.returncode == 2 and "is not recorded; the closest" in other.stderr
    assert "differs: - " in other.stderr


def clockless(shown: str) -> str:
    """What was shown without names and the run's own seconds, as one line."""
    words = " ".join(re.sub(r"  [\d.]+ s$", "", shown, flags=re.MULTILINE).split())
    names = r"Astra run \S+|transcript: \S+|astra-chat report \S+|astra-chat replay \S+"
    return re.sub(names + r"|in all [\d.]+ s.*?(?= seed:)", "", words)


@pytest.mark.second_tier
def test_mistakes_cost_no_request(task: Task, tmp_path: Path) -> None:
    with serving(by_script(load_script(task))) as server:
        done = command(
            "run",
            task.folder,
            "--models",
            "openai:m,reasoning_efort=low",
            "--base-url",
            server.url,
            "--device",
            "virtual",
            "-o",
            tmp_path / "out",
        )
    assert done.returncode == 2 and "there is no option 'reasoning_efort'" in done.stderr
    assert not server.asked and not (tmp_path / "out").exists()
