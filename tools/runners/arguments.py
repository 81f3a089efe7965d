"""Shared by both runners: poison, files of a case, and calls of the candidate's library."""

from __future__ import annotations

import ctypes
import resource

import numpy as np

from astra_chat.tools.run.protocol import CallRequest
from astra_chat.tools.task.buffer_layout import Bytes, poisoned, spread
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.launcher import call_values
from astra_chat.tools.types import Case


def poison(task: Task, call: CallRequest, arg_index: int, pattern: int) -> Bytes:
    """The buffer of an argument before the call: its input, or the pattern over and over."""
    arg = task.args[arg_index]
    if arg.read and arg.present(call.case):
        content = np.fromfile(call.inputs / f"{arg.name}.in", dtype=np.uint8)
    else:
        content = poisoned(arg.bytes_of(call.case), pattern)
    return spread(arg, call.case, content, pattern)


def launch(library: ctypes.CDLL, task: Task, case: Case, addresses: list[int], stream: int) -> int:
    """Call the launcher once; its cudaError_t. For host code that a process may run."""
    function = getattr(library, task.entry)
    return int(function(*call_values(task, case, addresses, stream)))


def limit_files_and_cores() -> None:
    """No core dumps; a runner writes results, not disks full."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 2**30, 64 * 2**30))
