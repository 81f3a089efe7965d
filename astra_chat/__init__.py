"""Astra: agents in a group chat optimize CUDA kernels, and a judge checks every result.

options          options of the judge and of a run, declared once
settings         which of them a user's or a project's astra.toml says
arguments        arguments that name files: what is missing is said first
version          the version of the distribution
cli/             the command astra-chat
mcp/             the program's functions as tools of an MCP server
skill/           what coding agents are told
judging/         the judge for users: what command line, Python and MCP call alike
session/         one run: options, chat, resume, export
optimize/        from a file of the user's repository to a patch for it
campaign/        many runs by one file
approval/        a human decides: at once, by a file, or later
mailbox/         questions of a run as folders, answered by whoever writes a file
detached/        evaluations as files, judged on another machine
memory/          what confirmed runs found, for later runs
models/          model backends, recordings, meter
transcript/      the record of a run: format, reader, writer, summary
replay/          recorded runs shown, judged or run again
report/          recorded runs as one HTML page
analysis/        recorded runs as typed rows and tables
verify/          the claims of a recorded run recomputed; bundles
viewer/          recorded runs in a browser, live
export/          recorded runs as data for other programs
package/         winners as plugins of engines, and as files for SGLang
step/            what winners gain in an engine's step
display/         what is printed
spending/        limits on what a run may spend
agents/          the chat (a link to the folder beside this one)
tools/           the judge (a link)
sglang_kernels/  the tasks (a link)
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from astra_chat.version import __version__

if TYPE_CHECKING:
    from astra_chat.analysis.recorded_run import load_transcript
    from astra_chat.judging.evaluating import evaluate
    from astra_chat.session.api import arun, run
    from astra_chat.tools.judge import Judge
    from astra_vgpu.ground.errors import BadInput, MissingDependency

__all__ = [
    "BadInput",
    "Judge",
    "MissingDependency",
    "__version__",
    "arun",
    "evaluate",
    "load_transcript",
    "run",
]

HOMES = {
    "BadInput": "astra_vgpu.ground.errors",
    "Judge": "astra_chat.tools.judge",
    "MissingDependency": "astra_vgpu.ground.errors",
    "arun": "astra_chat.session.api",
    "evaluate": "astra_chat.judging.evaluating",
    "load_transcript": "astra_chat.analysis.recorded_run",
    "run": "astra_chat.session.api",
}
"""The module of each public name."""

if not (Path(__file__).parent / "tools").is_dir():
    raise ImportError(
        "astra_chat/tools is not a folder: this copy has lost its symbolic links. "
        "Clone with git (Windows: git config core.symlinks true); do not install from a .zip."
    )


def __getattr__(name: str) -> Any:
    """`from astra_chat import run` loads AutoGen only when it is asked for; the others less."""
    if name not in HOMES:
        raise AttributeError(f"module 'astra_chat' has no attribute '{name}'")
    import_module("astra_chat.tools")  # says so where astra-vgpu is missing
    return getattr(import_module(HOMES[name]), name)
