"""check --explain, check --case and tasks check, as a user types them."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from astra_chat.tools.sandbox.isolation import WORDS, isolation
from astra_chat.tools.task.folder import find_task, task_names
from astra_chat.tools.task.launcher import prototype
from astra_chat.tools.task.shipped import ranks_task_names
from astra_chat.tools.types import candidate_id
from tests.astra_chat.commands import Command
from tests.chat_samples import KERNELS, evaluation, timed

SCALAR = Path(__file__).parents[2] / "tools" / "kernels" / "scalar.cu"
CASE = {"dims": {"tokens": 3, "d": 24}, "dtype": "float16", "seed": 7}


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """No sentence is broken."""
    monkeypatch.setenv("COLUMNS", "200")


@pytest.mark.second_tier
def test_an_explained_check_tells_gates_and_what_is_left(
    command: Command, task_folder: Path
) -> None:
    kernel = task_folder / "baseline.cu"
    code, out, _ = command("check", task_folder, kernel, "--device", "virtual", "--explain")
    assert code == 0
    for words in (
        "guard: passed",
        "check: passed",
        "drawn at random after the build",
        "not ruled out",
    ):
        assert words in out, words
    assert (
        "correct on" in out and f"isolation while building and running: {WORDS[isolation()]}" in out
    )


@pytest.mark.second_tier
def test_time_says_that_the_demo_cases_alone_were_timed(
    command: Command, task_folder: Path
) -> None:
    """A case that the caller states is timed instead of them."""
    words = ("time", task_folder, task_folder / "baseline.cu", "--device", "virtual", "--trust")
    code, _, err = command(*words)
    assert (
        code == 0 and "timed: 1 demo case only; --cases bench times the 1 bench case, with" in err
    )
    code, out, err = command(*words, "--case", '{ rows = 3, d = 264, dtype = "float32" }')
    assert code == 0 and "3x264 float32" in out and "demo case" not in err
    code, _, err = command(*words, "--case", "{}", "--cases", "demo")
    assert code == 2 and "give --case or --cases, not both" in err


@pytest.mark.second_tier
def test_explained_failures_end_where_they_failed(command: Command, tmp_path: Path) -> None:
    broken = tmp_path / "broken.cu"
    broken.write_text(SCALAR.read_text().replace("return", "retrun"))
    code, out, _ = command("time", "silu_and_mul", broken, "--device", "virtual", "--explain")
    assert code == 1 and "build: failed" in out and "check: not reached" in out
    assert "not ruled out" not in out, "a candidate that failed leaves nothing to rule out"


def test_quiet_says_why_in_its_line(command: Command) -> None:
    code, out, _ = command("check", "silu_and_mul", "/dev/zero", "--device", "virtual", "--quiet")
    assert code == 1 and out.count("\n") == 1
    assert out.endswith(
        "refused: refused by the guard: line 1: the source is longer than 524288 bytes\n"
    )


@pytest.mark.second_tier
def test_a_stated_case_runs_and_the_record_has_its_seed(
    command: Command, task_folder: Path
) -> None:
    kernel = task_folder / "baseline.cu"
    words = ("check", task_folder, kernel, "--device", "virtual", "--json")
    case = {"dims": {"rows": 3, "d": 24}, "dtype": "float32", "seed": 7}
    code, out, _ = command(*words, "--case", json.dumps(case))
    record = json.loads(out)["evaluation"]["check"]
    assert code == 0 and any(case["seed"] == 7 for case in record["visible"])
    assert len(record["hidden"]) >= 15


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("nonsense", "neither TOML nor JSON"),
        ('{"dims": 3}', "dims"),
        ('{"dims": {"tokens": 3, "d": 7}, "dtype": "float16"}', "d = 7 is outside"),
    ],
)
def test_a_case_that_cannot_be_is_bad_input(command: Command, case: str, said: str) -> None:
    code, out, err = command("check", "silu_and_mul", SCALAR, "--device", "virtual", "--case", case)
    assert code == 2 and not out and said in err and len(err.splitlines()) == 1


@pytest.mark.second_tier
def test_a_task_is_checked(
    command: Command, task_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("astra_chat.tools.sandbox.isolation.isolation", lambda: "seccomp")
    words = ("tasks", "check", task_folder, "--device", "virtual", "--mutants", "4")
    code, out, err = command(*words)
    assert code == 3 and not out and "--trust" in err and len(err.splitlines()) == 1
    code, out, _ = command(*words, "--trust")
    assert code == 0 and "baseline: correct on 2 of 2" in out and out.endswith("fit for judging\n")
    assert "out: all zeros: fails on 2 of 2 cases" in out
    assert "seeded bugs: the check cases detect 4 of 4" in out


@pytest.mark.second_tier
def test_tasks_are_listed(command: Command) -> None:
    code, out, _ = command("tasks")
    assert code == 0 and "silu_and_mul\t" in out and "baseline" not in out
    assert command("tasks", "list") == (0, out, "")
    code, out, _ = command("tasks", "list", "--json")
    document = json.loads(out)
    assert document["schema"] == "astra-chat/tasks/1"
    names = [*task_names(), *ranks_task_names()]
    assert [task["name"] for task in document["tasks"]] == names
    assert command("tasks", "--json") == (0, out, "")


@pytest.mark.parametrize("name", task_names())
def test_a_task_is_shown(command: Command, name: str) -> None:
    code, out, _ = command("tasks", "show", name)
    task = find_task(name)
    assert code == 0 and f"launcher: {prototype(task)}" in out
    assert all(f"  {arg.name}: {arg.dtype} [" in out for arg in task.args)
    assert out.count(", weight ") == len(task.bench)
    code, out, _ = command("tasks", "show", name, "--json")
    assert code == 0 and json.loads(out)["task"]["entry"] == task.entry


def test_a_task_that_is_not_there_is_not_shown(command: Command) -> None:
    code, out, err = command("tasks", "show", "nothing")
    assert code == 2 and not out and "no task 'nothing'" in err


def test_a_kernel_is_read_from_stdin(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"int x;")))
    code, out, _ = command("check", "silu_and_mul", "-", "--device", "virtual", "--quiet")
    assert code == 1 and out.startswith(f"{candidate_id('int x;')} refused")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfe")))
    code, _, err = command("check", "silu_and_mul", "-", "--device", "virtual")
    assert code == 2 and err == "astra-chat: cannot read -: it is not text\n"


@pytest.mark.parametrize(
    ("options", "verdict", "ratio", "line"),
    [
        ([], "slower", 0.8, ""),
        (["--fail-if", "slower"], "slower", 0.8, "slower than the baseline"),
        (["--fail-if", "slower"], "tie", 0.99, ""),
        (["--min-ratio", "1.2"], "accepted", 1.25, ""),
        (["--min-ratio", "1.2"], "accepted", 1.15, "estimated 1.150x is below --min-ratio 1.2"),
        (["--fail-if", "slower", "--min-ratio", "0.9"], "slower", 0.95, "slower than"),
    ],
)
def test_time_fails_where_a_ci_job_asks_for_it(
    options: list[str],
    verdict: str,
    ratio: float,
    line: str,
    command: Command,
    task_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The judge's own verdicts are tested elsewhere: here it says what is to be told apart."""
    outcome = timed(ratio).model_copy(update={"verdict": verdict})
    judged = evaluation(KERNELS["vector.cu"], outcome)
    monkeypatch.setattr("astra_chat.tools.judge.Judge.evaluate", lambda *_, **__: judged)
    kernel = task_folder / "script" / "vector.cu"
    words = ("time", task_folder, kernel, "--device", "virtual", "--trust", "--quiet", *options)
    code, out, err = command(*words)
    assert code == (1 if line else 0) and verdict in out
    assert line in err and len(err.splitlines()) == bool(line)


