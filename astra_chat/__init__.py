"""Astra: a group chat of agents that makes CUDA kernels faster and proves that they stayed right."""

from pathlib import Path

if not (Path(__file__).parent / "agents").is_dir():
    raise ImportError(
        "astra_chat/agents is no folder: this copy lost its symbolic links. "
        "Clone with git (Windows: git config core.symlinks true); do not install from a .zip."
    )

__version__ = "0.1.0"
