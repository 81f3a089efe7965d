"""A step that a user's own callable makes."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

WARM_UPS = 3


class NoStep(Exception):
    """A function of the user's that makes no step."""


class CalledStep:
    """`module:function` is called with a number of requests, and returns a function without
    parameters that computes one step on the current stream and returns its logits, or None."""

    def __init__(self, name: str, batches: Sequence[int]) -> None:
        self._make = _function(name)
        self._name, self._batches = name, batches

    def capture(self, finished: Callable[[int], None]) -> dict[int, tuple[Any, Any, Any]]:
        """A graph of a step for each number of requests, with the winners of now, its logits, and
        the step, which owns tensors that the graph reads; `finished` gets each number."""
        found = {}
        for batch in self._batches:
            step = self._make(batch)
            if not callable(step):
                raise NoStep(
                    f"{self._name}({batch}) must return a function, not {type(step).__name__}"
                )
            found[batch] = *_captured(step), step
            finished(batch)
        return found

    def run(self, captured: dict[int, tuple[Any, Any, Any]], batch: int) -> Iterator[Any]:
        """Logits of the step, if it returns any."""
        graph, result, _ = captured[batch]
        graph.replay()
        torch.cuda.synchronize()
        if result is not None:
            yield result.float()

    def graph(self, captured: dict[int, tuple[Any, Any, Any]], batch: int) -> Any:
        return captured[batch][0]

    def reference(self, batch: int) -> str:
        return "a custom callable has no float32 forward pass to compare with"

    def facts(self) -> dict[str, str]:
        return {}


def _function(name: str) -> Callable[[int], Callable[[], Any]]:
    """Raises NoStep."""
    module, _, function = name.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found: Callable[[int], Callable[[], Any]] = getattr(
            importlib.import_module(module), function
        )
    except (ImportError, AttributeError) as error:
        raise NoStep(f"--call {name}: {error}") from None
    return found


def _captured(step: Callable[[], Any]) -> tuple[Any, Any]:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UPS):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = step()
    return graph, result