def test_fail_if_knows_its_verdicts(command: Command, task_folder: Path) -> None:
    kernel = task_folder / "script" / "vector.cu"
    assert command("time", task_folder, kernel, "--fail-if", "ugly")[0] == 2


@pytest.mark.second_tier
@pytest.mark.parametrize(("command_name", "word"), [("check", "correct"), ("time", "accepted")])
def test_quiet_is_one_line_and_json_one_document(
    command: Command, task_folder: Path, command_name: str, word: str
) -> None:
    words = (command_name, task_folder, task_folder / "script" / "vector.cu", "--device", "virtual")
    code, out, err = command(*words, "--trust", "--quiet")
    name = candidate_id(KERNELS["vector.cu"])
    assert code == 0 and err == "" and len(out.splitlines()) == 1
    assert out.startswith(f"{name} {word}: correct on")
    code, out, err = command(*words, "--trust", "--json", "--quiet")
    document = json.loads(out)
    assert code == 0 and err == "" and document["schema"] == "astra-chat/evaluation/1"
    assert document["evaluation"]["candidate"] == name


def test_quiet_about_what_fails(command: Command, task_folder: Path) -> None:
    broken = task_folder / "script" / "broken.cu"
    code, out, _ = command("check", task_folder, broken, "--device", "virtual", "--quiet")
    assert code == 1
    name = candidate_id(KERNELS["broken.cu"])
    assert out.startswith(f"{name} build_failed: does not build: line ") and out.count("\n") == 1


