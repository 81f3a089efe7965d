"""The text of a file or of stdin, bounded."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.cli.kernel_text import text_of
from astra_vgpu.ground.errors import BadInput


def test_a_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text("0123456789")
    assert text_of(tmp_path / "a.cu") == "0123456789"
    assert text_of(tmp_path / "a.cu", 4) == "0123"
    assert len(text_of(Path("/dev/zero"), 1000)) == 1000


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff")
    with pytest.raises(BadInput, match="it is not text"):
        text_of(tmp_path / "bytes")
    with pytest.raises(BadInput, match="cannot read"):
        text_of(tmp_path / "nowhere")
