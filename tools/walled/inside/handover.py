"""Requests and answers between our process and the candidate's: files of tensors and plain values.

Answers are read without unpickling objects. A file is complete once it has its name.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import torch

ENDED = "ended"
"""The file in our process's folder that says how the candidate's process ended."""
POLL_S, MOST_S = 0.0005, 0.02


class CandidateEnded(Exception):
    """The candidate's process ended, or gave no answer that can be read."""


class Handover:
    """One end of the exchange in a folder that both processes write to."""

    def __init__(self, folder: Path, own: Path | None = None) -> None:
        """`own`: the folder of our process; None in the candidate's."""
        self._folder, self._count, self._parent = folder, 0, os.getppid()
        self._ended = own / ENDED if own else None

    def ask(self, **asked: Any) -> dict[str, Any]:
        """Returns the candidate's answer. Raises CandidateEnded."""
        self._put("ask", asked)
        found = self._get("answer")
        self._count += 1
        if not isinstance(found, dict):
            raise CandidateEnded("its answer is not valid")
        return found

    def asked(self) -> dict[str, Any]:
        """Waits for what is asked next."""
        found: dict[str, Any] = self._get("ask")
        return found

    def answer(self, found: dict[str, Any]) -> None:
        self._put("answer", found)
        self._count += 1

    def _put(self, kind: str, value: Any) -> None:
        path = self._folder / f"{self._count}.{kind}"
        torch.save(value, path.with_suffix(".part"))
        path.with_suffix(".part").replace(path)

    def _get(self, kind: str) -> Any:
        path = self._folder / f"{self._count}.{kind}"
        pause_s = POLL_S
        while not path.exists():
            if self._ended and self._ended.exists():
                raise CandidateEnded(self._ended.read_text())
            if os.getppid() != self._parent:
                raise CandidateEnded("its process ended")
            time.sleep(pause_s)
            pause_s = min(MOST_S, 1.1 * pause_s)
        try:
            return torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:
            raise CandidateEnded(f"its answer cannot be read: {type(error).__name__}") from None
        finally:
            path.unlink(missing_ok=True)
