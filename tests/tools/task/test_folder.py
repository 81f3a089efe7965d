"""Task folders: what is read, and how each kind of mistake is named."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from astra_chat.tools.task.expressions import evaluate
from astra_chat.tools.task.folder import BUILTIN, TRANSCRIPT, find_task, load_task, task_names
from astra_chat.tools.types import Case
from astra_vgpu.ground.errors import BadInput

SILU = BUILTIN / "silu_and_mul"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    copy = tmp_path / "task"
    shutil.copytree(SILU, copy)
    return copy


def edit(folder: Path, old: str, new: str) -> None:
    path = folder / "task.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def message(folder: Path) -> str:
    with pytest.raises(BadInput) as caught:
        load_task(folder)
    text = str(caught.value)
    assert all("task.toml" in line or "missing" in line for line in text.splitlines())
    return text


def test_shipped_tasks_load() -> None:
    assert "silu_and_mul" in task_names()
    task = find_task("silu_and_mul")
    assert [arg.name for arg in task.args] == ["out", "input"]
    assert task == find_task(str(SILU))


def test_bytes_and_flops_follow_from_the_contract() -> None:
    task = find_task("silu_and_mul")
    case = Case(dims={"tokens": 16, "d": 4096}, dtype="float16")
    assert task.least_bytes(case) == 16 * 4096 * 3 * 2
    assert task.flops_of(case) == 6 * 16 * 4096
    assert task.args[1].shape_of(case) == (16, 8192)
    assert evaluate("2*d", {"d": 7}) == 14


def test_an_offset_is_the_least_that_the_contract_allows(folder: Path) -> None:
    edit(folder, 'name = "out", ', 'name = "out", min_alignment_bytes = 1, ')
    out, given = load_task(folder).args
    half, single = (
        Case(dims={"tokens": 1, "d": 8}, dtype=dtype, offset=3) for dtype in ("float16", "float32")
    )
    assert (out.shift_of(half), out.shift_of(single)) == (6, 12), "an element is never split"
    assert (given.shift_of(half), given.shift_of(single)) == (48, 48)


def test_the_step_of_a_dim_depends_on_the_dtype() -> None:
    task = find_task("silu_and_mul")
    task.require_legal(Case(dims={"tokens": 1, "d": 12}, dtype="float32"))
    with pytest.raises(ValueError, match="steps of 8"):
        task.require_legal(Case(dims={"tokens": 1, "d": 12}, dtype="float16"))


def test_a_legal_case_may_be_too_large_to_ask_for() -> None:
    for name, case in (
        ("silu_and_mul", Case(dims={"tokens": 65536, "d": 65536}, dtype="float16")),
        (
            "fused_add_rmsnorm",
            Case(dims={"tokens": 64, "h": 64}, dtype="float16", pads={"input": 10**9}),
        ),
    ):
        task = find_task(name)
        task.require_legal(case)
        with pytest.raises(ValueError, match="too many for a check"):
            task.require_small(case)
        task.require_small(task.check[-1])


def test_the_id_changes_with_any_file(folder: Path) -> None:
    before = load_task(folder).id
    with (folder / "baseline.cu").open("a") as file:
        file.write("// one more line\n")
    assert load_task(folder).id != before


def test_a_recorded_run_is_no_part_of_the_id(folder: Path) -> None:
    before = load_task(folder)
    (folder / TRANSCRIPT).write_bytes(b"\x1f\x8b\xff")
    after = load_task(folder)
    assert after.id == before.id and after.files() == before.files()


def test_unknown_task_is_named_with_the_known_ones() -> None:
    with pytest.raises(BadInput, match=r"no task 'nothing'.*tasks list"):
        find_task("nothing")


def test_missing_file(folder: Path) -> None:
    (folder / "reference.py").unlink()
    assert "reference.py is missing" in message(folder)


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ('access = "write"', 'access = "wrote"', "args.0.access"),
        ('access = "read"', 'acess = "read"', "args.1"),
        ("schema = 1", "schema = 3", "schema"),
        ('entry = "silu_and_mul"', 'entry = "silu and mul"', "entry"),
        ("min = 8", 'min = "few"', "dims.d.min"),
        ("[tolerance]", "[tolerances]", "tolerance"),
    ],
)
def test_a_wrong_field_is_named_with_its_line(folder: Path, old: str, new: str, field: str) -> None:
    edit(folder, old, new)
    text = message(folder)
    assert field in text and "task.toml" in text
    lines = (folder / "task.toml").read_text().splitlines()
    if "line " in text and field not in ("tolerance",):
        number = int(text.split("line ")[1].split(":")[0])
        assert new.split(" ")[0] in lines[number - 1]


def test_broken_toml_names_the_line(folder: Path) -> None:
    edit(folder, "schema = 1", "schema = = 1")
    assert "line 2" in message(folder)


def test_a_case_outside_the_domain_is_refused(folder: Path) -> None:
    edit(folder, "tokens = 1, d = 8,", "tokens = 1, d = 9,")
    assert "d = 9" in message(folder)


def test_a_task_that_writes_nothing_is_refused(folder: Path) -> None:
    edit(folder, 'access = "write"', 'access = "read"')
    assert "writes no argument" in message(folder)


def test_headers_have_to_be_there_and_are_part_of_the_task(folder: Path) -> None:
    edit(folder, "flags = [", 'headers = ["rows.cuh"]\nflags = [')
    with pytest.raises(BadInput, match=r"headers: rows\.cuh is not in the task's folder"):
        load_task(folder)
    (folder / "rows.cuh").write_text("#pragma once\n")
    task = load_task(folder)
    assert task.header_texts() == {"rows.cuh": "#pragma once\n"} and "rows.cuh" in task.files()


@pytest.mark.parametrize("name", ["../rows.cuh", "/etc/passwd", "rows.txt", "a/b.cuh", ""])
def test_a_header_is_a_file_of_the_folder_itself(folder: Path, name: str) -> None:
    edit(folder, "flags = [", f'headers = ["{name}"]\nflags = [')
    with pytest.raises(BadInput, match="headers"):
        load_task(folder)


def test_a_folder_with_the_name_of_a_shipped_task_is_never_mistaken_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(BUILTIN / "silu_and_mul", tmp_path / "topk_softmax")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match=r"write \./topk_softmax for the folder"):
        find_task("topk_softmax")
    assert find_task("./topk_softmax").name == "silu_and_mul"
    assert find_task("silu_and_mul").folder == (BUILTIN / "silu_and_mul").resolve()
    monkeypatch.chdir(BUILTIN)
    assert find_task("topk_softmax").name == "topk_softmax"
