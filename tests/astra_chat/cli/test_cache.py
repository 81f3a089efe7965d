"""`astra-chat cache`: what there is, and clearing it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from astra_chat.cli.main import app
from astra_vgpu.ground.cache import cache_folder


@pytest.fixture
def entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASTRA_CACHE", str(tmp_path))
    monkeypatch.setenv("ASTRA_CACHE_LIMIT", "1G")
    folder = cache_folder("builds") / "entry"
    folder.mkdir()
    (folder / "kernel.so").write_bytes(bytes(3 * 2**20))
    return folder


def cache(*words: str) -> str:
    result = CliRunner().invoke(app, ["cache", *words], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_info_tells_size_and_limit(entry: Path) -> None:
    text = cache("info")
    assert f"{entry.parents[1]}: limit 1.0 GiB" in text
    assert text.count("1 entries") == 2 and "3.0 MiB" in text


def test_info_as_json(entry: Path) -> None:
    document = json.loads(cache("info", "--json"))
    assert document["schema"] == "astra-chat/cache/1" and document["limit_bytes"] == 2**30
    assert document["kinds"] == {"builds": {"entries": 1, "size_bytes": 3 * 2**20, "in_use": 0}}


def test_clear_keeps_what_it_is_told_to(entry: Path) -> None:
    assert json.loads(cache("clear", "--to", "10M", "--json"))["removed_entries"] == 0
    assert entry.exists()
    assert cache("clear") == "removed 1 entries, 3.0 MiB; 0 B left\n" and not entry.exists()
