"""Kernel files in the forms that users have, each right and complete."""

from __future__ import annotations

from pathlib import Path

from astra_chat.tools.new.create import draft_of
from astra_chat.tools.new.draft import Draft

KERNELS = Path(__file__).parent / "kernels"
PROJECTS = Path(__file__).parent / "projects"
"""Files that include others."""


def draft(file: str) -> Draft:
    return draft_of((KERNELS / file).read_text(), "mine", None)


def launcher(parameters: str, returns: str = "void", body: str = "") -> str:
    """A file with one extern "C" function of these parameters."""
    return f'#include <cuda_fp16.h>\n\nextern "C" {returns} go({parameters}) {{ {body} }}\n'
