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
"""The file that says that the candidate's process is gone."""
POLL_S = 0.0005


class CandidateEnded(Exception):
    """The candidate's process ended, or gave no answer that can be read."""


class Handover:
    """One end of the exchange in a folder that both processes write to."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count, self._parent = folder, 0, os.getppid()

    def ask(self, **asked: Any) -> dict[str, Any]:
        """Returns the candidate's answer. Raises CandidateEnded."""
        self._put("ask", asked)
        found = self._get("answer")
        self._count += 1
        if not isinstance(found, dict):
            raise CandidateEnded("its answer is none")
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
        while not path.exists():
            if (self._folder / ENDED).exists() or os.getppid() != self._parent:
                raise CandidateEnded("its process ended")
            time.sleep(POLL_S)
        try:
            return torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:
            raise CandidateEnded(f"its answer cannot be read: {type(error).__name__}") from None
        finally:
            path.unlink(missing_ok=True)
