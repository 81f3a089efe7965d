"""`new_task` writes one folder, never over another, and says as text what it cannot take."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.tools.new.create import draft_of, new_task
from astra_vgpu.ground.errors import BadInput
from tests.tools.new.samples import KERNELS, launcher

TWO = launcher("float* y, int n") + 'extern "C" void other(float* y, int n) {}\n'


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_task_may_have_a_keyword_s_name() -> None:
    text = 'extern "C" void f(float* x, int n, cudaStream_t stream) {}'
    assert [draft_of(text, name, None).entry for name in ("long", "longer")] == [
        "long_launcher",
        "longer",
    ]


def test_it_never_overwrites() -> None:
    folder, origin, _ = new_task("mine", [KERNELS / "silu_launcher.cu"])
    assert sorted(p.name for p in folder.iterdir()) == ["baseline.cu", "reference.py", "task.toml"]
    assert "silu" in origin
    (folder / "reference.py").write_text("my work")
    with pytest.raises(BadInput, match="mine already exists"):
        new_task("mine", [KERNELS / "silu_launcher.cu"])
    assert (folder / "reference.py").read_text() == "my work"


def test_a_name_that_the_file_uses_is_left_to_it() -> None:
    source = (KERNELS / "silu_launcher.cu").read_text()
    assert draft_of(source, "silu", None).entry == "silu_launcher"
    assert draft_of(source, "mine", None).entry == "mine"


def test_one_of_several_is_chosen() -> None:
    assert draft_of(TWO, "mine", "other").origin.endswith("other")
    with pytest.raises(BadInput, match="go, other: choose one with --op"):
        draft_of(TWO, "mine", None)
    with pytest.raises(BadInput, match="no function 'x'"):
        draft_of(TWO, "mine", "x")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("__global__ void k(int n) {}", "no launcher for k"),
        ("int main() { return 0; }", "no CUDA kernel"),
        ("", "no CUDA kernel"),
    ],
)
def test_what_is_no_kernel_file_is_refused(source: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        draft_of(source, "mine", None)


def test_names_and_files_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="'My Task' is not a valid task name"):
        new_task("My Task", [KERNELS / "silu_launcher.cu"])
    with pytest.raises(BadInput, match="cannot read"):
        new_task("mine", [tmp_path / "absent.cu"])
    (tmp_path / "binary.cu").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match="not text"):
        new_task("mine", [tmp_path / "binary.cu"])


def test_files_beside_it_come_along(tmp_path: Path) -> None:
    beside = tmp_path / "theirs"
    beside.mkdir()
    (beside / "common.cuh").write_text('#pragma once\n#include "deep.h"\n')
    (beside / "deep.h").write_text('#pragma once\n#include "common.cuh"\n')
    (beside / "unused.h").write_text("")
    (beside / "kernel.cu").write_text(f'#include "common.cuh"\n{launcher("float* y, int n")}')
    folder, _, _ = new_task("doubled", [beside / "kernel.cu"])
    headers = folder / "project"
    assert (headers / "deep.h").read_text() == (beside / "deep.h").read_text()
    named = 'headers = ["project/common.cuh", "project/deep.h"]'
    assert named in (folder / "task.toml").read_text()
    assert not (headers / "unused.h").exists()
