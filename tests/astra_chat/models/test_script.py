"""Scripts: read into values, refused in one line, and without figures in their words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from astra_chat.agents.edits import kernel_of
from astra_chat.agents.reply_errors import objection
from astra_chat.agents.turns import Edits, Source, TesterReply
from astra_chat.models.script import ScriptedKernel, ScriptFile, load_script, scripted_names
from astra_chat.tools.task.folder import Task, find_task, load_task
from astra_vgpu.ground.errors import BadInput
from tests.chat_samples import KERNELS

FIGURE = re.compile(
    r"\d[\d.,]*\s*(x\b|\u00d7|%|percent|times|us\b|\u00b5s|ms\b|s\b|[KMGT]i?B\b|[GT]B/s|flop|cycles|clocks)"
    r"|\b(twice|half|double|triple|thrice)\s+(as\s+)?(fast|slow|quick)",
    re.IGNORECASE,
)
"""A figure with a unit, a ratio, or a speed as text."""

SCRIPTED = scripted_names()


def words_of(script: ScriptFile) -> list[str]:
    """Everything that a script says as text."""
    said = [turn.words for turn in script.tester]
    said += [str(row.get("why", "")) for turn in script.tester for row in turn.cases]
    for one in script.round:
        said += [one.plan.title, one.plan.change, one.plan.why]
        said += [kernel.words for kernel in (one.coder, *one.fixer)]
        said += [one.profiler.words] if one.profiler else []
    return said


@pytest.mark.parametrize("name", SCRIPTED)
def test_shipped_scripts_state_no_figures(name: str) -> None:
    import tomllib

    path = find_task(name).folder / "script" / "script.toml"
    for said in words_of(ScriptFile.model_validate(tomllib.loads(path.read_text()))):
        assert not FIGURE.search(said), said


@pytest.mark.parametrize(
    "said", ["1.3x faster", "takes 20 us", "by 30 %", "twice as fast", "4.8 TB/s", "2 times"]
)
def test_what_counts_as_a_figure(said: str) -> None:
    assert FIGURE.search(said)


@pytest.mark.parametrize(
    "said", ["128-bit loads", "two elements", "sm_90", "rows of 4 vectors", "float4"]
)
def test_what_does_not(said: str) -> None:
    assert not FIGURE.search(said)


@pytest.mark.parametrize("name", SCRIPTED)
def test_shipped_scripts_are_a_story(name: str) -> None:
    task = find_task(name)
    script = load_script(task)
    kernels = [kernel for one in script.rounds for kernel in (one.coder, *one.fixer)]
    expected = [kernel.expects.measured for kernel in kernels]
    assert len(script.rounds) >= 2
    mistakes = {"refused"} if task.ranks else {"build_failed", "wrong"}
    assert mistakes <= set(expected)
    assert expected.count("accepted") >= 2
    doubts = [one.profiler for one in script.rounds if one.profiler]
    assert task.ranks or any(one.next == "unsure" for one in doubts)
    for suite in script.testers:
        assert objection(TesterReply(reply=suite), task) is None


def test_a_kernel_may_be_foretold_for_each_basis() -> None:
    both = {"measured": "accepted", "estimated": "tie"}
    apart = ScriptedKernel.model_validate({"file": "a.cu", "words": "", "expects": both})
    same = ScriptedKernel.model_validate({"file": "a.cu", "words": "", "expects": "wrong"})
    assert (apart.expects.on("measured"), apart.expects.on("estimated")) == ("accepted", "tie")
    assert same.expects.on("measured") == same.expects.on("estimated") == "wrong"


def test_answers_are_found_by_their_place(task: Task) -> None:
    script = load_script(task)
    first, second = script.plan(1), script.plan(2)
    assert first is not None and first.title == "Leave the scalar loop"
    assert second is not None and second.predicted_ratio == 2.0
    repair = script.kernel(1, 2)
    assert isinstance(repair, Source) and repair.source == KERNELS["scalar.cu"]
    assert script.choice(1) == "tester"


def edited(folder: Path, old: str, find: str) -> None:
    """A kernel file of the script, `old`, becomes an edit of wrong.cu."""
    path = folder / "script" / "script.toml"
    edits = f'file = "wrong.cu"\nedits = [{{ find = "{find}", replace = "i < total" }}]'
    path.write_text(path.read_text().replace(f'file = "{old}"', edits, 1))


def test_edits_are_said_as_edits_to_a_role_that_was_shown_the_file(task_folder: Path) -> None:
    edited(task_folder, "scalar.cu", "i + 1 < total")
    script = load_script(load_task(task_folder))
    whole = script.sources["wrong.cu, edited"]
    assert whole == KERNELS["wrong.cu"].replace("i + 1 <", "i <")
    shown = script.kernel(1, 2, f"to repair:\n{KERNELS['wrong.cu']}\nfound: ...")
    assert isinstance(shown, Edits) and kernel_of(shown, KERNELS["wrong.cu"]).source == whole
    unseen = script.kernel(1, 2, "to repair: a kernel by a human")
    assert isinstance(unseen, Source) and unseen.source == whole


def test_edits_that_cannot_be_made_are_named(task_folder: Path) -> None:
    edited(task_folder, "scalar.cu", "no such text")
    assert "'no such text', must occur once" in refusal(task_folder)


def test_a_file_is_edited_once(task_folder: Path) -> None:
    for old in ("scalar.cu", "vector.cu"):
        edited(task_folder, old, "return")
    assert "edits 'wrong.cu, edited' twice" in refusal(task_folder)


def stored(folder: Path, file: str, like: str, find: str) -> None:
    """Adds a kernel that the script stores as an edit: `find`, once, becomes i < total."""
    path = folder / "script" / "script.toml"
    edit = f'edits = [{{ find = "{find}", replace = "i < total" }}]'
    added = f'[[stored]]\nfile = "{file}"\nlike = "{like}"\n{edit}\n'
    path.write_text(f"{path.read_text()}\n{added}")


def test_a_file_may_be_stored_as_edits_of_another(task_folder: Path) -> None:
    (task_folder / "script" / "scalar.cu").unlink()
    assert "scalar.cu, which does not exist" in refusal(task_folder)
    stored(task_folder, "scalar.cu", "wrong.cu", "i + 1 < total")
    script = load_script(load_task(task_folder))
    turn = script.kernel(1, 2, f"to repair:\n{KERNELS['wrong.cu']}")
    assert isinstance(turn, Source)
    assert turn.source == KERNELS["wrong.cu"].replace("i + 1 <", "i <")


@pytest.mark.parametrize(
    ("file", "like", "said"),
    [
        ("scalar.cu", "none.cu", "none.cu, which does not exist"),
        ("../scalar.cu", "wrong.cu", "'../scalar.cu' is not the name of a file"),
        ("scalar.cu", "wrong.cu", "'no such text', must occur once"),
    ],
)
def test_a_stored_file_that_cannot_be_made_is_named(
    task_folder: Path, file: str, like: str, said: str
) -> None:
    stored(task_folder, file, like, "no such text")
    assert said in refusal(task_folder)


def test_beyond_the_script_there_is_nothing(task: Task) -> None:
    script = load_script(task)
    assert script.plan(3) is script.plan(0) is None
    assert script.kernel(2, 1) is script.kernel(9, 0) is None
    assert script.tests(3) is script.tests(0) is None
    assert script.choice(2) is script.choice(0) is None
    assert script.analysis(9) is None


def refusal(folder: Path) -> str:
    with pytest.raises(BadInput) as caught:
        load_script(load_task(folder))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('expects = "tie"', 'expects = "fast"', "round.0.fixer.1.expects"),
        ('bottleneck = "dram"', "bottleneck = 3", "round.1.profiler.bottleneck"),
        ('file = "vector.cu"', 'file = "../vector.cu"', "not the name of a file"),
        ('file = "vector.cu"', 'file = "none.cu"', "none.cu, which does not exist"),
        ("[[selector]]", "[[selector]", "script.toml"),
        ("rows = 7,", 'rows = "seven",', "dims.0.value"),
        ('why = "no whole warp"', 'reason = "no whole warp"', "reason"),
        ("predicted_ratio = 1.1", "predicted_ratio = 0", "predicted_ratio"),
    ],
)
def test_mistakes_are_named(task_folder: Path, old: str, new: str, said: str) -> None:
    path = task_folder / "script" / "script.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    assert said in refusal(task_folder)


def test_a_task_without_a_script(task_folder: Path) -> None:
    (task_folder / "script" / "script.toml").unlink()
    said = refusal(task_folder)
    assert "has no scripted run" in said and len(said.splitlines()) == 1
    for way in ("mailbox:DIR", "openai:MODEL", "--base-url", f"evaluate {task_folder} KERNEL.cu"):
        assert way in said
