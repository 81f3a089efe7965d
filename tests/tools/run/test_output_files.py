"""What stands where a runner's results belong."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from astra_chat.tools.run.case_run import CaseRun, is_plain, odd_file, taken
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.run.protocol import CaseReport
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import Case

TASK = find_task("silu_and_mul")
CASE = Case(dims={"tokens": 2, "d": 8}, dtype="float16")
OUT_BYTES, INPUT_BYTES, GUARD_BYTES = 32, 64, 16


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "run" / "3"
    made.mkdir(parents=True)
    for name, size in (("out", OUT_BYTES), ("input", INPUT_BYTES)):
        (made / f"{name}.after").write_bytes(bytes(2 * (size + 2 * GUARD_BYTES)))
    return made


def test_what_a_runner_writes_is_not_odd(folder: Path) -> None:
    assert odd_file(folder, TASK.args, CASE, 2, GUARD_BYTES) is None
    (folder / "out.written").write_bytes(bytes(OUT_BYTES))
    assert odd_file(folder, TASK.args, CASE, 2, GUARD_BYTES) is None


def linked(path: Path) -> None:
    path.rename(path.with_suffix(".other"))
    path.symlink_to(path.with_suffix(".other"))


def sparse(path: Path) -> None:
    os.truncate(path, 2**40)


def missing(path: Path) -> None:
    path.unlink()


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder_there(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("put", [linked, sparse, missing, fifo, folder_there])
def test_what_else_stands_there_is_odd(folder: Path, put: Callable[[Path], None]) -> None:
    put(folder / "input.after")
    assert odd_file(folder, TASK.args, CASE, 2, GUARD_BYTES) == "input.after"


def test_a_mask_that_is_a_link_is_odd(folder: Path) -> None:
    (folder / "out.written").symlink_to("/nowhere")
    assert odd_file(folder, TASK.args, CASE, 2, GUARD_BYTES) == "out.written"


def test_results_are_taken_where_the_runner_has_no_way_to_them(folder: Path) -> None:
    away = taken(folder)
    assert not folder.exists() and not away.is_relative_to(folder.parent)
    assert is_plain(away / "out.after", 2 * (OUT_BYTES + 2 * GUARD_BYTES))


def test_what_may_only_be_read_and_is_unchanged_needs_no_file(tmp_path: Path) -> None:
    given, (out, read) = bytes(range(INPUT_BYTES)), TASK.args
    (tmp_path / "input.in").write_bytes(given)
    (tmp_path / "out.after").write_bytes(bytes(OUT_BYTES))
    case = OracleCase(CASE, tmp_path / "expected", tmp_path)
    left = CaseRun(case, tmp_path, CaseReport(unchanged=("input", "out")), pattern=0)
    content, changed = left.after(read)
    assert left.oddity(TASK.args) is None and content.tobytes() == given and not changed.any()
    assert not left.is_unchanged(out), "what may be written has to be handed over"
    (tmp_path / "out.after").unlink()
    assert "out.after" in str(left.oddity(TASK.args))
