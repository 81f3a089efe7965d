"""The fake CUDA runtime alone: its build, and what reaches Python of each kind of call."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest

from astra_vgpu.ground.errors import MissingDependency
from astra_vgpu.ground.gpu_specs import spec
from astra_vgpu.ground.toolkit import Toolkit
from astra_vgpu.runtime.cudart_binding import Runtime, missing_call
from astra_vgpu.runtime.cudart_build import ensure_runtime
from astra_vgpu.runtime.host import CopyAccess, FunctionAttributes
from astra_vgpu.types import Dim3

MODULE = 4711
CLUSTER, PROGRAMMATIC, PRIORITY = 4, 6, 8
"""cudaLaunchAttributeID."""


class KernelFile(Protocol):
    """conftest.KernelFile"""

    library: Path


class Recorder:
    """A host without device: answers as told, keeps what it was asked."""

    def __init__(self) -> None:
        self.spec = spec("h200")
        self.asked: list[tuple[Any, ...]] = []
        self.answer = 0
        self.raises: Exception | None = None
        self.broken: list[BaseException] = []
        self.variable = ctypes.create_string_buffer(64)

    def _ask(self, *what: Any) -> int:
        self.asked.append(what)
        if self.raises:
            raise self.raises
        return self.answer

    def launch(
        self,
        module: int,
        kernel: str,
        grid: Dim3,
        block: Dim3,
        dynamic: int,
        args: int,
        cooperative: bool,
    ) -> int:
        return self._ask("launch", module, kernel, grid, block, dynamic)

    def allocate(self, nbytes: int) -> tuple[int, int]:
        return self._ask("allocate", nbytes), 0xABC000

    def release(self, address: int) -> int:
        return self._ask("release", address)

    def touch(self, address: int, nbytes: int, access: CopyAccess) -> int:
        return self._ask("touch", nbytes, access)

    def symbol(self, module: int, name: str) -> tuple[int, int, int]:
        return self._ask("symbol", module, name), ctypes.addressof(self.variable), 64

    def read(self, fat_binary: int) -> int:
        return -1

    def function(self, module: int, kernel: str) -> tuple[int, FunctionAttributes | None]:
        return self._ask("function", module, kernel), FunctionAttributes(40, 512, 1024, 1000)

    def set_attribute(self, module: int, kernel: str, attribute: int, value: int) -> int:
        return self._ask("set_attribute", module, kernel, attribute, value)

    def occupancy(self, module: int, kernel: str, threads: int, dynamic: int) -> tuple[int, int]:
        return self._ask("occupancy", module, kernel, threads, dynamic), 6

    def managed(self, nbytes: int) -> tuple[int, int]:
        return self._ask("managed", nbytes), 0xDEF000

    def open(self, on: bool) -> int:
        return 0

    def now(self) -> int:
        return 1_000_000

    def capture(self, on: bool) -> tuple[int, int]:
        return self._ask("capture", on), 5

    def note(self, to: int, source: int, nbytes: int, kind: int, value: int) -> int:
        return self._ask("note", nbytes, kind, value)

    def replay(self, graph: int) -> int:
        return self._ask("replay", graph)

    def limit_heap(self, nbytes: int) -> int:
        return self._ask("limit_heap", nbytes)

    def refuse(self, what: str) -> int:
        self._ask("refuse", what)
        return 801

    def answer(self, kind: str, call: str, words: Sequence[int]) -> int:
        return self._ask("answer", kind, call, words)

    def broke(self, error: BaseException) -> int:
        self.broken.append(error)
        return 719


@pytest.fixture
def host() -> Recorder:
    return Recorder()


@pytest.fixture(scope="module")
def copy(calls: KernelFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of these tests' own: a VirtualGpu may have taken the other one's kernels."""
    path = tmp_path_factory.mktemp("copy") / "calls.so"
    path.write_bytes(calls.library.read_bytes())
    return path


