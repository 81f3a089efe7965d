"""What the head of a transcript says about where the run came from."""

from __future__ import annotations

import platform
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from astra_chat.tools.sandbox.isolation import isolation
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Device, sha256_of
from astra_chat.transcript.events import GitState, Header, TaskRecord
from astra_chat.transcript.options import RunOptions
from astra_chat.version import __version__
from astra_vgpu.ground.errors import MissingDependency
from astra_vgpu.ground.toolkit import host_tool_versions

PACKAGES = ("autogen-agentchat", "torch", "numpy", "apache-tvm-ffi")
"""Packages whose versions are recorded, by their metadata only: none of them is imported for it."""


def header(
    task: Task, device: Device, options: RunOptions, judged_with: dict[str, str] | None = None
) -> Header:
    """The first event of a run. Raises MissingDependency where there is no compiler.

    `judged_with`: the versions of a recording that is played, whose figures came from elsewhere.
    """
    return Header(
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=versions(device, options.judge == "local") if judged_with is None else judged_with,
        device=device,
        options=options,
        git=git_state(),
        task=TaskRecord(
            name=task.name,
            id=task.id,
            files={name: sha256_of(text) for name, text in task.files().items()},
        ),
    )


def versions(device: Device, here: bool = True) -> dict[str, str]:
    """Astra, Python, packages, compilers, how kernels are isolated, and a real GPU's driver if it
    is `here`."""
    found = {"astra": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    found |= host_tool_versions()
    found["isolation"] = isolation()
    if device.kind == "cuda" and here:
        found["driver"] = _driver()
    return found


def git_state() -> GitState | None:
    """The checkout that this file lies in; None where Astra is installed from a wheel."""
    here = Path(__file__).resolve()
    top = _git(here.parent, "rev-parse", "--show-toplevel")
    if top is None or here != Path(top.strip()).resolve().joinpath(*here.parts[-3:]):
        return None  # in somebody else's repository: a virtual environment inside it
    commit = _git(here.parent, "rev-parse", "HEAD")
    status = _git(here.parent, "status", "--porcelain")
    return GitState(commit=commit.strip(), dirty=bool(status)) if commit else None


def _git(folder: Path, *arguments: str) -> str | None:
    """Run git without the lock that status would take to refresh the index: a run that is killed
    then would leave it in the user's repository."""
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _driver() -> str:
    """Returns the version of NVIDIA's driver. Raises MissingDependency."""
    import pynvml

    try:
        pynvml.nvmlInit()
        try:
            return str(pynvml.nvmlSystemGetDriverVersion())
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        raise MissingDependency(
            f"the NVIDIA driver does not report its version ({error}): use --device virtual, or see"
            " astra-chat doctor"
        ) from None
