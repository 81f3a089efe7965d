"""`astra-chat mcp` without its SDK, and at a terminal."""

from __future__ import annotations

import sys

import pytest

from astra_chat.cli import mcp as command
from astra_vgpu.ground.errors import BadInput, MissingDependency


def test_without_the_sdk_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match=r"pip install 'astra-chat\[mcp\]'"):
        command.mcp()


def test_at_a_terminal_it_says_who_starts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    with pytest.raises(BadInput, match="configure an MCP client to start it"):
        command.mcp()
