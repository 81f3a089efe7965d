"""The plugin's own files, as far as they need neither an engine nor a GPU: counts that a killed
process leaves, and the rows on which a winner is faster."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from astra_chat.package.folder import INSIDE

KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from astra_winners import counting
for turn in range(1003):
    counting.COUNTERS.add("rmsnorm", counting.TOOK)
    counting.COUNTERS.add("rmsnorm", counting.FELL_BACK, f"rows lie\\tapart {turn % 3}\\n")
for turn in range(300):
    counting.COUNTERS.add("topk", counting.FELL_BACK, f"shape [{turn}]")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The package astra_winners, of which two files can be imported as they are."""
    monkeypatch.syspath_prepend(str(INSIDE.parent))
    from astra_winners import counting, rows

    yield counting, rows
    for name in [name for name in sys.modules if name.startswith("astra_winners")]:
        del sys.modules[name]


def test_counts_outlive_a_process_that_is_killed(inside: Any, tmp_path: Path) -> None:
    counting, _ = inside
    name = tmp_path / "counts"
    for _ in range(2):
        subprocess.run(
            [sys.executable, "-c", KILLED, str(INSIDE.parent)],
            env={"ASTRA_WINNERS_COUNTERS": str(name)},
            check=False,
        )
    files = sorted(tmp_path.glob("counts.*"))
    found = counting.read(files)
    assert len(files) == 2 and found["rmsnorm", "took", ""] == 2006
    assert found["rmsnorm", "fell back", "rows lie apart 0"] == 670
    assert len(found) < 110 and sum(n for (op, *_), n in found.items() if op == "topk") == 600
    first, second, *_ = counting.lines(found)
    assert first.split() == ["rmsnorm", "took", "2006"] and "fell back" in second


def test_a_server_goes_on_without_its_counters(inside: Any, tmp_path: Path) -> None:
    counting, _ = inside
    counts = counting.Counters(str(tmp_path / "none" / "counts"))
    counts.add("rmsnorm", "took")
    counts.add("rmsnorm", "took")
    assert counts.totals() == {("rmsnorm", "took", ""): 2}


class Shaped:
    """All that is asked of a tensor."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape


def test_the_nearest_timed_case_decides(inside: Any) -> None:
    """topk_softmax: a loss at two experts a token of eight, gains at 128 experts."""
    _, rows = inside
    dims = [["tokens", 0, 0, []], ["topk", 0, 1, []], ["experts", 1, 1, []]]
    timed = [
        {
            "label": name,
            "dtype": "bfloat16",
            "low": low,
            "dims": dict(zip(("tokens", "topk", "experts"), d, strict=True)),
        }
        for name, low, d in (("16x2x8", 0.87, (16, 2, 8)), ("16x8x128", 1.8, (16, 8, 128)))
    ]
    table = rows.Rows(timed, dims)
    assert table.slower((Shaped(8, 2), Shaped(8, 8)), "bfloat16") == (
        "not faster on the nearest timed case, 16x2x8"
    )
    assert table.slower((Shaped(1, 8), Shaped(1, 128)), "bfloat16") == ""
    assert "no case of float16 was timed" in table.slower((Shaped(1, 8), Shaped(1, 128)), "float16")


def test_a_dim_is_divided_out_of_an_extent(inside: Any) -> None:
    _, rows = inside
    dims = [["tokens", 0, 0, []], ["d", 1, 1, [2]], ["blocks", 2, None, []]]
    timed = [{"label": "far", "dtype": "", "low": 1.5, "dims": {"tokens": 5, "d": 64, "blocks": 3}}]
    arguments = (Shaped(5), Shaped(5, 128), 3)
    assert rows.dims_of(arguments, dims) == {"tokens": 5, "d": 64, "blocks": 3}
    assert rows.Rows(timed, dims).slower(arguments, "float16") == ""


@pytest.mark.parametrize("low", [None, 1.5, 0.9])
def test_a_call_of_a_step_that_loses_is_left_to_the_original(
    inside: Any, low: float | None
) -> None:
    """fused_add_rmsnorm: a loss in the steps of a wide model, unless many requests share them."""
    _, rows = inside
    dims = [["tokens", 0, 0, []], ["hidden", 0, 1, []]]
    steps = [
        {
            "label": f"dense8 at {tokens} requests",
            "dtype": "bfloat16",
            "low": gain,
            "dims": {"tokens": tokens, "hidden": hidden},
        }
        for tokens, hidden, gain in ((1, 4096, 0.99), (64, 4096, 1.01), (1, 2048, 1.01))
    ]
    timed = [{"label": "far", "dtype": "", "low": low, "dims": {"tokens": 5, "hidden": 64}}]
    table = rows.Rows([] if low is None else timed, dims, steps)
    loses = "it is slower in the nearest measured step, dense8 at 1 requests"
    assert table.slower((Shaped(2, 4096),), "bfloat16") == loses
    assert table.slower((Shaped(1, 8192),), "bfloat16") == loses
    slow = "not faster on the nearest timed case, far" if low == 0.9 else ""
    for shape in ((64, 4096), (8192, 4096), (1, 2048), (8, 1024)):
        assert table.slower((Shaped(*shape),), "bfloat16") == slow