@pytest.fixture
def runtime(copy: Path, host: Recorder) -> Iterator[Runtime]:
    attached = Runtime(ctypes.CDLL(str(copy)), host)
    attached.adopt(MODULE)
    attached.reset()
    yield attached
    attached.detach()


@pytest.fixture
def library(copy: Path, runtime: Runtime) -> ctypes.CDLL:
    loaded = ctypes.CDLL(str(copy))
    loaded.error_name.restype = loaded.error_words.restype = ctypes.c_char_p
    return loaded


@pytest.mark.parametrize("function", ["run_chevron", "run_classic"])
def test_a_launch_reaches_python(library: ctypes.CDLL, host: Recorder, function: str) -> None:
    assert getattr(library, function)(None, None, 300, None) == 0
    kind, module, kernel, grid, block, dynamic = host.asked[0]
    assert (kind, module) == ("launch", MODULE) and kernel.startswith("_Z5scaleI") and dynamic == 0
    assert (grid, block) in [(Dim3(3), Dim3(128)), (Dim3(5), Dim3(64))]


def test_programmatic_launch_is_taken_and_other_attributes_are_refused(
    library: ctypes.CDLL, host: Recorder
) -> None:
    assert library.run_ex(None, None, 100, PROGRAMMATIC) == 0
    assert host.asked[0][0] == "launch"
    assert library.run_ex(None, None, 100, CLUSTER) == 801
    assert host.asked[1] == (
        "refuse",
        "launch attribute cudaLaunchAttributeClusterDimension (thread block clusters)",
    )
    assert library.run_ex(None, None, 100, PRIORITY) == 801
    assert len(host.asked) == 3


def test_an_error_is_remembered_until_it_is_asked_for(library: ctypes.CDLL, host: Recorder) -> None:
    host.answer = 701
    assert library.run_classic(None, None, 1, None) == 701
    host.answer = 0
    assert library.run_classic(None, None, 1, None) == 0
    assert [library.peek_error(), library.last_error(), library.last_error()] == [701, 701, 0]


def test_errors_that_break_the_context_stick(
    library: ctypes.CDLL, host: Recorder, runtime: Runtime
) -> None:
    """The sequence that an H200 gave."""
    host.answer = 700
    assert library.broken(0, None) == 700
    host.answer = 0
    asked = len(host.asked)
    assert [library.peek_error(), library.last_error(), library.last_error()] == [700, 700, 0]
    assert library.run_chevron(None, None, 1, None) == 700
    assert library.synchronize() == 700
    assert len(host.asked) == asked
    runtime.reset()
    assert library.run_chevron(None, None, 1, None) == 0


def test_an_exception_does_not_cross_c(library: ctypes.CDLL, host: Recorder) -> None:
    host.raises = ValueError("planted")
    assert library.run_classic(None, None, 1, None) == 719
    assert host.broken == [host.raises]


def test_symbols_are_found_by_module_and_name(library: ctypes.CDLL, host: Recorder) -> None:
    assert library.set_factor(ctypes.c_float(2.5)) == 0
    assert ctypes.c_float.from_buffer(host.variable).value == 2.5
    assert host.asked[0][2] == "factors"


def test_properties_come_from_the_spec(library: ctypes.CDLL) -> None:
    numbers, name = (ctypes.c_int * 12)(), ctypes.create_string_buffer(256)
    assert library.device_properties(numbers, name) == 0
    h200 = spec("h200")
    assert name.value == b"NVIDIA H200"
    assert list(numbers)[:11] == [
        132,
        232448,
        233472,
        65536,
        2048,
        32,
        h200.l2_bytes,
        h200.memory_bus_bits,
        1024,
        9,
        0,
    ]


