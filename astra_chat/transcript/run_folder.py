"""The folder of a run: its name, the files in it, and what may not lie there already."""

from __future__ import annotations

import secrets
from datetime import datetime
from pathlib import Path

from astra_vgpu.ground.errors import BadInput

TRANSCRIPT = "transcript.jsonl"
BEST_SOURCE = "best.cu"
BUILT_SOURCE = "best.built.cu"
"""The winner as nvcc got it: the same tokens on the same lines, without comments."""
TRITON_SOURCE = "best.py"
REFUSED_SOURCE = "refused-{}"
"""A winner that its confirmation refused, by its name; its language's suffix follows."""
PART_OF_SOURCE = ".best.cu.part"
"""While it is being written."""
BEST_MODULE = "best"
"""The winner as a tvm-ffi module, with its source once more: a folder to copy."""
README, EXAMPLE, INPUTS = "README.md", "load_example.py", "reference.py"
TORCH_OPERATOR = "torch_op.py"
"""In BEST_MODULE, beside the module itself."""
PROGRESS = ".progress"
"""How far the judge is, in one line, while it works."""
LOG = "run.log"
"""What a run of a campaign prints; it is there before the transcript."""
JOBS = "jobs"
"""A folder: evaluations that another machine judges (detached/jobs.py)."""


def module_file(entry: str) -> str:
    """Name of the module in BEST_MODULE."""
    return f"{entry}.so"


def new_run(task: str, folder: Path | None) -> tuple[Path, str]:
    """Folder and name of a new run about a task; the folder is the one given, if there is one."""
    name = f"{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
    return folder or Path("transcripts") / f"{task}-{name}", name


def require_room(folder: Path) -> None:
    """Nothing of an earlier run is overwritten, and no run begins among other files: raises
    BadInput. The Writer sees to the transcript itself. Folders, such as a mailbox, and empty files,
    such as a log that the shell has just made, may be there."""
    for name in (BEST_SOURCE, BUILT_SOURCE, TRITON_SOURCE, BEST_MODULE):
        if (folder / name).exists():
            raise BadInput(
                f"{folder / name} already exists and is not overwritten: choose another folder"
            )
    others = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    ours = (TRANSCRIPT, LOG, PROGRESS)
    files = [name for name in others if name not in ours and _has_content(folder / name)]
    if files and not (folder / TRANSCRIPT).exists():
        raise BadInput(f"{folder} contains other files, such as {files[0]}: choose a new folder")


def _has_content(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0


def require_no_links(folder: Path, entry: str) -> None:
    """Raises BadInput where a link stands in the place of a file that a resumed run writes: the
    folder may come from anybody, and what it leads to would be overwritten."""
    sources = (BEST_SOURCE, BUILT_SOURCE, TRITON_SOURCE, PART_OF_SOURCE)
    made = (module_file(entry), README, EXAMPLE, INPUTS, TORCH_OPERATOR, *sources)
    best = [folder / BEST_MODULE / name for name in made]
    names = (TRANSCRIPT, *sources, BEST_MODULE, JOBS)
    for path in (*(folder / name for name in names), *best):
        if path.is_symlink():
            raise BadInput(f"{path} is a link, and a run does not write through links: delete it")
