"""Where a run came from, without importing what it names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pynvml
import pytest

from astra_chat.session import provenance
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import sha256_of
from astra_vgpu.ground.errors import MissingDependency
from tests.chat_samples import DEVICE, header


def test_the_header_holds_what_a_stranger_needs(task: Task) -> None:
    head = provenance.header(task, DEVICE, header().options)
    assert head.task.files["task.toml"] == sha256_of((task.folder / "task.toml").read_text())
    assert {"baseline.cu", "reference.py", "script/vector.cu"} <= set(head.task.files)
    assert {"astra", "python", "autogen-agentchat", "torch", "nvcc"} <= set(head.versions)
    assert head.task.id == task.id and head.started.endswith("+00:00")
    assert str(task.folder) not in head.model_dump_json(), "no path of this machine"


@pytest.mark.second_tier
def test_torch_is_named_but_not_imported() -> None:
    code = (
        "import sys; from astra_chat.session import provenance\n"
        "from tests.chat_samples import DEVICE\n"
        "assert 'torch' in provenance.versions(DEVICE); assert 'torch' not in sys.modules"
    )
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True)


def test_the_checkout_is_named_by_its_commit() -> None:
    state = provenance.git_state()
    if not (Path(__file__).parents[3] / ".git").exists():
        assert state is None, "an unpacked archive"
    else:
        assert state is not None and len(state.commit) == 40


def test_without_a_driver_a_recording_plays_and_nothing_else_does(
    task: Task, monkeypatch: Any
) -> None:
    def lacking() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", lacking)
    real = DEVICE.model_copy(update={"kind": "cuda"})
    options = header().options
    assert provenance.header(task, real, options, judged_with={}).versions == {}
    with pytest.raises(MissingDependency, match=r"does not report its version.*--device virtual"):
        provenance.header(task, real, options)


def test_status_writes_nothing_into_the_repository(tmp_path: Path) -> None:
    """Else a kill in between leaves a lock there, and the user's next commit fails."""
    named = ("-c", "user.name=a", "-c", "user.email=a@b")
    for words in (("init", "-q"), ("add", "-A"), (*named, "commit", "-qm", "first")):
        (tmp_path / "file").write_text("as it was")
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    index = tmp_path / ".git" / "index"
    before = index.read_bytes()
    os.utime(tmp_path / "file", (1, 1))  # status looks into it again, and notes what it saw
    assert provenance._git(tmp_path, "status", "--porcelain") == ""
    assert index.read_bytes() == before
    subprocess.run(["git", "-C", str(tmp_path), "status", "--porcelain"], check=True)
    assert index.read_bytes() != before, "or this test shows nothing"
