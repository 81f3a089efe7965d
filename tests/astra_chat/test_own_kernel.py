"""docs/own-kernel.md, run: every command of it, in order, in an empty folder. Sizes and the number
of seeded bugs are smaller than on the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from astra_chat.tools.new.unfinished import marks
from astra_chat.tools.task.folder import load_task
from astra_chat.transcript.reader import read
from tests.sources import IMPORT_PATH

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "own-kernel.md"
PAGE = DOCUMENT.read_text()
BLOCKS = re.findall(r"^```(bash|python)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
SCRIPT = '#!/bin/sh\n{before}exec "{python}" {more} "$@"\n'
FEWER_BUGS = """case "$*" in
*--mutants*) ;;
"tasks check my_rms"*) set -- "$@" --mutants 3 ;;
"tasks check"* | optimize*) set -- "$@" --mutants 0 ;;
esac
"""
SMALLER = {
    "max = 16384": "max = 64",
    "max = 8192": "max = 2056",
    "tokens = 2048, hidden = 4096": "tokens = 32, hidden = 4096",
    "hidden = 4096": "hidden = 2048",
    'device="virtual", rounds=1': 'device="virtual", rounds=1, mutants=0',
}
"""What the page says of rms_norm, and what takes a fraction of the time."""


pytestmark = pytest.mark.second_tier


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[str]]]:
    """The folder after all blocks ran, and what each printed."""
    folder, tools = tmp_path_factory.mktemp("own"), tmp_path_factory.mktemp("bin")
    for name, more in (("astra-chat", "-m astra_chat"), ("python", "")):
        before = FEWER_BUGS if more else ""
        script = SCRIPT.format(before=before, python=sys.executable, more=more)
        (tools / name).write_text(script)
        (tools / name).chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": IMPORT_PATH,
    }
    shells = {"bash": ["bash", "-e", "-c"], "python": [sys.executable, "-c"]}
    said = []
    for language, text in BLOCKS:
        for large, small in SMALLER.items():
            text = text.replace(large, small)
        done = subprocess.run(
            [*shells[language], text],
            cwd=folder,
            env=environment,
            check=False,
            capture_output=True,
            text=True,
            timeout=1800,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        said.append(done.stdout + done.stderr)
    yield folder, said


def test_what_is_made_smaller_is_on_the_page() -> None:
    assert [words for words in SMALLER if words not in PAGE] == []


def test_new_leaves_places_that_the_check_names(walked: tuple[Path, list[str]]) -> None:
    _, said = walked
    made, refused = said[1], said[2]
    assert 'from the extern "C" launcher rms_norm' in made
    assert "exit code 2: not complete yet" in refused and "is not complete" in refused
    assert all(line.strip() in refused for line in made.splitlines() if line.startswith("  "))


def test_the_completed_task_is_fit(walked: tuple[Path, list[str]]) -> None:
    folder, said = walked
    assert marks(folder / "my_rms") == []
    assert "baseline: correct on 6 of 6 check cases" in said[4] and "fit for judging" in said[4]
    assert "not fit" not in said[4]


def test_the_candidate_is_judged(walked: tuple[Path, list[str]]) -> None:
    assert walked[1][5].startswith("correct on ")


def test_run_from_python_takes_the_folder(walked: tuple[Path, list[str]]) -> None:
    folder, said = walked
    records = read(folder / "run" / "transcript.jsonl").records
    (printed,) = (s for (_, text), s in zip(BLOCKS, said, strict=True) if "import run" in text)
    assert records[-1].event.kind == "ended" and "run/transcript.jsonl" in printed
    assert (folder / "run" / "best.cu").read_text() == (folder / "faster.cu").read_text()


def test_a_kernel_of_a_server_is_read_and_fit(walked: tuple[Path, list[str]]) -> None:
    """int64 positions, strided query and key of different head counts, in place."""
    folder, said = walked
    made, checked = (s for (_, text), s in zip(BLOCKS, said, strict=True) if "rope" in text)
    assert "rotary_embedding of the torch extension" in made
    places = [line for line in made.splitlines() if line.startswith("  rope/task.toml")]
    assert places and not [place for place in places if "shape" in place]
    args = {arg.name: arg for arg in load_task(folder / "rope").args}
    assert args["positions"].dtype == "int64" and args["positions"].index is not None
    assert args["query"].stride_names == ("query_stride",)
    assert {args[name].access for name in ("query", "key")} == {"readwrite"}
    assert "fit for judging" in checked and "not fit" not in checked


def test_of_a_captured_operator_little_is_left(walked: tuple[Path, list[str]]) -> None:
    """Shapes, the result that it makes, cases and ranges are known: summary, flops and how large
    results are, are not."""
    folder, said = walked
    made, checked = (s for (_, text), s in zip(BLOCKS, said, strict=True) if " gate" in text)
    places = [line for line in made.splitlines() if line.startswith("  gate/")]
    lines = [place.split(":")[0] for place in places[:2]]
    assert lines == ["  gate/task.toml, line 5", "  gate/task.toml, line 9"]
    assert len(places) == 3 and "atol" in places[2]
    task = load_task(folder / "gate")
    assert task.binding is not None and task.binding.returns == ("out",)
    assert [(case.dims["tokens"], weight) for case, weight in task.bench] == [(1, 30), (24, 10)]
    assert "fit for judging" in checked and "not fit" not in checked
