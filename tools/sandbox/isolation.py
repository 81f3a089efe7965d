"""Isolation level of this machine: bubblewrap, Landlock, seccomp or none, found by trying."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from typing import Literal

from astra_chat.tools.sandbox import landlock, seccomp
from astra_vgpu.ground.errors import MissingDependency

Isolation = Literal["bubblewrap", "landlock", "seccomp", "none"]
WORDS: dict[Isolation, str] = {
    "bubblewrap": "bubblewrap: separate root, no network, no other processes; plus seccomp",
    "landlock": "Landlock and seccomp: no network, no other processes, no files except its own",
    "seccomp": "seccomp only: no network and no processes, but your files are readable",
    "none": "only resource limits and a clean environment",
}
ENOUGH: tuple[Isolation, ...] = ("bubblewrap", "landlock")
NOT_ENOUGH = (
    "install bubblewrap, or run a Linux kernel with Landlock (5.13 or newer), or use --trust if you"
    " trust the authors of the kernels; kernels shipped with Astra run anyway"
)
TRIAL_S = 10


@cache
def isolation() -> Isolation:
    """The strongest level that works here."""
    if bubblewrap():
        return "bubblewrap"
    if not seccomp.available():
        return "none"
    return "landlock" if landlock.abi() else "seccomp"


@cache
def bubblewrap() -> str | None:
    """Path of a bwrap that can make namespaces here: many containers forbid them."""
    path = shutil.which("bwrap")
    if path is None or not seccomp.available():
        return None
    trial = [path, "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev"]
    try:
        done = subprocess.run(
            [*trial, "/bin/sh", "-c", "exit 0"], capture_output=True, timeout=TRIAL_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return path if done.returncode == 0 else None


def require_isolation() -> None:
    """Raises MissingDependency where untrusted code would find the user's files."""
    if isolation() not in ENOUGH:
        raise MissingDependency(
            f"kernels cannot be isolated here ({WORDS[isolation()]}): {NOT_ENOUGH}"
        )
