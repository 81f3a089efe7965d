"""What is no winner is left out with one line for all."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from astra_chat.package.winners import winners
from astra_chat.tools.recordings.archive import packed
from astra_vgpu.ground.errors import BadInput


def test_other_documents_are_left_out_with_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = tmp_path / "recorded.tar.xz"
    archive.write_bytes(packed({f"live/{n}.json": b'{"schema": "other"}' for n in range(3)}, {}))
    with ExitStack() as stack, pytest.raises(BadInput, match="none of these runs has a winner"):
        winners([archive], stack)
    (line,) = capsys.readouterr().err.splitlines()
    assert f"left out: 3 files, such as {archive}/live/0.json: not evaluations" in line
    with ExitStack() as stack, pytest.raises(BadInput):
        winners([archive / "live" / "1.json"], stack)
    assert "left out: " + str(archive / "live" / "1.json") + ": not an" in capsys.readouterr().err
