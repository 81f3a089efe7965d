"""`python -m astra_chat.tools.extension.inside.asked REQUEST`: asks the untrusted process for the
results of a torch extension. REQUEST is a JSON file.

First the contract's cases, whose results are left as files for the judge; then the questions that
published candidates are asked (walled/inside/ours.py); then, for each timed case, the extension by
turns with the module: eager and compiled, each launched call by call and replayed as a CUDA graph.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

from astra_chat.tools.runners.module_calls import (
    BoundModule,
    NotRun,
    Way,
    allow_tf32,
    bound,
    compiled,
    eager,
)
from astra_chat.tools.runners.modules import ModuleFunction, why
from astra_chat.tools.walled.inside import timed
from astra_chat.tools.walled.inside.ours import Answer, Questions, prepared

TURNS, CALLS = 7, 15
BURST = 200
"""Replays between two readings of our clock."""
Call = Callable[[int], Any]


class ExtensionQuestions(Questions):
    """What an extension is asked, and what was found: "cases" and "turns" beside the rest."""

    def __init__(self, asked: Mapping[str, Any]) -> None:
        allow_tf32(asked["tensor_float32"])
        super().__init__(asked)
        allow_tf32(asked["tensor_float32"])  # the problem's file may have said otherwise
        self.found |= {"cases": [], "turns": []}
        self._compiled = 0

    def _steps(self) -> list[Callable[[], Any]]:
        first: list[Callable[[], Any]] = [partial(self._cases, self._asked["cases"])]
        return [*first, self._set, *super()._steps()[1:], self._turns]

    def _cases(self, cases: Sequence[Mapping[str, Any]]) -> bool:
        """Whether to ask on: a case that fails ends it."""
        for number, case in enumerate(cases):
            given = [tensor_of(**arg) for arg in case["reads"]]
            answer = self._line.ask(do="call", by="on_arguments", inputs=given, slot=300 + number)
            said = failure(answer) or self._left(case, answer["out"])
            self.found["cases"].append(said)
            if said:
                return False
        return True

    def _left(self, case: Mapping[str, Any], results: Sequence[torch.Tensor]) -> str:
        """Leaves the results as files; returns what is wrong with their form, or ""."""
        wanted = [(tuple(one["shape"]), one["dtype"]) for one in case["writes"]]
        given = [one.reshape(one.shape or (1,)) for one in results]
        found = [(tuple(one.shape), str(one.dtype).removeprefix("torch.")) for one in given]
        if found != wanted:
            return f"forward returns {_forms(found)}, but the contract has {_forms(wanted)}"
        for one, arg in zip(given, case["writes"], strict=True):
            Path(arg["path"]).write_bytes(
                one.contiguous().flatten().view(torch.uint8).numpy().tobytes()
            )
        return ""

    def _own_libraries(self, answer: Answer) -> list[str]:
        """The extension: our own file loaded it."""
        return ["the extension"]

    def _turns(self) -> None:
        for case in self._asked["timed"]:
            self.found["turns"].append(self._timed(case))

    def _timed(self, case: Mapping[str, Any]) -> dict[str, Any]:
        """Times of a case in us: medians of each turn, of the candidate and of the module's ways;
        or why there are none."""
        given = [tensor_of(**arg) for arg in case["reads"]]
        answer: Answer = self._line.ask(do="begin_turns", inputs=given)
        if "failed" in answer:
            self._add("not_captured", answer["failed"])
            return {"failed": answer["failed"]}
        named = zip([arg["name"] for arg in case["reads"]], given, strict=True)
        ways = dict(self._ways({name: value.to(self._device) for name, value in named}))
        us: dict[str, list[float]] = {}
        for turn in range(TURNS):
            order = ["candidate", *ways] if turn % 2 == 0 else [*reversed(ways), "candidate"]
            for name in order:
                if name == "candidate":
                    found = dict(self._line.ask(do="turn", calls=CALLS)["us"])
                else:
                    found = _timed_once(ways[name], self._device)
                for kind, one in found.items():
                    us.setdefault(f"{name}{kind}", []).append(median(one))
        burst_us = (self._burst(2 * BURST) - self._burst(BURST)) / BURST
        said = self._left(case, self._line.ask(do="end_turns")["out"])
        notes = {name: str(way) for name, way in ways.items() if isinstance(way, str)}
        return {"us": us, "burst_us": burst_us, "not_run": notes, "failed": said}

    def _burst(self, calls: int) -> float:
        """Microseconds of so many replays by the clock of this process."""
        start = time.perf_counter()
        self._line.ask(do="burst", calls=calls)
        return (time.perf_counter() - start) * 1e6

    def _ways(self, values: Mapping[str, torch.Tensor]) -> list[tuple[str, _Ways | str]]:
        """The module with these inputs and weights: each way, or why it cannot be run."""
        function = ModuleFunction(type(self._model))
        module = bound(function, values, self._device)
        found: list[tuple[str, _Ways | str]] = [("eager", _ways_of(module, eager))]
        for number in range(self._asked["compilations"]):
            try:
                self._compiled += 1
                way: Way = compiled(self._compiled, self._asked["mode"], module)
                found.append((f"compile {number + 1}", _ways_of(module, way)))
            except NotRun as error:
                found.append((f"compile {number + 1}", str(error)))
        return found


_Ways = dict[str, Call]
"""A way launched call by call, "", and as " graph" where it can be captured."""


def _ways_of(module: BoundModule, way: Way) -> _Ways:
    found: _Ways = {"": lambda _: module.call(way)}
    if torch.cuda.is_available():
        try:
            found[" graph"] = timed.captured(partial(module.call, way), ())
        except RuntimeError:  # of capturing: there is no such row
            torch.cuda.synchronize()
    return found


def _timed_once(ways: _Ways | str, device: str) -> dict[str, list[float]]:
    if isinstance(ways, str):
        return {}
    with torch.no_grad():
        return {
            kind: timed.times_us(call, CALLS, device, lambda *_: None)
            for kind, call in ways.items()
        }


def failure(answer: Answer) -> str:
    """What is wrong with a call whatever its results are; "" for nothing."""
    if "failed" in answer:
        return str(answer["failed"])
    if answer["after"] is not None:
        return "forward changes its arguments"
    if answer["late"] is not None:
        return "the result changes after forward has returned: it is computed on another stream"
    return ""


def tensor_of(*, name: str, path: str, dtype: str, shape: Sequence[int]) -> torch.Tensor:
    """An argument out of its file: bytes in row-major order."""
    count = int(torch.Size(shape).numel())
    found = torch.empty(shape, dtype=getattr(torch, dtype))
    if count:
        raw = torch.frombuffer(bytearray(Path(path).read_bytes()), dtype=found.dtype)
        found.copy_(raw.view(shape))
    return found


def _forms(found: Sequence[tuple[Sequence[int], str]]) -> str:
    return ", ".join(f"{dtype}{list(shape)}" for shape, dtype in found) or "nothing"


def main() -> None:
    asked = json.loads(Path(sys.argv[1]).read_text())
    prepared()
    torch.set_grad_enabled(False)
    try:
        found = ExtensionQuestions(asked).all()
    except Exception as error:
        found = {"problem": why(error)}
    Path(asked["answer"]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
