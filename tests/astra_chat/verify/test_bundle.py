"""Reading a bundle: what is none, what is too large, and members of one name."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from astra_chat.verify.bundle import MANIFEST, is_bundle, read_bundle
from astra_vgpu.ground.errors import BadInput


def zip_of(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("_json", ".json"), content)
    return path


@pytest.mark.parametrize(
    ("members", "said"),
    [({"a": b""}, f"no {MANIFEST}"), ({"manifest_json": b"{}"}, "run: Field required")],
)
def test_what_is_no_bundle_is_one_line(
    members: dict[str, bytes], said: str, tmp_path: Path
) -> None:
    path = zip_of(tmp_path / "b.zip", **members)
    assert is_bundle(path)
    with pytest.raises(BadInput, match=said):
        read_bundle(path)


def test_a_broken_zip_and_a_pipe_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "b.zip").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(BadInput, match="is no bundle"):
        read_bundle(tmp_path / "b.zip")
    os.mkfifo(tmp_path / "pipe")
    assert not is_bundle(tmp_path / "pipe") and not is_bundle(tmp_path / "none")
