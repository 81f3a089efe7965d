"""The source files of the repository by their paths in it, the links in astra_chat/ not followed;
and where Python finds the packages in them."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINKS = ("astra_chat/tools/", "astra_chat/agents/", "astra_chat/sglang_kernels/")
PACKAGE = "tools/virtual_gpu/astra_vgpu/"
"""The virtual GPU: the only sources that are not astra_chat's."""
TESTS = ("tests", "tools/virtual_gpu/tests")
IMPORT_PATH = os.pathsep.join(map(str, (ROOT, ROOT / "tools" / "virtual_gpu")))
"""PYTHONPATH of a process that runs from the checkout."""


def sources(folders: Collection[str]) -> dict[str, str]:
    """Text of every Python file in these folders of the repository, sorted within each; tests only
    where the folder is one of TESTS."""
    paths = (path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))
    named = {path.relative_to(ROOT).as_posix(): path for path in paths}
    left_out = (*LINKS, *(f"{tests}/" for tests in TESTS if tests not in folders))
    return {name: path.read_text() for name, path in named.items() if not name.startswith(left_out)}
