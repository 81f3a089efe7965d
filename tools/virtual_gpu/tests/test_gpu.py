"""VirtualGpu with real kernel files: launches, memory, variables, errors, samples."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from astra_vgpu.gpu import VirtualGpu
from astra_vgpu.ground.errors import BadInput
from astra_vgpu.ground.gpu_specs import spec
from astra_vgpu.ground.toolkit import Toolkit
from astra_vgpu.runtime.calls import CallUnsupported, device_array
from astra_vgpu.types import Dim3, Fault, PtxUnsupported

PROGRAMMATIC, CLUSTER = 6, 4


class Loaded:
    """A VirtualGpu with calls.cu on it, and numpy arrays as its memory."""

    def __init__(self, calls: Any, **options: Any) -> None:
        self.gpu = VirtualGpu(spec("h200"), **options)
        self.library = self.gpu.load(calls.library, calls.ptx, calls.resources)

    def array(self, content: Any, dtype: Any, name: str = "a") -> tuple[NDArray[Any], Any]:
        content = np.asarray(content, dtype)
        array = device_array(content.nbytes).view(dtype)
        array[:] = content
        return array, ctypes.c_void_p(self.gpu.register(array, name))


@pytest.fixture
def loaded(calls: Any) -> Loaded:
    return Loaded(calls)


@pytest.mark.parametrize("function", ["run_chevron", "run_classic", "run_ex"])
@pytest.mark.second_tier
def test_each_way_to_launch_gives_the_same_result(loaded: Loaded, function: str) -> None:
    dtype = np.float64 if function == "run_classic" else np.float32
    source, source_address = loaded.array(np.arange(300), dtype)
    out, out_address = loaded.array(np.zeros(300), dtype, "out")
    assert loaded.library.set_factor(ctypes.c_float(3)) == 0
    last = PROGRAMMATIC if function == "run_ex" else None
    assert getattr(loaded.library, function)(out_address, source_address, 300, last) == 0
    np.testing.assert_array_equal(out, source * 3)
    (report,) = loaded.gpu.reports()
    assert report.launch.grid.count == report.blocks_run and not report.sampled
    assert report.counters.global_store_bytes == 300 * out.itemsize


def test_memory_streams_and_events_of_the_host_code(loaded: Loaded) -> None:
    host = (ctypes.c_float * 1000)(*range(1000))
    assert loaded.library.round_trip(host, 1000) == 0
    assert list(host) == [2.0 * i for i in range(1000)]
    assert loaded.gpu.memory.find(ctypes.addressof(host)) is None


def test_variables_keep_their_values_between_launches(loaded: Loaded) -> None:
    """`visits` begins at 7; each launch adds 128."""
    assert loaded.library.visit(3) == 7 + 3 * 128
    loaded.gpu.reset()
    assert loaded.library.visit(1) == 7 + 4 * 128
    address = ctypes.c_uint64()
    assert loaded.library.symbol_bytes(ctypes.byref(address)) == 64
    buffer = loaded.gpu.memory.find(address.value)
    assert buffer is not None and buffer.name == "variable table"


@pytest.mark.parametrize(
    ("dynamic", "opt_in", "error"),
    [(512, 0, 0), (60_000, 0, 1), (60_000, 60_000, 0), (60_001, 60_000, 1), (512, 232_449, 1)],
)
def test_dynamic_shared_memory_needs_opt_in(
    calls: Any, dynamic: int, opt_in: int, error: int
) -> None:
    loaded = Loaded(calls)
    data, address = loaded.array(np.arange(256), np.int32)
    assert loaded.library.reverse(address, 2, 128, dynamic, opt_in) == error
    whole = np.arange(256).reshape(2, 128)
    np.testing.assert_array_equal(data, (whole if error else whole[:, ::-1]).ravel())


LAUNCHES_ON_H200 = [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 701, 1, 0]
CALLS_ON_H200 = {
    12: 1, 13: 1, 14: 1, 15: 400, 16: 400, 17: 101, 18: 2, 19: 1, 20: 21, 21: 1, 22: 1, 23: 13,
    24: 21, 25: 400, 26: 0, 27: 1, 28: 101, 29: 1, 30: 1, 31: 1, 32: 8, 33: 0, 34: 0, 35: 0, 36: 0,
}  # fmt: skip
"""What launch_code and call_code of calls.cu gave there, with CUDA 13.0 and driver 580."""


@pytest.mark.parametrize("way", [0, 1, 2], ids=["chevron", "classic", "extended"])
def test_launch_errors_are_those_of_an_h200(loaded: Loaded, way: int) -> None:
    _, address = loaded.array(np.zeros(256), np.int32)
    codes = []
    for which in range(13):
        codes.append(loaded.library.launch_code(which, way, address))
        assert [loaded.library.last_error(), loaded.library.last_error()] == [codes[-1], 0]
    assert codes == LAUNCHES_ON_H200
    assert loaded.gpu.fault is None and len(loaded.gpu.reports()) == 1


def test_errors_of_other_calls_are_those_of_an_h200(loaded: Loaded) -> None:
    _, address = loaded.array(np.zeros(256), np.int32)
    assert {w: loaded.library.call_code(w, address) for w in CALLS_ON_H200} == CALLS_ON_H200


def test_occupancy_and_attributes_are_those_of_an_h200(loaded: Loaded) -> None:
    """The first kernel's limit on dynamic shared memory is set to 1,000 bytes: an occupancy
    forgives that up to what kernels have without a limit."""
    occupancy = [
        [loaded.library.occupancy(which, 128, dynamic) for dynamic in (0, 10_000, 50_000)]
        for which in range(4)
    ]
    assert occupancy == [[16, 16, 0], [16, 16, 4], [5, 0, 0], [2, 2, 0]]
    numbers = (ctypes.c_int * 4)()
    assert loaded.library.function_attributes(0, numbers) == 0
    assert list(numbers) == [196, 0, 49152, 256]
    assert loaded.library.function_attributes(1, numbers) == 0
    assert list(numbers) == [10, 40960, 8192, 1024]


@pytest.mark.parametrize(("which", "error"), [(0, 700), (1, 716), (2, 719), (3, 700)])
def test_a_fault_breaks_the_context_until_reset(loaded: Loaded, which: int, error: int) -> None:
    _, address = loaded.array(np.zeros(256), np.int32, "data")
    assert loaded.library.broken(which, address) == error
    assert loaded.library.launch_code(12, 0, address) == error
    fault = loaded.gpu.fault
    assert isinstance(fault, Fault) and fault.cuda_error == error
    assert loaded.gpu.reports() == []
    loaded.gpu.reset()
    assert loaded.gpu.fault is None
    assert loaded.library.launch_code(12, 0, address) == 0


def test_a_fault_says_where(loaded: Loaded) -> None:
    _, address = loaded.array(np.zeros(256), np.int32, "data")
    loaded.library.broken(1, address)
    assert "write_misaligned" in str(loaded.gpu.fault) and "calls.cu:" in str(loaded.gpu.fault)


def test_a_cluster_launch_is_unsupported(loaded: Loaded) -> None:
    assert loaded.library.run_ex(None, None, 100, CLUSTER) == 801
    fault = loaded.gpu.fault
    assert isinstance(fault, CallUnsupported) and "cluster" in str(fault)
    assert loaded.library.synchronize() == 0


def test_our_own_exception_is_raised_not_reported(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that breaks must not look like a kernel that does."""

    def broken_engine(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("astra_vgpu.launch.engines.numpy_engine.run", broken_engine)
    _, address = loaded.array(np.zeros(256), np.int32)
    assert loaded.library.launch_code(12, 0, address) == 719
    with pytest.raises(ZeroDivisionError, match="planted"):
        _ = loaded.gpu.fault


def test_a_large_launch_runs_a_stated_sample_and_knows_what_it_wrote(calls: Any) -> None:
    n = 2_000_000
    loaded = Loaded(calls, sample_instructions=n)
    _, source = loaded.array(np.ones(n), np.float32)
    out, address = loaded.array(np.zeros(n), np.float32, "out")
    loaded.library.set_factor(ctypes.c_float(2))
    assert loaded.library.run_chevron(address, source, n, None) == 0
    (report,) = loaded.gpu.reports()
    assert report.launch.grid == Dim3(n // 128) and report.sampled
    written = loaded.gpu.written(address.value).reshape(-1, 4).all(axis=1)
    assert written.sum() == report.blocks_run * 128
    np.testing.assert_array_equal(out, np.where(written, 2, 0))
    assert written[0] and written[-1]


def test_reset_begins_coverage_anew_and_keeps_memory(loaded: Loaded) -> None:
    data, address = loaded.array(np.zeros(256), np.int32)
    assert loaded.library.launch_code(12, 0, address) == 0
    assert loaded.gpu.written(address.value).sum() == 128 * 4
    loaded.gpu.reset()
    assert not loaded.gpu.written(address.value).any()
    assert loaded.gpu.reports() == [] and data[0] == 1


def test_an_unregistered_array_is_out_of_reach(loaded: Loaded) -> None:
    _, address = loaded.array(np.zeros(256), np.int32)
    loaded.gpu.unregister(address.value)
    assert loaded.library.launch_code(12, 0, address) == 700


def test_the_newest_gpu_takes_the_calls(calls: Any) -> None:
    first, second = Loaded(calls), Loaded(calls)
    _, address = second.array(np.zeros(256), np.int32)
    assert first.library.launch_code(12, 0, address) == 0
    assert (len(first.gpu.reports()), len(second.gpu.reports())) == (0, 1)


def _host_library(folder: Path, toolkit: Toolkit, code: str, *links: str) -> Path:
    (folder / "host.cpp").write_text(code)
    library = folder / "host.so"
    command = [str(toolkit.cxx), "-shared", "-fPIC", "-o", str(library), str(folder / "host.cpp")]
    subprocess.run([*command, *links], check=True)
    return library


def test_a_library_that_cannot_be_bound_is_refused(
    toolkit: Toolkit, runtime_folder: Path, calls: Any, tmp_path: Path
) -> None:
    gpu = VirtualGpu(spec("h200"))
    lacks = _host_library(
        tmp_path,
        toolkit,
        'extern "C" int cudaGraphAddMemAllocNode(void*); int f() { return '
        "cudaGraphAddMemAllocNode(nullptr); }",
        f"-L{runtime_folder}",
        "-lvcudart",
    )
    with pytest.raises(
        PtxUnsupported, match="the CUDA call cudaGraphAddMemAllocNode is not supported"
    ):
        gpu.load(lacks, calls.ptx, calls.resources)
    alone = _host_library(tmp_path, toolkit, "int f() { return 0; }")
    (tmp_path / "other.so").write_bytes(alone.read_bytes())
    with pytest.raises(BadInput, match="not linked with libvcudart"):
        gpu.load(tmp_path / "other.so", calls.ptx, calls.resources)
    with pytest.raises(BadInput, match=r"no registers and shared memory given for .*bounded"):
        gpu.load(calls.library, calls.ptx, {})
    with pytest.raises(BadInput, match="does not load"):
        gpu.load(tmp_path / "no.so", calls.ptx, calls.resources)
