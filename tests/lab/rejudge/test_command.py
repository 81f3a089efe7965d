"""`python -m lab.rejudge` writes a row for each pair, whatever happens, and continues from a file;
`python -m lab.rejudge.page` makes the page's tables of rows."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import pytest

from astra_chat.tools.sandbox.isolation import ENOUGH, isolation
from astra_chat.tools.walled.processes import NOT_FINISHED, Judging
from astra_vgpu.ground.errors import BadInput
from lab.rejudge.__main__ import Rows, chosen, judged, options
from lab.rejudge.page import MISSING, PROBLEMS, tables, written
from lab.rejudge.published import PublishedPair
from lab.rejudge.table import LAST, NOT_JUDGED, row
from tests.lab.rejudge.candidates import PROBLEM

HOW = Judging("cpu", "7", timing=False, timeout_s=3.0)
PAIR = PublishedPair("one", PROBLEM, "import time\ntime.sleep(1e6)\n", {"eager": 2.0})


@pytest.mark.skipif(isolation() not in ENOUGH, reason="nothing isolates here")
def test_a_candidate_without_end_has_a_row() -> None:
    found = judged(PAIR, HOW, time.monotonic() + 1e6)
    assert found["outcome"] == NOT_JUDGED and not found["final"]
    assert found["reason"].endswith("not finished in 3 s"), found["reason"]


def test_what_was_not_begun_has_a_row() -> None:
    found = judged(PAIR, HOW, time.monotonic())
    assert found["outcome"] == NOT_JUDGED and "there was no time left for it" in found["reason"]


def test_a_file_of_rows_grows_and_is_continued(tmp_path: Path) -> None:
    rows = Rows(tmp_path / "rows", HOW, "cuda-l1")
    rows.add({**row(PAIR, {"problem": "no memory"}, HOW), "final": False})
    assert Rows(tmp_path / "rows", HOW, "cuda-l1").judged == set()
    good = {**row(PAIR, {"times_us": {"candidate": 2.0, "eager": 3.0}}, HOW), "final": False}
    rows.add(good)
    late = {"unfinished": f"{LAST[0]}: {NOT_FINISHED} 9 s", "grades": {"set": "right"}}
    kept = row(PAIR, {**late, "times_us": {"candidate": 2.0, "eager graph": 3.0}}, HOW)
    assert kept["outcome"] == "correct" and kept["notes"] and not kept["times_faster"]
    again = Rows(tmp_path / "rows", HOW, "cuda-l1")
    assert again.judged == {("one", good["candidate"])} and len(again.rows) == 1
    made = tables(again.rows)
    assert "| one | 1.50 |  |  |  | eager 2 |" in made and f"81 {MISSING}" in made
    (tmp_path / "bad.jsonl").write_text("{}\n")
    with pytest.raises(BadInput, match="no rows of this command"):
        Rows(tmp_path / "bad", HOW, "cuda-l1")


def test_parts_hold_each_pair_once(tmp_path: Path) -> None:
    lines = [
        {"level_id": 1, "task_id": n, "ref_code": "p", "custom_code": f"class ModelNew: {n}"}
        for n in range(7)
    ]
    file = tmp_path / "h100.json"
    file.write_text("\n".join(map(json.dumps, lines)))

    def asked(*words: str) -> argparse.Namespace:
        return options().parse_args([str(file), *words])

    parts = [chosen(asked("--part", f"{k}/3"), "1") for k in (1, 2, 3)]
    assert sorted(one.name for part in parts for one in part) == [f"h100-1-{n}" for n in range(7)]
    for words in (("--part", "4/3"), ("--part", "1/2", "--draw", "2")):
        with pytest.raises(BadInput, match="--part"):
            chosen(asked(*words), "1")


def test_the_page_says_what_is_missing() -> None:
    made = tables([{"name": "kb_1_21", "file": "level1/21_Sigmoid.py", "comes": True, "new_s": 3}])
    lacking = [one.replace("_", ", ") for one in PROBLEMS if one != "1_21"]
    assert "| 1, 21 | yes, 3 s |" in made and f"(level, number): {'; '.join(lacking)}" in made
    page = "a\n<!-- python -m lab.rejudge.page -->\nold\n<!-- end -->\nb\n"
    assert written(page, "new").count("new") == 1 and "old" not in written(page, "new")
    with pytest.raises(BadInput, match="marks"):
        written("a", "new")
    with pytest.raises(BadInput, match="a row is none"):
        tables([{"set": "cuda-l1"}])
