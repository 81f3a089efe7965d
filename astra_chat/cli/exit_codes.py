"""What the exit code of a command says, and how a failure becomes one line and a code."""

from __future__ import annotations

import os
from collections.abc import Callable

from astra_chat.cli import streams
from astra_chat.display.notes import note
from astra_vgpu.ground.errors import BadInput, MissingDependency, failure

CHECK_FAILED = 1
"""The kernel failed, or another check that was asked for: never a failure of Astra's own."""
BAD_INPUT = BadInput.exit_code
ENVIRONMENT = MissingDependency.exit_code
WAITING = 4
INTERRUPTED = 130

EPILOG = (
    "Exit codes: 0 done (even if nothing got faster); 1 the kernel or another requested"
    " check failed; 2 bad input; 3 missing dependency, unsupported environment or internal"
    " error; 4 waiting for a decision, an answer or a judge; 130 interrupted."
)


def exit_code_of(command: Callable[[], None]) -> int:
    """Run a command to its end; each failure is one line on stderr and a code.

    ASTRA_DEBUG=1 raises the failure instead, for its traceback.
    """
    code = _protected(command)
    flushed = _protected(streams.flush)
    return code or flushed


def _protected(command: Callable[[], None]) -> int:
    try:
        command()
    except SystemExit as end:
        if end.code == INTERRUPTED and _by_ctrl_c(end):
            note("interrupted")
        return _code(end)
    except KeyboardInterrupt as error:
        return _fail(error, "interrupted", INTERRUPTED)
    except Exception as error:
        return _fail(error, *failure(error))
    return 0


def _code(end: SystemExit) -> int:
    """Returns the exit code that SystemExit stands for: 0 for None; a text is noted and is
    BAD_INPUT."""
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    note(str(end.code))
    return BAD_INPUT


def _by_ctrl_c(end: BaseException) -> bool:
    """Whether typer, which takes Ctrl-C as an order to leave silently, made this exit of one."""
    before = end.__cause__ or end.__context__
    return before is not None and (isinstance(before, KeyboardInterrupt) or _by_ctrl_c(before))


def _fail(error: BaseException, words: str, code: int) -> int:
    if os.environ.get("ASTRA_DEBUG") == "1":
        raise error
    for line in (*words.splitlines(), *getattr(error, "__notes__", ())):
        note(line)
    return code
