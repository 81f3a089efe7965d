"""The C engine's libraries, made behind walls: too much ends in a limit, not in the judge."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.tools.build import virtual_gpu_kernels
from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.build.virtual_gpu_kernels import compile_walled
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.system.subprocesses import Cancelled, Stop
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.virtual_gpu.adapter import Engine
from astra_vgpu.ground.errors import MissingDependency

TASK = find_task("silu_and_mul")


@pytest.fixture(scope="module")
def ptx() -> Path:
    built = build(TASK, TASK.baseline, virtual_device("h200"))
    assert isinstance(built, Build)
    return built.ptx


@pytest.fixture
def bomb(ptx: Path, tmp_path: Path) -> Path:
    """A kernel of half a million instructions: PTX is text, and this is what it may look like."""
    text = ptx.read_text()
    end = text.rindex("ret;")
    path = tmp_path / "kernel.ptx"
    path.write_text(text[:end] + "add.u32 %r1, %r1, 1;\n" * 500_000 + text[end:])
    return path


def test_every_kernel_of_a_file_is_compiled(ptx: Path) -> None:
    libraries = compile_walled(ptx, "auto", Stop())
    assert len(libraries) == ptx.read_text().count(".entry")
    assert all(path.is_file() for path in libraries.values())


def test_what_takes_too_long_to_translate_is_left_out(
    bomb: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(virtual_gpu_kernels, "TRANSLATE_TIMEOUT_S", 2.0)
    assert compile_walled(bomb, "auto", Stop()) == {}
    with pytest.raises(MissingDependency, match="--engine numpy"):
        compile_walled(bomb, "c", Stop())


def test_what_takes_too_much_memory_to_translate_is_left_out(
    bomb: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(virtual_gpu_kernels, "TRANSLATE_MEMORY_BYTES", 400 * 2**20)
    assert compile_walled(bomb, "auto", Stop()) == {}


@pytest.mark.parametrize("engine", ["auto", "c"])
def test_a_compiler_past_its_limit_is_stopped(
    engine: Engine, ptx: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = tmp_path / "kernel.ptx"
    changed.write_text(ptx.read_text())
    monkeypatch.setattr(virtual_gpu_kernels, "COMPILE_TIMEOUT_S", 0.0)
    monkeypatch.setenv("ASTRA_CACHE", str(tmp_path / "cache"))
    if engine == "auto":
        assert compile_walled(changed, engine, Stop()) == {}
        return
    with pytest.raises(MissingDependency, match="did not finish within"):
        compile_walled(changed, engine, Stop())


def test_it_can_be_stopped(bomb: Path) -> None:
    stop = Stop()
    stop.set()
    with pytest.raises(Cancelled):
        compile_walled(bomb, "auto", stop)
