"""`python -m astra_chat.tools.walled.inside.theirs CANDIDATE EXCHANGE DEVICE`: loads an untrusted
candidate and calls it as our process asks. The candidate shares this process: of what is said here
only results, which our process compares, are evidence; times and names are as good as the candidate
is honest.
"""

from __future__ import annotations

import os
import random
import re
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from astra_chat.tools.runners.modules import loaded, outputs, why
from astra_chat.tools.walled.inside import timed
from astra_chat.tools.walled.inside.exact import seeded
from astra_chat.tools.walled.inside.handover import Handover
from astra_chat.tools.walled.inside.operators import Operators

LATE_S = 0.03
SLEEP_CYCLES = 20_000_000
"""Cycles for which the current stream is busy before a call: work on another one starts early."""
KEPT = 3
"""Results of timed calls that are compared, of the first ones and of later ones."""
TIMED = 100
"""Slot of the first set of inputs of timed calls."""
MISSING = re.compile(
    r"No such file or directory|No module named|cannot find -l|Ninja is required|CUDA_HOME"
)
"""Something that was not published with the candidate, or is not on this machine."""
SUFFIXES = {"TORCH_EXTENSIONS_DIR": "ext", "TRITON_CACHE_DIR": "triton", "HOME": "home"}
SUFFIXES |= {"TORCHINDUCTOR_CACHE_DIR": "inductor", "HELION_CACHE_DIR": "helion"}
WATCHED: tuple[Any, ...] = (
    torch,
    torch.cuda,
    torch.Tensor,
    torch.nn.functional,
    torch.nn.Module,
)
WATCHED += (torch.cuda.Event, torch.cuda.Stream, time, random, Handover, timed)


