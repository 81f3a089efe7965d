"""A terminal of its own for a process: what it shows is waited for, however long that takes."""

from __future__ import annotations

import os
import pty
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]


class OwnTerminal:
    """Runs something in a forked process at a pseudo-terminal. There is no deadline: a loaded
    machine is slow, and a process that ends without what is waited for fails the test."""

    def __init__(self, program: Callable[[], int]) -> None:
        self.shown = ""
        self._waited_for = 0
        """Characters up to the end of what was waited for."""
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            code = 70
            try:
                os.environ["TERM"] = "dumb"
                # pytest has put streams of its own in the place of these.
                sys.stdin, sys.stdout, sys.stderr = (
                    os.fdopen(number, mode) for number, mode in enumerate(("r", "w", "w"))
                )
                code = program()
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)

    def wait_for(self, words: str) -> None:
        """Read until the terminal shows these words after what was waited for before."""
        while (found := self.shown.find(words, self._waited_for)) < 0:
            assert self._read(), f"it ended:\n{self.shown}"
        self._waited_for = found + len(words)

    @property
    def plain(self) -> str:
        """What is shown, without colours and line breaks."""
        return " ".join(re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", self.shown).split())

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def end(self) -> int:
        """Exit code, after everything it shows was read."""
        while self._read():
            pass
        os.close(self._fd)
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])

    def _read(self) -> str:
        """What comes next; empty at the end."""
        try:
            piece = os.read(self._fd, 65536).decode(errors="replace")
        except OSError:
            return ""
        self.shown += piece
        return piece


def command(*words: object) -> Callable[[], int]:
    """`astra-chat` in a process that begins like a user's."""

    def begin() -> int:
        os.chdir(ROOT)
        os.execv(sys.executable, [sys.executable, "-m", "astra_chat", *map(str, words)])

    return begin
