"""engine.toml: every shipped task's, and what is wrong with others."""

from __future__ import annotations

import ast
import re
import shutil
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from astra_chat.package.engine_file import EngineFile, forwarded, read_engine_file
from astra_chat.package.folder import hooks_source
from astra_chat.package.sglang_pr import predicate
from astra_chat.tools.task.folder import find_task, load_task, task_names
from astra_vgpu.ground.errors import BadInput
from tests.sources import ROOT

TASKS = {name: find_task(name) for name in task_names()}
HOOK = """\
schema = 1
[[hooks]]
engine = "sglang"
target = "sglang.ops:norm"
versions = ">=0.5"
signature = "x, out=None"
replaces = "another kernel"
arguments = { out = "out", input = "x" }
"""


def test_every_task_says_where_engines_call_it_and_what_they_keep() -> None:
    """Each call that a winner does not serve has its reason beside it."""
    for name, task in TASKS.items():
        found = read_engine_file(task)
        assert found and (found.none or (found.hooks and found.unserved and found.upstream)), name
        for hook in found.hooks:
            assert hook.engine == "vllm" or not hook.versions.startswith(">=0.5.18"), name


def test_a_contract_is_the_same_task_with_and_without_it() -> None:
    """Recorded runs stay runs of their tasks."""
    task = TASKS["rmsnorm"]
    assert "engine.toml" not in task.files() and (task.folder / "engine.toml").is_file()


def test_hooks_and_predicates_of_all_tasks_are_python() -> None:
    hooks = {n: f.hooks for n, t in TASKS.items() if (f := read_engine_file(t)) and f.hooks}
    tree = ast.parse(hooks_source(hooks, TASKS))
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    places = {(h.engine, h.target, h.versions) for own in hooks.values() for h in own}
    assert len(functions) == len(places) < sum(map(len, hooks.values())), "places are shared"
    for task in TASKS.values():
        ast.parse(predicate(task, "eligible"))


def test_a_view_that_cannot_be_made_leaves_the_call_to_the_original() -> None:
    """PyTorch raises RuntimeError where rows are no whole heads, and a server has to run on."""
    task = TASKS["rotary_embedding"]
    file = read_engine_file(task)
    assert file is not None
    reasons: list[str] = []

    def view(*_: int) -> None:
        raise RuntimeError("shape '[3, -1, 16]' is invalid\nfor input of size 120")

    operator = SimpleNamespace(wanted=True, launch=None, falls_back=reasons.append)
    operator.ready = lambda: True
    torch = SimpleNamespace(compiler=SimpleNamespace(is_compiling=lambda: False), int64="int64")
    names: dict[str, Any] = {"OPERATORS": {task.name: operator}, "torch": torch}
    text = hooks_source({task.name: file.hooks}, {task.name: task})
    exec(text[text.index("def hook_0") : text.index("HOOKS = ")], names)
    rows = SimpleNamespace(view=view, numel=lambda: 3, is_contiguous=lambda: True, dtype="int64")
    found = names["hook_0"](lambda *given: given, rows, rows, None, 16, None)
    assert found == (rows, rows, None, 16, None, True)
    assert reasons == ["shape '[3, -1, 16]' is invalid"]


def test_arguments_are_forwarded_as_they_came() -> None:
    assert (
        forwarded("q, k=None, *, is_neox, rope_dim=0") == "q, k, is_neox=is_neox, rope_dim=rope_dim"
    )


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ('"x, out=None"', '"x, out=None, **rest"', "list each parameter"),
        ('input = "x"', 'input = "y.view(-1)"', "uses y, which is not defined there"),
        ('input = "x"', 'input = "x ="', "is not a Python expression"),
        ('input = "x"', 'weight = "x"', "but the launcher takes out, input"),
        ('versions = ">=0.5"', 'versions = "about 5"', "versions:"),
        ("sglang.ops:norm", "sglang.ops", "hooks.0.target"),
        ("schema = 1", 'schema = 1\nnone = "no place"', "define hooks, or explain"),
    ],
)
def test_what_is_wrong_is_named(before: str, after: str, words: str, tmp_path: Path) -> None:
    shutil.copytree(TASKS["silu_and_mul"].folder, tmp_path / "task")
    task = load_task(tmp_path / "task")
    path = task.folder / "engine.toml"
    path.write_text(HOOK)
    assert read_engine_file(task) is not None
    path.write_text(HOOK.replace(before, after))
    with pytest.raises(BadInput, match="engine") as caught:
        read_engine_file(task)
    assert words in str(caught.value)


def test_the_page_shows_a_file_that_is_read() -> None:
    text = (ROOT / "docs" / "engine-toml.md").read_text()
    block = text.partition("```toml\n")[2].partition("```")[0]
    shown = EngineFile.model_validate(tomllib.loads(block))
    own = read_engine_file(TASKS["rmsnorm"])
    assert own and shown.upstream == own.upstream
    assert shown.hooks[0].arguments == own.hooks[0].arguments


def test_figures_over_today_are_those_of_the_page() -> None:
    """docs/research/over-today.md is written by a command; engine.toml repeats its rows."""
    page = (ROOT / "docs/research/over-today.md").read_text()
    found = {name: file.today for name, task in TASKS.items() if (file := read_engine_file(task))}
    some = {name: today for name, today in found.items() if today is not None}
    assert len(some) == 14
    for name, today in some.items():
        row = next(one for one in page.splitlines() if re.match(rf"\| {name} \| [\d.]+ \(", one))
        assert f"| {today.over:.2f} ({today.low:.2f} to {today.high:.2f}) |" in row
        assert f"| {today.lowest:.2f} (" in row
        assert f"On {today.gpu}, side by side, {today.date}" in page
        assert today.candidate in (ROOT / f"docs/results/{name}.md").read_text()
