"""What this machine can do, and how to get what is missing: what `astra-chat doctor` shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from astra_chat.models.providers import PROVIDERS, Provider
from astra_chat.tools.sandbox.isolation import ENOUGH, NOT_ENOUGH, isolation
from astra_chat.tools.sandbox.isolation import WORDS as ISOLATION_WORDS
from astra_vgpu.ground.cache import cache_folder
from astra_vgpu.ground.errors import MissingDependency
from astra_vgpu.ground.gpu_specs import DEFAULT_GPU, spec
from astra_vgpu.ground.toolkit import (
    find_compiler,
    find_ninja,
    find_tool,
    find_toolkit,
    host_tool_versions,
)

DRIVER_PARAMETERS = Path("/proc/driver/nvidia/params")
TRIAL = "__global__ void trial(float* x) { x[threadIdx.x] = 1.0f; }\n"
TRIAL_TIMEOUT_S = 120

Serves = Literal["virtual", "cuda", "more", "models"]
WORDS: dict[Serves, str] = {
    "virtual": "Required",
    "cuda": "Required to run and time kernels on a real GPU",
    "more": "Optional",
    "models": "Models",
}


@dataclass(frozen=True, kw_only=True)
class Point:
    """One thing that was looked for."""

    name: str
    serves: Serves
    ok: bool
    found: str
    """What is there, or what is missing."""
    advice: str = ""
    """What to do; empty if nothing needs to be done."""


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """All points, and what follows from them."""

    points: tuple[Point, ...]

    @property
    def virtual(self) -> bool:
        """Whether the loop runs on the virtual GPU."""
        return all(point.ok for point in self.points if point.serves == "virtual")

    @property
    def cuda(self) -> bool:
        """Whether it runs on a real GPU too."""
        return self.virtual and all(p.ok for p in self.points if p.serves == "cuda")


def asked_models(spec: str) -> tuple[tuple[Point, ...], int]:
    """What each model answered to one question, and the exit code. Raises BadInput, and
    MissingDependency for a missing key."""
    import asyncio

    from astra_chat.models.trial import open_live, try_each

    trials = asyncio.run(try_each(open_live(spec, None)))
    points = tuple(
        Point(
            name=trial.model,
            serves="models",
            ok=trial.exit_code == 0,
            found=f"answered in {trial.words}: {trial.said}" if trial.said else trial.words,
        )
        for trial in trials
    )
    return points, max(trial.exit_code for trial in trials)


def diagnose() -> Diagnosis:
    """Look at everything. Runs nvcc once on three lines; reads no value of a key."""
    return Diagnosis(
        points=(
            _python(),
            _asked("host compiler", "virtual", _compiler),
            _asked("nvcc", "virtual", _nvcc),
            _asked("a trial build", "virtual", _trial_build),
            _asked("ninja", "virtual", lambda: str(find_ninja())),
            _asked("nvdisasm", "virtual", _tool("nvdisasm")),
            *(_package(name, "virtual") for name in ("apache-tvm-ffi", "pyautogen")),
            _asked("cache folder", "virtual", _cache),
            _isolation(),
            _torch(),
            *_gpu(),
            _asked("cuobjdump", "more", _tool("cuobjdump")),
            _asked("compute-sanitizer", "cuda", _tool("compute-sanitizer")),
            _counters("Nsight Compute (ncu)", _tool("ncu")),
            _counters("CUPTI", _cupti),
            *(_key(name, there) for name, there in PROVIDERS.items() if there.key_needed),
        )
    )


def _asked(name: str, serves: Serves, look: Callable[[], str]) -> Point:
    """A point that may be a MissingDependency: "what: what to do"."""
    try:
        return Point(name=name, serves=serves, ok=True, found=look())
    except MissingDependency as error:
        what, _, advice = str(error).partition(": ")
        return Point(name=name, serves=serves, ok=False, found=what, advice=advice)


def _python() -> Point:
    said = ".".join(map(str, sys.version_info[:3]))
    ok = sys.version_info >= (3, 11)
    advice = "" if ok else "install Python 3.11 or newer"
    return Point(name="Python", serves="virtual", ok=ok, found=said, advice=advice)


def _compiler() -> str:
    return f"{find_compiler()}"


def _nvcc() -> str:
    toolkit = find_toolkit()
    host = host_tool_versions()[toolkit.cxx.name]
    return f"{toolkit.version} at {toolkit.nvcc}, with {toolkit.cxx.name} {host}"


def _trial_build() -> str:
    """nvcc and the host compiler must also fit each other: only a build tells."""
    toolkit = find_toolkit()
    with tempfile.TemporaryDirectory(prefix="astra-doctor-") as folder:
        Path(folder, "trial.cu").write_text(TRIAL)
        command = [
            str(toolkit.nvcc),
            f"-arch={spec(DEFAULT_GPU).arch}",
            "-shared",
            "-Xcompiler=-fPIC",
            "-cudart=static",
            f"-ccbin={toolkit.cxx}",
            f"-I{toolkit.include_dir}",
            f"-L{toolkit.lib_dir}",
            "trial.cu",
            "-o",
            "trial.so",
        ]
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
                timeout=TRIAL_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            raise MissingDependency(f"nvcc did not finish within {TRIAL_TIMEOUT_S} s") from None
    if done.returncode:
        first = (done.stderr or done.stdout).strip().splitlines()[:1]
        raise MissingDependency(
            f"nvcc fails ({''.join(first)[:200]}): set CXX to a host compiler that this"
            " nvcc supports"
        )
    return "nvcc and the host compiler work together"


def _package(name: str, serves: Serves) -> Point:
    try:
        return Point(name=name, serves=serves, ok=True, found=version(name))
    except PackageNotFoundError:
        advice = f"pip install {name}"
        return Point(name=name, serves=serves, ok=False, found="missing", advice=advice)


def _cache() -> str:
    folder = cache_folder("builds")
    if not os.access(folder, os.W_OK):
        raise MissingDependency(f"{folder} is not writable: set ASTRA_CACHE to a folder that is")
    return f"{folder.parent}, writable"


def _isolation() -> Point:
    """The level in force for builds and runs of kernels."""
    found = isolation()
    ok = found in ENOUGH
    advice = "" if ok else NOT_ENOUGH
    return Point(
        name="isolation", serves="more", ok=ok, found=ISOLATION_WORDS[found], advice=advice
    )


def _torch() -> Point:
    point = _package("torch", "virtual")
    if not point.ok:
        return point
    cuda = torch_cuda_version()
    built = f"built for CUDA {cuda}" if cuda else "a CPU build"
    return replace(point, found=f"{point.found}, {built}")


def torch_cuda_version() -> str | None:
    """CUDA release of the installed torch, None for a CPU build; read without importing it."""
    package = find_spec("torch")
    file = Path(package.origin).with_name("version.py") if package and package.origin else None
    text = file.read_text() if file and file.is_file() else ""
    named = re.search(r"^cuda\b[^=]*=\s*'([\d.]+)'", text, re.MULTILINE)
    return named[1] if named else None


def _gpu() -> list[Point]:
    """GPUs, the driver against nvcc, and whether torch can use them."""
    import pynvml

    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        names = [str(pynvml.nvmlDeviceGetName(handle)) for handle in handles]
        driver, newest = (
            pynvml.nvmlSystemGetDriverVersion(),
            pynvml.nvmlSystemGetCudaDriverVersion(),
        )
    except pynvml.NVMLError as error:
        advice = "the virtual GPU is used, with estimated times; for a real GPU install its driver"
        none = Point(name="GPU", serves="cuda", ok=False, found=f"none ({error})", advice=advice)
        return [none, _package("cuda-bindings", "cuda")]
    advice = "" if names else "the driver reports no GPU: check CUDA_VISIBLE_DEVICES"
    found = ", ".join(names) or "none"
    points = [Point(name="GPU", serves="cuda", ok=bool(names), found=found, advice=advice)]
    points.append(driver_point(driver, newest, _nvcc_release()))
    points.append(bindings_point(_package("cuda-bindings", "cuda"), newest))
    if torch_cuda_version() is None:
        advice = "timing on a GPU needs a CUDA build of PyTorch: pip install torch"
        points.append(
            Point(name="torch for CUDA", serves="cuda", ok=False, found="no", advice=advice)
        )
    return points


def _nvcc_release() -> tuple[int, int] | None:
    try:
        major, minor = find_toolkit().version.split(".")[:2]
    except MissingDependency:
        return None
    return int(major), int(minor)


def driver_point(driver: str, newest: int, nvcc: tuple[int, int] | None) -> Point:
    """Whether code of this nvcc runs under the driver. `newest` is NVML's: 13020 for 13.2.

    Within one major release machine code runs, PTX of a newer minor one does not (NVIDIA's CUDA
    compatibility guide, "minor version compatibility").
    """
    runs = (newest // 1000, newest % 1000 // 10)
    said = f"{driver}, for CUDA up to {runs[0]}.{runs[1]}"
    if nvcc is None or nvcc <= runs:
        return Point(name="driver", serves="cuda", ok=True, found=said)
    wanted = f"nvcc belongs to CUDA {nvcc[0]}.{nvcc[1]}"
    if nvcc[0] == runs[0]:
        advice = (
            f"{wanted}: its machine code runs here, but its PTX does not; a newer"
            " driver supports both"
        )
        return Point(name="driver", serves="cuda", ok=True, found=said, advice=advice)
    advice = (
        f"{wanted}, which this driver does not support: install a driver for CUDA"
        f" {nvcc[0]}, or an nvcc"
        f" of CUDA {runs[0]} and set CUDA_HOME"
    )
    return Point(name="driver", serves="cuda", ok=False, found=said, advice=advice)


def bindings_point(installed: Point, newest: int) -> Point:
    """Whether these cuda-bindings know the driver: those of a newer major release ask for calls
    that it lacks. `newest` as of `driver_point`."""
    runs = newest // 1000
    if not installed.ok or int(installed.found.split(".")[0]) <= runs:
        return installed
    advice = f"the driver is for CUDA {runs}: pip install 'cuda-bindings<{runs + 1}'"
    return replace(installed, ok=False, advice=advice)


def _tool(name: str) -> Callable[[], str]:
    return lambda: str(find_tool(name))


def _cupti() -> str:
    from cuda.pathfinder import load_nvidia_dynamic_lib

    try:
        return str(load_nvidia_dynamic_lib("cupti").abs_path)
    except (RuntimeError, ValueError):  # not found; or unknown to an old cuda-pathfinder
        raise MissingDependency("no libcupti: pip install 'astra-chat[counters]'") from None


def _counters(name: str, look: Callable[[], str]) -> Point:
    """A tool, and whether it may read counters, as far as that can be said without trying it."""
    point = _asked(name, "more", look)
    if not point.ok or counters_permitted(os.geteuid(), DRIVER_PARAMETERS):
        return point
    advice = (
        "only root may read the GPU's counters: run as root, or load the driver with"
        " NVreg_RestrictProfilingToAdminUsers=0"
    )
    return replace(point, ok=False, advice=advice)


def counters_permitted(user: int, parameters: Path) -> bool:
    """Root always; others where the driver says RmProfilingAdminOnly: 0, or no driver is there."""
    if user == 0 or not parameters.is_file():
        return True
    return (
        re.search(r"^RmProfilingAdminOnly: *0\b", parameters.read_text(), re.MULTILINE) is not None
    )


def _key(provider: str, there: Provider) -> Point:
    if os.environ.get(there.key_env):
        return Point(name=there.key_env, serves="more", ok=True, found="set")
    found = f"not set; only --models {provider}:MODEL needs it"
    return Point(name=there.key_env, serves="more", ok=False, found=found)
