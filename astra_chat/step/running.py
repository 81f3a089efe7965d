"""The engine's process that measures a step with a package on its path."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from astra_chat.package.checking import unpacked
from astra_chat.step.samples import Samples, StepRequest, read_samples
from astra_chat.tools.system.whole_file import write_whole
from astra_vgpu.ground.errors import BadInput, MissingDependency

INSIDE = Path(__file__).resolve().parent / "inside"
MODULE = "astra_step"
NO_GPU = 3
"""Exit code of the program where there is no GPU."""


def measure(
    package: Path, requests: Sequence[StepRequest], python: Path | None, timeout_s: float
) -> list[Samples]:
    """Samples of each model, in a process of its own. Raises BadInput for what is no package, and
    MissingDependency where the engine or the GPU is missing."""
    with unpacked(package) as site:
        return [_one(site, request, python, timeout_s) for request in requests]


def _one(site: Path, request: StepRequest, python: Path | None, timeout_s: float) -> Samples:
    with tempfile.TemporaryDirectory(prefix="astra-step-") as name:
        out = Path(request.out) if request.out else Path(name) / "samples.json"
        asked = Path(name) / "request.json"
        document = request.model_copy(update={"out": str(out.absolute())})
        write_whole(asked, document.model_dump_json().encode())
        ended = _run([str(python or sys.executable), "-m", MODULE, str(asked)], site, timeout_s)
        if not out.is_file():
            raise MissingDependency(f"{request.call or request.model} was not measured: {ended}")
        return read_samples(out)


def _run(command: Sequence[str], site: Path, timeout_s: float) -> str:
    """Run the program, with its output on stderr; how it ended."""
    paths = [str(site), str(INSIDE), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "ASTRA_WINNERS_TRIAL": "1"}
    try:
        done = subprocess.run(
            command, env=env, stdout=sys.stderr, check=False, timeout=timeout_s or None
        )
    except subprocess.TimeoutExpired:
        return f"it did not finish within {timeout_s:g} s"
    except OSError as error:
        raise BadInput(f"cannot start {command[0]}: {error.strerror}") from None
    if done.returncode == NO_GPU:
        return "there is no GPU on this machine"
    return f"the program ended with exit code {done.returncode}; its messages are above"
