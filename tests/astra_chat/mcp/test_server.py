"""The server as the official client sees it, over stdio, in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, get_args

import pytest
from mcp import Client, StdioServerParameters

from astra_chat.mailbox.runs import wait_for_question
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import StepName
from tests.astra_chat.mailbox_samples import run
from tests.chat_samples import VECTOR, write_transcript

ROOT = Path(__file__).parents[3]
COMMAND = [sys.executable, "-m", "astra_chat", "mcp"]
PASS = '{"reply": {"kind": "pass", "words": "no further case"}}'
HUGE = "x" * 10_000_000


def server() -> StdioServerParameters:
    return StdioServerParameters(command=COMMAND[0], args=COMMAND[1:], cwd=ROOT, env={**os.environ})


async def call(client: Client, tool: str, /, **words: Any) -> Any:
    """A tool's values; a failure as the text that it is told by."""
    result = await client.call_tool(tool, words)
    if result.is_error:
        (text,) = result.content
        return getattr(text, "text", "")
    values = result.structured_content
    return values["result"] if values is not None and set(values) == {"result"} else values


async def evaluated(client: Client, begun: Any) -> Any:
    while begun["state"] in ("queued", "running"):
        begun = await call(client, "evaluation", job=begun["job"], wait_s=60)
    return begun


@pytest.mark.second_tier
def test_a_client_does_everything(task: Task, tmp_path: Path) -> None:
    box = tmp_path / "box"
    run(task, box, tmp_path / "runs" / "one")
    question = wait_for_question(box, timeout_s=0)
    assert question is not None
    write_transcript(tmp_path / "finished.jsonl")
    progress: list[str] = []

    async def heard(done: float, total: float | None, message: str | None) -> None:
        progress.append(message or "")

    async def all_of_it() -> None:
        async with Client(server()) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert names >= {
                "tasks",
                "task",
                "evaluate",
                "evaluation",
                "mailbox_next",
                "mailbox_answer",
                "runs",
                "transcript",
            }
            assert "silu_and_mul" in [one["name"] for one in await call(client, "tasks")]
            contract = await call(client, "task", task=str(task.folder))
            assert "doubled(" in contract["prototype"] and "__global__" in contract["baseline"]

            words = {"task": str(task.folder), "device": "virtual", "kernel": VECTOR}
            begun = await client.call_tool(
                "evaluate", {**words, "wait_s": 0.5}, progress_callback=heard
            )
            found = await evaluated(client, begun.structured_content)
            assert (found["verdict"], found["exit_code"]) == ("accepted", 0)
            assert "warps_on_busiest_sm" in found["report"]
            values = await call(client, "evaluation_values", job=found["job"])
            assert values["evaluation"]["outcome"]["kind"] == "timed"

            asked = await call(client, "mailbox_next", folder=str(box), wait_s=0)
            assert (asked["id"], asked["role"]) == (question.id, "tester")
            assert asked["prompt"] == question.prompt and asked["reply"] == question.schema
            about = {"folder": str(box), "id": question.id}
            refused = await call(client, "mailbox_answer", **about, reply="{}")
            assert "the answer cannot be used: it does not match the schema" in refused
            given = await call(client, "mailbox_answer", **about, reply=PASS, answered_by="a test")
            assert given == {
                "id": question.id,
                "checked": "checked against the schema and the run's facts",
            }
            asked = await call(client, "mailbox_next", folder=str(box), wait_s=0)
            assert asked["id"] == ""

            (row,) = await call(client, "runs", folder=str(tmp_path / "runs"))
            assert (row["task"], row["state"], row["path"]) == (
                "doubled",
                "waiting",
                "one/transcript.jsonl",
            )
            summary = await call(client, "transcript", path=str(tmp_path / "finished.jsonl"))
            assert summary["schema"] == "astra-chat/run/1" and summary["best"]["ratio"] == 1.9

            for tool, given_words, said in FAILURES:
                text = await call(client, tool, **given_words)
                text = text if isinstance(text, str) else (await evaluated(client, text))["error"]
                assert said in text and len(text.splitlines()) == 1, text
            huge = await evaluated(
                client, await call(client, "evaluate", **words | {"kernel": HUGE})
            )
            assert (huge["verdict"], huge["exit_code"]) == ("refused", 1)
            assert "the source is longer than 524288 bytes" in huge["report"]
            assert len(huge["report"]) < 1000

    asyncio.run(all_of_it())
    assert progress and {line.split()[0] for line in progress} <= {*STATES, *get_args(StepName)}


STATES = ("queued", "running", "done")
FAILURES: list[tuple[str, dict[str, Any], str]] = [
    ("task", {"task": "nope"}, "no task 'nope'"),
    ("evaluate", {"task": "nope", "kernel": "x"}, "no task 'nope'"),
    (
        "evaluate",
        {"task": "silu_and_mul", "kernel": "x", "device": "nope"},
        "no device 'nope': use auto, cuda, cuda:N or virtual (exit code 2)",
    ),
    ("evaluate", {}, "task is missing; kernel is missing (exit code 2)"),
    (
        "evaluation",
        {"job": "nope"},
        "no evaluation 'nope' here: start one with `evaluate` (exit code 2)",
    ),
    (
        "mailbox_next",
        {"folder": "/no/box", "wait_s": 0},
        "a run creates it with --models mailbox:",
    ),
    ("transcript", {"path": "/etc/hostname"}, "is not an Astra transcript"),
    ("runs", {"folder": "/no/such/folder"}, "is not a folder: give a folder that contains runs"),
]


@pytest.mark.parametrize("how", ["closes", "is killed"])
def test_a_client_that_vanishes_leaves_nothing_running(task_folder: Path, how: str) -> None:
    """While an evaluation is under way: the server ends by itself, and its children with it."""
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT, *COMMAND],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
        env={**os.environ, "TASK": str(task_folder)},
    )
    assert client.stdout is not None and client.stdin is not None
    pid = int(client.stdout.readline())
    assert client.stdout.readline() == "an evaluation runs\n"
    if how == "is killed":
        client.send_signal(signal.SIGKILL)
    else:
        client.stdin.close()
    client.wait(timeout=900)
    deadline = time.monotonic() + 900
    while alive(pid):
        assert time.monotonic() < deadline, "the server is still there"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    """Whether a process of this group is there and no zombie."""
    states = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == pid:
            states.append(fields[0])
    return any(state != "Z" for state in states)


CLIENT = f"""
import json, os, subprocess, sys
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          start_new_session=True, text=True)
print(server.pid, flush=True)
def send(**message):
    server.stdin.write(json.dumps({{"jsonrpc": "2.0", **message}}) + "\\n")
    server.stdin.flush()
send(id=1, method="initialize", params={{"protocolVersion": "2025-06-18", "capabilities": {{}},
     "clientInfo": {{"name": "test", "version": "1"}}}})
server.stdout.readline()
send(method="notifications/initialized")
words = {{"task": os.environ["TASK"], "device": "virtual", "wait_s": 0,
         "kernel": {json.dumps(VECTOR)}}}
send(id=2, method="tools/call", params={{"name": "evaluate", "arguments": words}})
server.stdout.readline()
print("an evaluation runs", flush=True)
sys.stdin.read()
server.stdin.close()
server.wait()
"""
