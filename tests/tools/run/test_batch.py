"""How long the calls of a process may take."""

from __future__ import annotations

from pathlib import Path

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.run.batch import (
    CALL_TIMEOUT_S,
    PATIENCE,
    RUN_TIMEOUT_S,
    SHORT_CALL_TIMEOUT_S,
    Batch,
)

BUILD = Build(Path("build"), {}, cached=False, seconds=0.0)


def test_calls_that_are_together_share_a_limit() -> None:
    batch = Batch(BUILD, [], "check", "virtual")
    assert batch.limit_s == PATIENCE["virtual"] * RUN_TIMEOUT_S["check"]
    assert batch.limit_after_s(0) == batch.limit_s


def test_a_short_call_that_is_apart_gets_little_time() -> None:
    batch = Batch(BUILD, [], "check", "virtual", apart=True, short=[True, False])
    assert batch.limit_s == CALL_TIMEOUT_S
    found = [batch.limit_after_s(done) for done in range(3)]
    assert found == [SHORT_CALL_TIMEOUT_S, CALL_TIMEOUT_S, CALL_TIMEOUT_S]


def test_calls_whose_results_stay_there_have_no_folder(tmp_path: Path) -> None:
    kept, there = (
        Batch(BUILD, [], "check", "cuda", compared_there=stays) for stays in (False, True)
    )
    assert kept.folder(tmp_path, 0).is_dir() and not there.folder(tmp_path, 1).exists()