SEEN_ON_H200 = {
    1: 1024, 2: 1024, 3: 1024, 4: 64, 5: 2147483647, 6: 65535, 7: 65535, 8: 49152, 9: 65536,
    12: 65536, 13: 1980000, 37: 6016, 38: 62914560, 39: 2048, 82: 65536, 81: 233472, 97: 232448,
    106: 32, 111: 1024, 18: 0, 17: 0, 115: 1,
}  # fmt: skip
"""cudaDeviceGetAttribute by cudaDeviceAttr."""


def test_attributes_are_those_of_the_gpu(library: ctypes.CDLL) -> None:
    assert {a: library.device_attribute(a) for a in SEEN_ON_H200} == SEEN_ON_H200


def test_an_attribute_without_answer_is_refused(library: ctypes.CDLL, host: Recorder) -> None:
    assert library.device_attribute(21) == -801
    assert host.asked == [("refuse", "cudaDeviceGetAttribute of attribute 21")]


def test_errors_have_cudas_names_and_words(library: ctypes.CDLL) -> None:
    seen = {e: (library.error_name(e), library.error_words(e)) for e in (1, 701, 716, 801, 12345)}
    assert seen == {
        1: (b"cudaErrorInvalidValue", b"invalid argument"),
        701: (b"cudaErrorLaunchOutOfResources", b"too many resources requested for launch"),
        716: (b"cudaErrorMisalignedAddress", b"misaligned address"),
        801: (b"cudaErrorNotSupported", b"operation not supported"),
        12345: (b"unrecognized error code", b"unrecognized error code"),
    }


def test_nothing_is_asked_of_a_detached_host(
    library: ctypes.CDLL, host: Recorder, runtime: Runtime
) -> None:
    runtime.detach()
    assert library.run_classic(None, None, 1, None) == 3
    assert host.asked == []


def test_a_built_runtime_is_kept(toolkit: Toolkit, tmp_path: Path) -> None:
    first = ensure_runtime(toolkit.cxx, toolkit.include_dir, tmp_path)
    built = (first / "libvcudart.so").stat().st_mtime_ns
    assert ensure_runtime(toolkit.cxx, toolkit.include_dir, tmp_path) == first
    assert (first / "libvcudart.so").stat().st_mtime_ns == built
    assert [p.name for p in tmp_path.iterdir()] == [first.name]


@pytest.mark.second_tier
def test_two_processes_may_build_at_once(toolkit: Toolkit, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path;"
        "from astra_vgpu.runtime.cudart_build import ensure_runtime;"
        "print(ensure_runtime(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))"
    )
    command = [sys.executable, "-c", code, str(toolkit.cxx), str(toolkit.include_dir)]
    processes = [
        subprocess.Popen([*command, str(tmp_path / "cache")], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    folders = {process.communicate()[0].strip() for process in processes}
    assert [process.returncode for process in processes] == [0, 0]
    assert len(folders) == 1 and (Path(folders.pop()) / "libvcudart.so").is_file()


def test_what_is_lacking_is_named(toolkit: Toolkit, tmp_path: Path) -> None:
    with pytest.raises(MissingDependency, match="compiler no-such-compiler not found"):
        ensure_runtime("no-such-compiler", toolkit.include_dir, tmp_path)
    with pytest.raises(MissingDependency, match=r"no cuda_runtime_api\.h"):
        ensure_runtime(toolkit.cxx, tmp_path, tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(MissingDependency, match="cannot write"):
        ensure_runtime(toolkit.cxx, toolkit.include_dir, tmp_path / "file" / "cache")


def test_the_missing_call_is_read_from_the_linkers_words() -> None:
    words = "./k.so: undefined symbol: cudaGraphLaunch"
    assert missing_call(OSError(words)) == "cudaGraphLaunch"
    assert missing_call(OSError("./k.so: undefined symbol: cublasSgemv_v2")) == "cublasSgemv_v2"
    assert missing_call(OSError("./k.so: undefined symbol: sqrtf")) == ""
    assert missing_call(OSError("./k.so: cannot open shared object file")) == ""
