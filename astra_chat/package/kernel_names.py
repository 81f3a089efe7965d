"""Names of a winner's kernels as a profile shows them."""

from __future__ import annotations

import re
import subprocess

from astra_chat.tools.build.nvcc import build, require_build
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.task.folder import Task
from astra_vgpu.ground.errors import MissingDependency


def kernel_names(task: Task, source: str, arch: str) -> list[str]:
    """Each kernel of a source, demangled. Raises BadInput where it does not build, and
    MissingDependency."""
    device = virtual_device("h200").model_copy(update={"arch": arch})
    built = require_build(build(task, source, device), "the winner")
    try:
        done = subprocess.run(
            ["c++filt"],
            input="\n".join(one.kernel for one in built.resources),
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    except (OSError, subprocess.SubprocessError):
        raise MissingDependency("c++filt is missing: install binutils") from None
    return sorted(done.stdout.splitlines())


def canonical(name: str) -> str:
    """A kernel's name by which two demanglers' forms are equal: `k<(bool)1>` and `k<true>`."""
    plain = name.strip().removeprefix("void ")
    plain = re.sub(
        r"\((?:bool|char|short|int|long|unsigned int|unsigned long)\)(?=-?\d)", "", plain
    )
    plain = re.sub(r"\btrue\b", "1", re.sub(r"\bfalse\b", "0", plain))
    return re.sub(r"\s+", "", re.sub(r"(?<=\d)[ul]+\b", "", plain))
