"""The command: what is wrong with its arguments it says in one line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lab.baselines.__main__ import main
from tests.recorded_files import BASELINES, EXAMPLES

ROOT = Path(__file__).resolve().parents[3]


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["baselines", *words])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_it_shows_what_was_recorded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [str(EXAMPLES / name) for name in BASELINES]
    assert run(monkeypatch, "show", *paths) == 0
    document = (ROOT / "docs/research/baselines.md").read_text()
    assert capsys.readouterr().out.strip() == document.strip()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show", "{tmp}/none.json"], "none.json: No such file"),
        (["extract", "{tmp}/none.so", "-o", "{tmp}/out"], "does not exist"),
        (["measure", "-o", "{tmp}/a.json", "--flashinfer", "{tmp}/none"], "does not exist"),
        (["measure", "-o", "{tmp}/a.json", "--device", "virtual"], "--device cuda"),
    ],
)
def test_bad_arguments_end_it_with_2(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    words: list[str],
    said: str,
) -> None:
    assert run(monkeypatch, *(word.format(tmp=tmp_path) for word in words)) == 2
    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error
