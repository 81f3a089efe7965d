"""Completes .venv (`make setup`): torch, nvcc if the machine has none, Astra, its dependencies.

Run by make with a plain Python 3.11 or newer, from the root of a checkout:
`PYTHONPATH=tools/virtual_gpu python3 -m astra_chat.tools.system.setup_env`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from astra_vgpu.ground.errors import MissingDependency
from astra_vgpu.ground.toolkit import PYPI_INSPECTORS, PYPI_TOOLKIT

LOADED = ("torch", "astra_chat.session.api")
"""What the child processes import, and what the program does."""
VENV = Path(".venv")
PYTHON = VENV / "bin" / "python"
TORCH = "torch==2.13.0"
CPU_TORCH = f"{TORCH}+cpu"
CPU_TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
"""The place that PyTorch documents for its CPU builds."""
DEMO = "silu_and_mul"
"""The task of `make demo`."""
OURS = ("agents", "astra_chat", "sglang_kernels", "tools")


def make_environment() -> None:
    """Create .venv unless a working one of the running Python's version is there."""
    version = "{}.{}".format(*sys.version_info)
    program = "import sys; print('{}.{}'.format(*sys.version_info))"
    if PYTHON.exists() and _output([str(PYTHON), "-c", program]) == version:
        return
    say(f"creating {VENV} with Python {version}")
    if _run([sys.executable, "-m", "venv", "--clear", str(VENV)]):
        raise MissingDependency(
            f"python -m venv failed: install Python's venv (Debian, Ubuntu: apt-get install"
            f" python{version}-venv)"
        )


def cuda_packages() -> list[str]:
    """What PyPI must give: nvcc if this machine has none, and the tools that read its objects."""
    if toolkit := _output([str(PYTHON), "-m", "astra_vgpu.ground.toolkit"]):
        say(f"using {toolkit}")
        return [*PYPI_INSPECTORS]
    say("no nvcc on this machine: downloading it from PyPI into the environment")
    return [PYPI_TOOLKIT, *PYPI_INSPECTORS]


def has_gpu() -> bool:
    return shutil.which("nvidia-smi") is not None and _run(["nvidia-smi", "-L"]) == 0


def install_cpu_torch() -> None:
    """The CPU build, from pip's own sources or else from PyTorch's index; where neither has it, the
    build that PyPI has, which is several times larger and runs without a GPU too."""
    if _output([str(PYTHON), "-c", "import torch; print('yes')"]) == "yes":
        return
    say("no GPU here: downloading and installing PyTorch's CPU build (750 MB): about a minute")
    if not _pip([CPU_TORCH]) or not _pip([CPU_TORCH, "--index-url", CPU_TORCH_INDEX]):
        return
    say(f"no CPU build for this Python: installing {TORCH} from PyPI")
    if _pip([TORCH]):
        raise MissingDependency(f"pip cannot install {TORCH}: see its messages above")


def install_astra(extras: list[str]) -> None:
    say("downloading and installing Astra and its dependencies: 1 to 3 minutes without output")
    # Type checkers and editors do not follow the import hook of setuptools' default mode.
    editable = ["--editable", "./tools/virtual_gpu", "--editable", ".[dev]"]
    if _pip([*editable, "--config-settings", "editable_mode=compat", *extras]):
        raise MissingDependency("pip cannot install Astra's dependencies: see its messages above")


def load_once() -> None:
    """Import what every run imports, so that Python keeps it compiled: a sandboxed process could
    not. The many other files of the packages stay as they are, ours are compiled one and all."""
    say("loading PyTorch and AutoGen once, so that later starts are fast: 10 to 60 seconds")
    for modules in LOADED:
        _output([str(PYTHON), "-c", f"import {modules}"])
    _output([str(PYTHON), "-m", "compileall", "-qq", "-j", "0", *OURS])


def prepare_demo() -> None:
    """Score the cases of the demo's tester by seeded bugs and evaluate its baseline, as its first
    run would do: most of that run's time to its first speed. Where it fails, the run says why."""
    say(
        f"judging the baseline of {DEMO} and scoring its test cases with seeded bugs: about"
        " a minute"
    )
    _output([str(PYTHON), "-m", "astra_chat.session.ahead", DEMO])


def say(text: str) -> None:
    print(f"set-up: {text}", flush=True)


def _pip(arguments: list[str]) -> int:
    return _run([str(PYTHON), "-m", "pip", "install", "-qq", "--no-compile", *arguments])


def _run(command: list[str]) -> int:
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return subprocess.run(command, env=environment, check=False).returncode


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def main() -> int:
    """Do all steps; print a missing dependency in one line and exit 3."""
    try:
        if shutil.which(os.environ.get("CXX") or "g++") is None:
            raise MissingDependency("no g++ on PATH: apt-get install g++")
        make_environment()
        extras = cuda_packages()
        if not has_gpu():
            install_cpu_torch()
        install_astra(extras)
        load_once()
        prepare_demo()
    except MissingDependency as error:
        print(f"set-up: {error}", file=sys.stderr)
        return MissingDependency.exit_code
    say("done")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
