"""The tasks that ship with Astra, by name: those of one GPU, and those of several. It reads no
task, so it costs next to nothing."""

from __future__ import annotations

from pathlib import Path

from astra_chat.tools.wording import did_you_mean
from astra_vgpu.ground.errors import BadInput

BUILTIN = Path(__file__).resolve().parents[2] / "sglang_kernels"
SEVERAL_GPUS = BUILTIN / "several_gpus"
"""The folder of those whose kernels run over several GPUs."""


def task_names() -> list[str]:
    """Names of the tasks that ship with Astra."""
    return sorted(p.parent.name for p in BUILTIN.glob("*/task.toml"))


def ranks_task_names() -> list[str]:
    """Names of the shipped tasks whose kernels run over several GPUs."""
    return sorted(p.parent.name for p in SEVERAL_GPUS.glob("*/task.toml"))


def shipped_folder(name: str) -> Path:
    """Returns the folder of a shipped task."""
    return (SEVERAL_GPUS if name in ranks_task_names() else BUILTIN) / name


def task_folder(name_or_folder: str) -> Path:
    """The folder of a shipped task, or of any task by its path. Raises BadInput."""
    names, folder = [*task_names(), *ranks_task_names()], Path(name_or_folder)
    if name_or_folder in names:
        shipped = shipped_folder(name_or_folder)
        if (folder / "task.toml").is_file() and not folder.samefile(shipped):
            raise BadInput(
                f"{folder} is both a shipped task and a folder here: write ./{folder} for the"
                " folder; without ./, the name means the shipped task"
            )
        return shipped
    if folder.is_dir():
        return folder
    if folder.is_file():
        raise BadInput(f"{folder} is a file, not a task: give the TASK first, then the KERNEL")
    hint = did_you_mean(name_or_folder, names) or "; `astra-chat tasks list` shows the names"
    raise BadInput(f"no task '{name_or_folder}', and no folder of that name{hint}")