@pytest.mark.second_tier
def test_quiet_about_a_profile(command: Command, task_folder: Path) -> None:
    kernel = task_folder / "script" / "vector.cu"
    code, out, _ = command(
        "profile", task_folder, kernel, "--device", "virtual", "--trust", "--quiet"
    )
    assert code == 0 and out.startswith("bottleneck (estimated): ") and "metric" not in out


@pytest.mark.second_tier
def test_a_profile_of_a_chosen_case(command: Command) -> None:
    words = ("profile", "silu_and_mul", SCALAR, "--device", "virtual")
    code, out, _ = command(*words, "--case", json.dumps(CASE))
    assert code == 0 and "estimated profile of 3x24 float16" in out
    code, out, err = command(*words, "--case", '{"dims": {"tokens": 3}, "dtype": "float16"}')
    assert code == 2 and not out and "dims ['tokens'] are not" in err


def test_sigterm_ends_children_too(task_folder: Path) -> None:
    """SIGTERM comes as `timeout` sends it: an oracle that never ends must not continue for
    nobody."""
    with (task_folder / "reference.py").open("a") as file:
        file.write("\n\ndef reference(inputs):\n    while True:\n        pass\n")
    kernel = task_folder / "script" / "vector.cu"
    words = ("check", str(task_folder), str(kernel), "--device", "virtual", "--trust")
    with subprocess.Popen(
        [sys.executable, "-m", "astra_chat", *words], stderr=subprocess.PIPE, text=True
    ) as judge:
        threads = Path(f"/proc/{judge.pid}/task")
        oracle = ""
        while not oracle:
            assert judge.poll() is None, judge.stderr and judge.stderr.read()
            for pid in " ".join(f.read_text() for f in threads.glob("*/children")).split():
                with suppress(OSError):
                    if "runners.oracle" in Path(f"/proc/{pid}/cmdline").read_text():
                        oracle = pid
            time.sleep(0.05)
        judge.terminate()
        _, said = judge.communicate(timeout=900)
    assert judge.returncode == 130 and said == "astra-chat: interrupted\n"
    assert not Path(f"/proc/{oracle}").exists()


@pytest.mark.second_tier
def test_evaluate_prints_the_report_of_the_chat(
    command: Command, task_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "k.cu").write_text(KERNELS["vector.cu"])
    words = ("evaluate", task_folder, tmp_path / "k.cu", "--device", "virtual", "--seed", "5eed")
    code, out, _ = command(*words)
    assert code == 0 and "warps_on_busiest_sm" in out
    code, text, err = command(*words, "--json", "--min-ratio", "99")
    document = json.loads(text)
    assert code == 1 and "below --min-ratio 99" in err
    assert document["schema"] == "astra-chat/evaluation-report/1" and document["passed"]
    assert document["verdict"] == "accepted" and document["report"].split()[0] in out
    (tmp_path / "wrong.cu").write_text(KERNELS["wrong.cu"])
    code, out, _ = command("evaluate", task_folder, tmp_path / "wrong.cu", "--device", "virtual")
    assert code == 1 and "wrong" in out
