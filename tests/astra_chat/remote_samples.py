"""A host reached by ssh that is this machine: the real remote command, by a stand-in for ssh."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

STAND_IN = (
    '#!/bin/sh\n# HOST COMMAND, as ssh gets them\necho "$1" >>{log}\n{first}exec sh -c "$2"\n'
)


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, first: str = "") -> Path:
    """From here on ssh is a script that runs `first` and then the command; the file in which it
    writes the hosts that it was asked for."""
    script, log = folder / "ssh", folder / "hosts"
    text = STAND_IN.format(log=shlex.quote(str(log)), first=f"{first}\n" if first else "")
    script.write_text(text)
    script.chmod(0o755)
    monkeypatch.setenv("ASTRA_SSH", shlex.quote(str(script)))
    monkeypatch.setenv("ASTRA_SSH_REMOTE", f"{shlex.quote(sys.executable)} -m astra_chat")
    return log
