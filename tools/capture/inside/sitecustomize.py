"""Loaded by each Python of a captured program as it starts: the recorder, then the sitecustomize
that this one hides."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path


def run_hidden() -> None:
    """The program's own sitecustomize, if there is one."""
    own = Path(__file__).resolve().parent
    others = [entry for entry in sys.path if Path(entry or os.curdir).resolve() != own]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if os.environ.get("ASTRA_CAPTURE"):
    from astra_recorder.start import start

    start(os.environ["ASTRA_CAPTURE"])
run_hidden()
