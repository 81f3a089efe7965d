"""Commands of astra-chat in this process, as a user types them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from astra_chat.cli.main import main


class Said(NamedTuple):
    """What a command left: its exit code, stdout and stderr."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """Returns the lines of stderr."""
        return self.err.splitlines()


Command = Callable[..., Said]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs astra-chat with these words."""

    def run(*words: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["astra-chat", *map(str, words)])
        monkeypatch.delenv("ASTRA_DEBUG", raising=False)
        with pytest.raises(SystemExit) as caught:
            main()
        return Said(int(caught.value.code or 0), *capsys.readouterr())

    return run
