"""Which judge judged: a hash of its own files, so that two figures can be known to be alike."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from astra_vgpu import ground

HERE = Path(__file__).resolve().parent
VIRTUAL_GPU = Path(ground.__file__).resolve().parents[1]
SUFFIXES = frozenset({".py", ".c", ".h", ".cu", ".cuh", ".toml", ".json"})
ADAPTER = "virtual_gpu/adapter.py"
"""All that counts in its folder: a wheel leaves out the rest, and an installed judge and a checkout
have the same hash. The package in that folder counts where it is installed."""


@cache
def judge_sha256() -> str:
    """Hexadecimal sha256 over names and contents of all files of tools/, then of astra_vgpu, each
    in the order of their names."""
    digest = hashlib.sha256()
    for folder in (HERE, VIRTUAL_GPU):
        for path in sorted(p for p in folder.rglob("*") if p.suffix in SUFFIXES and p.is_file()):
            name = path.relative_to(folder).as_posix()
            if name == ADAPTER or not name.startswith("virtual_gpu/"):
                digest.update(f"{name}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def why_another_judge(wanted_sha256: str, astra: str) -> str:
    """Why this judge is not the one that is asked for; empty where it is.

    Args:
        wanted_sha256: The hash of the judge that is asked for.
        astra: Version of the Astra that asks.
    """
    if wanted_sha256 == judge_sha256():
        return ""
    return (
        f"it asks for the judge {wanted_sha256[:12]} of Astra {astra}, but this"
        f" one is {judge_sha256()[:12]}: use the same version on both machines"
    )
