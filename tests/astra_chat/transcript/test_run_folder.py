"""The folder of a run: a name of its own, and nothing that lies there is written over."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.transcript.run_folder import new_run, require_no_links, require_room
from astra_vgpu.ground.errors import BadInput


def test_two_runs_of_one_second_do_not_share_a_folder() -> None:
    first, second = new_run("doubled", None), new_run("doubled", None)
    assert first != second and first[0].parent == Path("transcripts")
    assert first[0].name.startswith("doubled-") and first[0].name.endswith(first[1])
    assert new_run("doubled", Path("here"))[0] == Path("here")


@pytest.mark.parametrize("name", ["best.cu", "best"])
def test_nothing_is_overwritten(tmp_path: Path, name: str) -> None:
    require_room(tmp_path)
    (tmp_path / name).write_text("precious")
    with pytest.raises(BadInput, match="not overwritten"):
        require_room(tmp_path)


def test_a_folder_of_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mailbox").mkdir()
    (tmp_path / "log").touch()
    require_room(tmp_path)
    (tmp_path / "notes.txt").write_text("precious")
    with pytest.raises(BadInput, match="contains other files, such as notes"):
        require_room(tmp_path)


@pytest.mark.parametrize("name", ["best.cu", "best", "best/entry.so", ".best.cu.part"])
def test_links_where_a_run_writes(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    require_no_links(tmp_path, "entry")
    (tmp_path / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadInput, match="is a link"):
        require_no_links(tmp_path, "entry")
