"""Kernels in replayed CUDA graphs: the proof that a winner runs where the server runs.

Where ASTRA_WINNERS_PROOF names a folder, the third replay of each graph of this process is profiled
and the names of its kernels are written there, in FOLDER/PID.json, with the counts so far.
"""

from __future__ import annotations

import importlib.metadata
import json
import logging
import os
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from astra_winners.counting import COUNTERS

VARIABLE = "ASTRA_WINNERS_PROOF"
REPLAY = 3
"""The replay that is profiled: the first ones warm up."""
MOST_GRAPHS = 256
log = logging.getLogger("astra_winners")


def begin(engine: str) -> None:
    """Watch the graphs of this process, if the environment asks for it."""
    if folder := os.environ.get(VARIABLE):
        _Watch(engine, Path(folder)).begin()


class _Watch:
    def __init__(self, engine: str, folder: Path) -> None:
        self._engine, self._folder = engine, folder
        self._replays: Counter[int] = Counter()
        self._graphs: list[dict[str, int]] = []

    def begin(self) -> None:
        original = torch.cuda.CUDAGraph.replay

        def replay(graph: Any) -> Any:
            self._replays[id(graph)] += 1
            wanted = self._replays[id(graph)] == REPLAY and len(self._graphs) < MOST_GRAPHS
            return self._profiled(original, graph) if wanted else original(graph)

        torch.cuda.CUDAGraph.replay = replay  # type: ignore[method-assign, assignment]

    def _profiled(self, original: Any, graph: Any) -> Any:
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CUDA]) as profiled:
            result = original(graph)
            torch.cuda.synchronize()
        events = profiled.key_averages()
        self._graphs.append({e.key: e.count for e in events if e.self_device_time_total})
        self._write()
        return result

    def _write(self) -> None:
        from astra_winners.operators import gpu, ranks

        found = {
            "engine": self._engine,
            "version": importlib.metadata.version(self._engine),
            "torch": torch.__version__,
            "gpu": gpu()[0],
            "arch": gpu()[1],
            "ranks": ranks(),
            "graphs": self._graphs,
            "counts": [[*key, count] for key, count in COUNTERS.totals().items()],
        }
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{os.getpid()}.json"
        scratch = path.with_suffix(".part")
        scratch.write_text(json.dumps(found))
        scratch.replace(path)
