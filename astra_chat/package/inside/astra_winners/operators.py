"""Winners by operator: each decides at its first call whether it runs here, and at each call
whether the call is one of its contract's.

The contract is checked by the module itself, in C++, before anything is launched: what it does not
allow raises ValueError or TypeError, and the original runs.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from astra_winners.counting import COUNTERS, FELL_BACK, OFF, TOOK
from astra_winners.rows import Rows, dims_of

FOLDER = Path(__file__).resolve().parent
PACKAGED = json.loads((FOLDER / "winners.json").read_text())
DETERMINISTIC = "SGLANG_ENABLE_DETERMINISTIC_INFERENCE"
TRIAL = "ASTRA_WINNERS_TRIAL"
"""Set where a package that no engine has proved yet may run."""
log = logging.getLogger("astra_winners")


def gpu() -> tuple[str, str]:
    """Name of this process's GPU, and its architecture as compilers write it."""
    major, minor = torch.cuda.get_device_capability()
    return torch.cuda.get_device_name(), f"sm_{major}{minor}"


def ranks() -> int:
    """Processes that hold one model together."""
    distributed = torch.distributed
    together = distributed.is_available() and distributed.is_initialized()
    return distributed.get_world_size() if together else 1


def module_function(path: Path, entry: str) -> Callable[..., None]:
    """The launcher in a module of tvm-ffi."""
    import tvm_ffi

    function: Callable[..., None] = tvm_ffi.load_module(str(path))[entry]
    return function


class Operator:
    """A winner in this process."""

    def __init__(self, name: str, made: Mapping[str, Any]) -> None:
        self.name, self._made = name, made
        self.hooked = False
        """The plugin set a hook that may call it."""
        self.wanted = False
        """It may take calls: it is hooked and switched on."""
        self.off = ""
        """Why it takes no calls in this process; empty: it does, or nothing was decided yet."""
        self.others: list[Callable[[], str]] = []
        """Each says which other plugin has a hook where this one has its own; empty: none."""
        self.calls: list[dict[str, Any]] | None = None
        """Dtype and dims of the calls that it took, each once; None: nobody asks."""
        self._decided: bool | None = None
        self._function: Callable[..., None] | None = None
        self._rows: Rows | None = None

    def ready(self) -> bool:
        """Whether it may take calls in this process. The first call decides, when the engine has
        chosen its GPU; one log line says why not."""
        if self._decided is None:
            try:
                why = self._why_not()
            except Exception as error:  # a server runs without a winner, too
                why = f"{type(error).__name__}: {error}".partition("\n")[0]
            self._decided, self.off = not why, why
            if why:
                log.warning("astra: %s: running the original: %s", self.name, why)
                COUNTERS.add(self.name, OFF, why)
        return self._decided

    def launch(self, *arguments: Any) -> bool:
        """Run the winner; False: nothing was launched, and the original has to run."""
        if self._rows is not None and (why := self._rows.slower(arguments, self._dtype(arguments))):
            return self.falls_back(why)
        try:
            assert self._function is not None
            self._function(*arguments)
        except (ValueError, TypeError) as error:
            return self.falls_back(str(error).partition("\n")[0])
        COUNTERS.add(self.name, TOOK)
        if self.calls is not None:
            self._note(arguments)
        return True

    def falls_back(self, why: str) -> bool:
        COUNTERS.add(self.name, FELL_BACK, why)
        return False

    def _note(self, arguments: Sequence[Any]) -> None:
        call = {"dtype": self._dtype(arguments), "dims": dims_of(arguments, self._made["dims"])}
        if self.calls is not None and call not in self.calls:
            self.calls.append(call)

    def _dtype(self, arguments: Sequence[Any]) -> str:
        place = self._made["typed_by"]
        return "" if place is None else str(arguments[place].dtype).removeprefix("torch.")

    def _why_not(self) -> str:
        name, arch = gpu()
        proved, known = PACKAGED["ranks"], PACKAGED["gpus"]
        if not self.wanted:
            return "it is switched off"
        if arch != PACKAGED["arch"]:
            return f"it was built for {PACKAGED['arch']}, but {name} is {arch}"
        if known and name not in known:
            return f"it was proved on {', '.join(known)}, but this is {name}"
        if os.environ.get(DETERMINISTIC, "").lower() in ("1", "true", "yes", "on"):
            return "deterministic inference is on, and no winner was judged for it"
        if proved and ranks() > proved:
            processes = f"{proved} process{'es' * (proved > 1)}"
            return f"it was proved with {processes}, but {ranks()} share this model"
        others = filter(None, (one() for one in self.others))
        return next(others, "") or self._load(name)

    def _load(self, gpu_name: str) -> str:
        self._function = module_function(FOLDER / self._made["module"], self._made["entry"])
        rows = self._made["rows"].get(gpu_name, [])
        steps = self._made["steps"].get(gpu_name, [])
        self._rows = Rows(rows, self._made["dims"], steps) if rows or steps else None
        return ""


def switched_on() -> set[str]:
    """Operators that ASTRA_WINNERS lets run: all, off, or names with commas between."""
    if PACKAGED.get("trial") and not os.environ.get(TRIAL):
        log.warning("astra: no winner runs: this package works only in `astra-chat step`")
        return set()
    text = os.environ.get("ASTRA_WINNERS", "all").strip()
    names = {name.strip() for name in text.split(",") if name.strip()}
    if names == {"all"}:
        return set(OPERATORS)
    if names <= {"off"}:
        return set()
    if unknown := names - set(OPERATORS):
        log.warning(
            "astra: ASTRA_WINNERS names operators that this package does not have: %s",
            ", ".join(sorted(unknown)),
        )
    return names & set(OPERATORS)


def switch(names: Sequence[str]) -> None:
    """From now on, these take calls where the plugin set a hook for them, and no others."""
    for name, operator in OPERATORS.items():
        operator.wanted = operator.hooked and name in names


def calls() -> dict[str, list[dict[str, Any]]]:
    """Dtype and dims of the calls that each operator took since this was asked last."""
    found = {name: operator.calls for name, operator in OPERATORS.items() if operator.calls}
    for operator in OPERATORS.values():
        operator.calls = []
    return found


def off(name: str) -> str:
    """Why an operator takes no calls in this process; empty: it does."""
    return OPERATORS[name].off


OPERATORS = {name: Operator(name, made) for name, made in PACKAGED["operators"].items()}
