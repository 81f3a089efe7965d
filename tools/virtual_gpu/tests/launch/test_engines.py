"""Which engine a launch gets, and that the choice does not show in the results."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from astra_vgpu.gpu import VirtualGpu
from astra_vgpu.ground.gpu_specs import spec
from astra_vgpu.ground.toolkit import Toolkit
from astra_vgpu.launch import engines
from astra_vgpu.launch.engines import c_sources, compile_kernels
from astra_vgpu.runtime.calls import device_array
from astra_vgpu.types import LaunchReport

N = 500_000


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Notes which engine runs; the engines themselves are the real ones."""
    calls: list[str] = []
    for name in ("numpy_engine", "c_engine"):
        module = getattr(engines, name)
        monkeypatch.setattr(module, "run", _noting(name, module.run, calls))
    return calls


def _noting(name: str, run: Callable[..., Any], calls: list[str]) -> Callable[..., Any]:
    def noted(*arguments: Any, **options: Any) -> Any:
        calls.append(name)
        return run(*arguments, **options)

    return noted


def scaled(calls: Any, **options: Any) -> tuple[Any, LaunchReport, VirtualGpu]:
    """out = 3 * in of N floats, and the report."""
    gpu = VirtualGpu(spec("h200"), **options)
    library = gpu.load(calls.library, calls.ptx, calls.resources)
    arrays = [device_array(4 * N).view(np.float32) for _ in range(2)]
    arrays[0][:] = np.arange(N)
    source, out = (ctypes.c_void_p(gpu.register(a, n)) for a, n in zip(arrays, "io", strict=True))
    library.set_factor(ctypes.c_float(3))
    assert library.run_chevron(out, source, N, None) == 0
    (report,) = gpu.reports()
    return arrays[1], report, gpu


def test_small_launches_stay_on_numpy(calls: Any, ran: list[str]) -> None:
    out, report, _ = scaled(calls)
    assert set(ran) == {"numpy_engine"}
    np.testing.assert_array_equal(out, np.arange(N, dtype=np.float32) * 3)
    assert not report.sampled


def test_large_launches_go_on_in_c(
    calls: Any, ran: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "C_WORTH_INSTRUCTIONS", N)
    out, report, _ = scaled(calls)
    assert ran == ["numpy_engine", "c_engine"]
    np.testing.assert_array_equal(out, np.arange(N, dtype=np.float32) * 3)
    assert not report.sampled and report.counters.global_store_bytes == 4 * N


def test_a_small_kernel_of_a_program_goes_on_in_c_sooner(calls: Any, ran: list[str]) -> None:
    """Half a million threads of some 16 instructions: NumPy takes as long as the compiler."""
    _, report, _ = scaled(calls, adds_up=True)
    assert ran == ["numpy_engine", "c_engine"]
    assert 4_000_000 < report.counters.lane_instructions < 50_000_000


@pytest.mark.parametrize("adds_up", [True, False])
def test_a_kernel_of_many_launches_moves_to_c(
    calls: Any, ran: list[str], monkeypatch: pytest.MonkeyPatch, adds_up: bool
) -> None:
    """64 threads cost NumPy as much as 8192: two launches of some 20 instructions are 400,000."""
    monkeypatch.setattr(engines, "C_WORTH_INSTRUCTIONS", 200_000)
    gpu = VirtualGpu(spec("h200"), adds_up=adds_up)
    library = gpu.load(calls.library, calls.ptx, calls.resources)
    data = device_array(256).view(np.float32)
    data[:] = 1
    at = ctypes.c_void_p(gpu.register(data, "data"))
    library.set_factor(ctypes.c_float(3))
    for _ in range(4):
        assert library.run_chevron(at, at, 64, None) == 0
    assert ran == ["numpy_engine"] * 2 + (["c_engine"] if adds_up else ["numpy_engine"]) * 2
    assert (data == 81).all() and len({r.counters.lane_instructions for r in gpu.reports()}) == 1


def test_the_c_engine_affords_a_larger_sample(calls: Any, ran: list[str]) -> None:
    few = scaled(calls, engine="numpy", sample_instructions=N)[1]
    many = scaled(calls, engine="c", sample_instructions=N)[1]
    assert ran == ["numpy_engine"] * 2 + ["c_engine"] * 2
    assert few.sampled and many.blocks_run > 5 * few.blocks_run


def test_both_engines_report_the_same(calls: Any) -> None:
    a = scaled(calls, engine="numpy", sample_instructions=None)
    b = scaled(calls, engine="c", sample_instructions=None)
    np.testing.assert_array_equal(a[0], b[0])
    assert a[1].counters == b[1].counters


def test_without_a_compiler_what_was_compiled_elsewhere_runs(calls: Any, ran: list[str]) -> None:
    libraries = compile_kernels(calls.ptx, "auto")
    assert all(isinstance(path, Path) and path.is_file() for path in libraries.values())
    scaled(calls, engine="c", compiled=libraries)
    assert set(ran) == {"c_engine"}


@pytest.mark.second_tier
def test_a_kernel_that_waits_for_its_grid_is_compiled_for_both_kinds_of_launch(
    toolkit: Toolkit, tmp_path: Path
) -> None:
    source = Path(__file__).parents[1] / "numpy_engine" / "data" / "grid.cu"
    ptx = tmp_path / "grid.ptx"
    command = [str(toolkit.nvcc), "-arch=compute_90", "-std=c++17", "-ptx", "-o", str(ptx)]
    subprocess.run([*command, str(source)], check=True)
    kernels = [kernel for kernel in c_sources(ptx, "auto") if not kernel.endswith(" cooperative")]
    assert kernels, "there are some"
    sources = c_sources(ptx, "auto")
    assert sorted(sources) == sorted([*kernels, *(f"{name} cooperative" for name in kernels)])
    assert all(sources[f"{name} cooperative"] != sources[name] for name in kernels)


def test_what_was_not_compiled_runs_on_numpy_and_says_so(calls: Any, ran: list[str]) -> None:
    out, _, gpu = scaled(calls, engine="c", compiled={})
    assert set(ran) == {"numpy_engine"}
    assert list(gpu.notes.values()) == ["it was not compiled for the C engine"]
    np.testing.assert_array_equal(out, np.arange(N, dtype=np.float32) * 3)


def test_what_is_compiled_already_runs_in_c_from_fewer_instructions_on(
    calls: Any, ran: list[str]
) -> None:
    """A launch whose cost is known begins in C; where counters are wanted, NumPy is as before."""
    compiled = compile_kernels(Path(calls.ptx), "auto")
    for counters, expected in ((False, ["numpy_engine", *["c_engine"] * 3]), (True, [])):
        ran.clear()
        gpu = VirtualGpu(spec("h200"), engine="auto", compiled=compiled, counters=counters)
        library = gpu.load(calls.library, calls.ptx, calls.resources)
        data = device_array(4 * N).view(np.float32)
        data[:] = 1
        at = ctypes.c_void_p(gpu.register(data, "data"))
        library.set_factor(ctypes.c_float(3))
        for _ in range(2):
            assert library.run_chevron(at, at, N, None) == 0
        assert (data == 9).all()
        assert ran == expected or (counters and set(ran) == {"numpy_engine"})
