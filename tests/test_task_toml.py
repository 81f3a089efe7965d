"""The page about task.toml: its example loads, and what it says of it is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from astra_chat.tools.dtypes import DTYPES
from astra_chat.tools.task.contract import Arg, Dim, Index, Judged, Scalar
from astra_chat.tools.task.domain import Domain
from astra_chat.tools.task.folder import Task, load_task
from astra_chat.tools.task.launcher import prototype

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "task-toml.md").read_text()


@pytest.fixture
def task(tmp_path: Path) -> Task:
    found = re.search(r"^```toml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert found is not None
    for name, text in (("task.toml", found[1]), ("baseline.cu", ""), ("reference.py", "")):
        (tmp_path / name).write_text(text)
    return load_task(tmp_path)


def test_the_example_loads_and_its_launcher_is_the_one_shown(task: Task) -> None:
    shown = re.search(r'^    (extern "C".*?stream\))', PAGE, re.DOTALL | re.MULTILINE)
    assert shown is not None
    assert " ".join(shown[1].split()) == prototype(task)
    x, first = task.args[0], task.check[0]
    assert x.strides_of(first) == (2 * 68 + 8, 68, 1)
    assert task.check[1].types == {"I": "int32"}, "it follows from dtype"


def test_every_word_is_there() -> None:
    for name in (*DTYPES, "types", "dtypes", "require", "flops", "least_bytes"):
        assert name in PAGE
    hidden = {
        "usual_scalars",
        "min_alignment_bytes",
        "start",
        "group",
        "scale",
        "off_by_one",
        "probabilities",
        "by",
        "stated_least_bytes",
    }
    for kind in (Arg, Dim, Index, Judged, Scalar, Domain):
        missing = {f for f in kind.model_fields if f not in hidden and f"{f}" not in PAGE}
        assert not missing, kind.__name__
