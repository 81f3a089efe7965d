"""The tasks that ship with Astra, by name. It reads no task, so it costs next to nothing."""

from __future__ import annotations

from pathlib import Path

from astra_chat.tools.wording import did_you_mean
from astra_vgpu.ground.errors import BadInput

BUILTIN = Path(__file__).resolve().parents[2] / "sglang_kernels"


def task_names() -> list[str]:
    """Names of the tasks that ship with Astra."""
    return sorted(p.parent.name for p in BUILTIN.glob("*/task.toml"))


def task_folder(name_or_folder: str) -> Path:
    """The folder of a shipped task, or of any task by its path. Raises BadInput."""
    names, folder = task_names(), Path(name_or_folder)
    if name_or_folder in names:
        if (folder / "task.toml").is_file() and not folder.samefile(BUILTIN / folder):
            raise BadInput(
                f"{folder} is both a task of Astra and a folder here: write ./{folder} for the"
                " folder; without ./, the name means Astra's task"
            )
        return BUILTIN / name_or_folder
    if folder.is_dir():
        return folder
    if folder.is_file():
        raise BadInput(f"{folder} is a file, not a task: give the TASK first, then the KERNEL")
    hint = did_you_mean(name_or_folder, names) or "; `astra-chat tasks list` shows the names"
    raise BadInput(f"no task '{name_or_folder}', and no folder of that name{hint}")
