"""A launch begins on NumPy and continues in C as soon as the compiler is done."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numpy as np
import pytest

from astra_vgpu.gpu import VirtualGpu
from astra_vgpu.ground.gpu_specs import spec
from astra_vgpu.launch import background_compile, engines
from astra_vgpu.runtime.calls import device_array

N = 500_000


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Notes which engine runs; every kernel counts as large and worth the compiler."""
    calls: list[str] = []

    def note(name: str, run: Any) -> Any:
        def noted(*arguments: Any, **options: Any) -> Any:
            calls.append(name)
            return run(*arguments, **options)

        return noted

    for name in ("numpy_engine", "c_engine"):
        module = getattr(engines, name)
        monkeypatch.setattr(module, "run", note(name, module.run))
    monkeypatch.setattr(engines, "C_WORTH_INSTRUCTIONS", N)
    monkeypatch.setattr(engines, "C_LARGEST_KERNEL", 1)
    return calls


def scaled(calls: Any, compiled: Any = None) -> Any:
    gpu = VirtualGpu(spec("h200"), compiled=compiled)
    library = gpu.load(calls.library, calls.ptx, calls.resources)
    arrays = [device_array(4 * N).view(np.float32) for _ in range(2)]
    arrays[0][:] = np.arange(N)
    source, out = (ctypes.c_void_p(gpu.register(a, n)) for a, n in zip(arrays, "io", strict=True))
    library.set_factor(ctypes.c_float(3))
    assert library.run_chevron(out, source, N, None) == 0
    (report,) = gpu.reports()
    np.testing.assert_array_equal(arrays[1], np.arange(N, dtype=np.float32) * 3)
    assert not report.sampled and report.counters.global_store_bytes == 4 * N
    return report


def test_c_takes_over_when_it_is_ready(
    calls: Any, ran: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_compile, "PART_LANES", 4096)
    prepare, begun = engines.Engines._program, threading.Event()

    def slowly(self: Any, *arguments: Any) -> Any:
        begun.wait(60)
        return prepare(self, *arguments)

    monkeypatch.setattr(engines.Engines, "_program", slowly)

    class NvidiaToolRun(background_compile.Compiling):
        """Lets NumPy run two parts, then waits for the compiler."""

        _looks = 0

        @property
        def program(self) -> Any:
            self._looks += 1
            if self._looks == 3:
                begun.set()
                self.wait(60)
            return self._ready

        @program.setter
        def program(self, value: Any) -> None:
            self._ready = value

    monkeypatch.setattr(engines, "Compiling", NvidiaToolRun)
    scaled(calls)
    assert ran == ["numpy_engine"] * 3 + ["c_engine"]


def test_a_launch_that_is_done_first_does_not_wait(
    calls: Any, ran: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    never = threading.Event()
    monkeypatch.setattr(engines.Engines, "_program", lambda *_: never.wait(60) and None)
    scaled(calls)
    assert set(ran) == {"numpy_engine"} and len(ran) > 1
    never.set()


def test_where_nothing_may_be_compiled_numpy_runs_all(calls: Any, ran: list[str]) -> None:
    scaled(calls, compiled={})
    assert set(ran) == {"numpy_engine"}
