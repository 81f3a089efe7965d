"""The engine's process that measures a step with a package on its path."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from astra_chat.package.checking import unpacked
from astra_chat.package.proof import run_engine
from astra_chat.step.samples import Samples, StepRequest, read_samples
from astra_chat.tools.system.files import write_whole
from astra_vgpu.ground.errors import MissingDependency

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
    """Run the program; how it ended."""
    ended = run_engine(command, [site, INSIDE], {"ASTRA_WINNERS_TRIAL": "1"}, timeout_s)
    if isinstance(ended, str):
        return ended
    if ended == NO_GPU:
        return "there is no GPU on this machine"
    return f"the program ended with exit code {ended}; its messages are above"