class LoadedCandidate:
    """The candidate's module, and the places of its inputs."""

    def __init__(self, path: Path, device: str) -> None:
        self._before = {(o, n): v for o in WATCHED for n, v in vars(o).items() if callable(v)}
        # Opened now: when memory is short, the kernel may forget that this process may open it.
        self._maps = Path("/proc/self/maps").open()
        self._failed_builds: list[str] = []
        if "cpp_extension" in path.read_text():
            self._watch_builds()
        self._file, self._device = loaded(path, "candidate"), device
        self._slots: dict[int, list[Any]] = {}
        self._last: tuple[list[torch.Tensor], list[torch.Tensor]] = [], []
        self._kept: list[tuple[int, list[torch.Tensor]]] = []
        self._model: Any = None

    def _watch_builds(self) -> None:
        """Keeps why extensions are not built: candidates often do without them then."""
        from torch.utils import cpp_extension

        build = cpp_extension._jit_compile

        def watched(*words: Any, **named: Any) -> Any:
            try:
                return build(*words, **named)
            except Exception as error:
                self._failed_builds.append(build_error(error))
                raise

        cpp_extension._jit_compile = watched

    def make(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Builds ModelNew as the problem's file says, and gives it the weights."""
        seeded(asked["seed"])
        init, kind = asked["init"], self._file.ModelNew
        made = kind(**init) if isinstance(init, dict) else kind(*init)
        self._model = made.to(self._device) if isinstance(made, torch.nn.Module) else made
        return self.load(asked)

    def load(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Puts values into its weights, in place: by name, else by their order."""
        state = asked["state"]
        own = self._model.state_dict() if hasattr(self._model, "state_dict") else {}
        if own.keys() != state.keys():
            shapes = [[v.shape for v in some.values()] for some in (own, state)]
            if shapes[0] != shapes[1]:
                return {"handed": not state}
            state = dict(zip(own, state.values(), strict=True))
            for name, value in state.items():
                own[name].copy_(value)
        else:  # what the candidate does with weights that it loads is part of it
            self._model.load_state_dict(state)
        return {"handed": True}

    def call(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """One call: results when it returns, and later; its inputs then, and where they lie."""
        staged = self._staged(asked["inputs"])
        given = self._placed(staged, asked["slot"])
        found: dict[str, Any] = {}
        with torch.no_grad():
            if asked.get("watch"):
                found |= self._watched(given)
            else:
                by = asked.get("by")
                found["returned"] = (getattr(self._model, by) if by else self._model)(*given)
        returned = found.pop("returned")
        plain = (torch.Tensor, torch.nn.Parameter)
        found["plain"] = all(type(one) in plain for one in outputs(returned))
        results = _results(returned)
        kept = [one.clone() for one in results]
        found["out"] = [one.cpu() for one in kept]
        time.sleep(LATE_S)
        if self._device.startswith("cuda"):
            torch.cuda.synchronize()
        found["late"] = _changed(results, kept)
        found["after"] = _changed(given, staged)
        at = {v.untyped_storage().data_ptr() for v in given if isinstance(v, torch.Tensor)}
        found["alias"] = any(one.untyped_storage().data_ptr() in at for one in results)
        found["earlier"] = _changed(*self._last)
        self._last = results, [one.clone() for one in results]
        return found

    def _watched(self, given: list[Any]) -> dict[str, Any]:
        """A call with its operators; on a GPU one more, before, with its kernels."""
        watched, kernels = Operators(), list[str]()
        if self._device.startswith("cuda"):
            kernels = _kernels_of(lambda: self._model(*given))
        with watched:
            returned = self._model(*given)
        return {"returned": returned, "ops": watched.names, "kernels": kernels}

    def _staged(self, inputs: Sequence[Any]) -> list[Any]:
        return [v.to(self._device) if isinstance(v, torch.Tensor) else v for v in inputs]

    def _placed(self, staged: Sequence[Any], slot: int) -> list[Any]:
        """Values on the device, copied to the addresses that the slot has. On a GPU the stream is
        busy in front of that."""
        own = self._slots.get(slot)
        fits = own is not None and [getattr(v, "shape", v) for v in own] == [
            getattr(v, "shape", v) for v in staged
        ]
        if own is None or not fits:
            own = self._slots[slot] = [
                v.clone() if isinstance(v, torch.Tensor) else v for v in staged
            ]
        if self._device.startswith("cuda"):
            torch.cuda.synchronize()
            torch.cuda._sleep(SLEEP_CYCLES)
        for place, value in zip(own, staged, strict=True):
            if isinstance(place, torch.Tensor):
                place.copy_(value)
        return own

    def place(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Several sets of inputs of the calls that are timed. What was called before is let go."""
        self._slots.clear()
        self._last = [], []
        for number, one in enumerate(asked["sets"]):
            self._placed(self._staged(one), TIMED + number)
        return {}

    def time(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Times of calls over the sets of inputs; it keeps the results of a few."""
        sets = list(self._slots.values())
        calls = [range(timed.FEWEST), range(timed.FEWEST, asked["calls"])]
        draws = random.Random(time.time_ns())
        kept = {n for some in calls for n in draws.sample(some, min(KEPT, len(some)))}
        self._kept.clear()

        def keep(number: int, returned: Any) -> None:
            if number in kept:
                self._kept.append((number % len(sets), [o.clone() for o in _results(returned)]))

        with torch.no_grad():
            us = timed.times_us(
                lambda n: self._model(*sets[n % len(sets)]),
                asked["calls"],
                self._device,
                keep,
            )
        return {"us": us}

    def kept(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Results of timed calls, and which set of inputs each was called with."""
        out = [[o.cpu() for o in one] for _, one in self._kept]
        return {"which": [which for which, _ in self._kept], "out": out}

    def graph(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The call as a CUDA graph, replayed with other values in its inputs."""
        given, other = self._slots[TIMED], self._slots[TIMED + 1]
        with torch.no_grad():
            replay = timed.captured(self._model, given)
            results = _results(replay(0))
            before = [one.clone() for one in results]
            self._placed(other, TIMED)
            kernels = _kernels_of(lambda: replay(0))
            self._kept[:] = [(1, [one.clone() for one in results])]
            untouched = _changed(results, before) is None
            us = timed.times_us(replay, asked["calls"], self._device, lambda *_: None)
        return {"us": us, "kernels": kernels, "untouched": untouched}

    def begin_turns(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Takes a case's arguments and captures the call of them, where there is a GPU."""
        given = [one.to(self._device) for one in asked["inputs"]]
        self._ways: dict[str, Callable[[int], Any]] = {
            "": lambda _: self._model.on_arguments(*given)
        }
        self._turned: Any = None
        with torch.no_grad():
            if self._device.startswith("cuda"):
                self._ways[" graph"] = timed.captured(self._model.on_arguments, given)
        return {}

    def turn(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Times of calls, launched one by one and replayed."""
        found = {}
        with torch.no_grad():
            for kind, call in self._ways.items():
                found[kind] = timed.times_us(call, asked["calls"], self._device, self._keep)
        return {"us": found}

    def _keep(self, _: int, returned: Any) -> None:
        self._turned = returned

    def burst(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Calls one after the other; our process has a clock of its own."""
        call = [*self._ways.values()][-1]
        with torch.no_grad():
            for number in range(asked["calls"]):
                self._turned = call(number)
        if self._device.startswith("cuda"):
            torch.cuda.synchronize()
        return {}

    def end_turns(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The result of the last of these calls."""
        return {"out": [one.cpu() for one in _results(self._turned)]}

    def end(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """What was replaced in torch and in the timers, and which code of its own is loaded."""
        patched = [
            f"{getattr(owner, '__name__', owner)}.{name}"
            for (owner, name), value in self._before.items()
            if vars(owner).get(name) is not value and not _is_torchs(vars(owner).get(name))
        ]
        self._maps.seek(0)
        maps = {line.split()[-1] for line in self._maps.read().splitlines()}
        own = sorted(p for p in maps if p.startswith(os.environ["TMPDIR"]) and ".so" in p)
        state = self._model.state_dict() if hasattr(self._model, "state_dict") else {}
        weights = [value.cpu() for value in state.values()]
        return {
            "patched": patched,
            "libraries": [Path(p).name for p in own],
            "failed_builds": self._failed_builds,
            "weights": weights,
        }


def _kernels_of(call: Callable[[], Any]) -> list[str]:
    """Names of the kernels and copies that a call runs on the GPU."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        call()
        torch.cuda.synchronize()
    return [one.name for one in seen.events() or () if one.device_type.name == "CUDA"]


def build_error(error: Exception) -> str:
    """What an exception says; of a compiler's output the first error alone, without folders."""
    lines = [line.strip() for line in str(error).splitlines()]
    errors = [line for line in lines[1:] if re.search(r"\berror\b|Error:", line)]
    return re.sub(r"/\S*/", "", errors[0])[:190] if errors else why(error)


def _changed(after: Sequence[Any], before: Sequence[Any]) -> list[Any] | None:
    """`after`, on the CPU; None where it is bit by bit what it was `before`."""
    pairs = [(a, b) for a, b in zip(after, before, strict=True) if isinstance(b, torch.Tensor)]
    if all(a.shape == b.shape and torch.equal(_bits(a), _bits(b)) for a, b in pairs):
        return None
    return [v.cpu().clone() if isinstance(v, torch.Tensor) else v for v in after]


def _bits(value: torch.Tensor) -> torch.Tensor:
    return value.reshape(-1).view(torch.uint8)


def _results(returned: Any) -> list[torch.Tensor]:
    """Plain tensors, whatever their class computes."""
    return [one.detach().as_subclass(torch.Tensor) for one in outputs(returned)]


def _is_torchs(value: Any) -> bool:
    """Whether its code is in PyTorch's files: parts that are loaded late replace functions, too."""
    code = getattr(value, "__code__", None)
    return code is not None and code.co_filename.startswith(str(Path(torch.__file__).parent))


def main() -> None:
    path, exchange, device = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    for name, suffix in SUFFIXES.items():
        os.environ[name] = str(Path(os.environ["TMPDIR"]) / suffix)
    line = Handover(exchange)
    candidate: LoadedCandidate | None = None
    while True:
        asked = line.asked()
        try:
            if asked["do"] == "open":
                candidate = LoadedCandidate(path, device)
                found: dict[str, Any] = {}
            else:
                step: Callable[[Mapping[str, Any]], dict[str, Any]]
                step = getattr(candidate, asked["do"])
                found = step(asked)
        except Exception as error:
            traceback.print_exc()
            found = {"failed": build_error(error), "needs": bool(MISSING.search(repr(error)))}
        line.answer(found)


if __name__ == "__main__":
    main()
