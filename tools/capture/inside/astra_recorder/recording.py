"""Calls of the wrapped operators, folded: equal ones are one entry with a count."""

from __future__ import annotations

import inspect
import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from astra_recorder.journal import Journal
from astra_recorder.observed import changed, copy_of, merged, values_of, version_of
from astra_recorder.signatures import Signature, Traced, described, named

LOOKED = 4
"""Values are looked at in so many calls of each signature."""
MOST_ENTRIES = 4096
"""Signatures of an operator; calls beyond them are counted together."""
MOST_FLOATS = 8
"""Different values of one float parameter that are kept."""
EVERY_S = 1.0
"""Counts are written so often."""


class FoldedCall:
    """Equal calls."""

    def __init__(self, number: int, names: list[str], floats: list[str]) -> None:
        self.number, self.names, self.float_names = number, names, floats
        self.count = self.looked = self.reported = 0
        self.address_bits = [0] * len(names)
        self.data: dict[str, Any] = {}
        self.values: dict[str, dict[str, Any] | None] = {}
        self.written: dict[str, bool | None] = {}
        self.results: dict[str, Any] | None = None
        self.floats: dict[str, dict[float, int]] = {name: {} for name in floats}

    def counted(self, floats: Iterable[float], addresses: Iterable[int]) -> None:
        """One more call."""
        self.count += 1
        self.address_bits = [
            bits | address for bits, address in zip(self.address_bits, addresses, strict=False)
        ]
        for name, value in zip(self.float_names, floats, strict=False):
            kept = self.floats[name]
            if value in kept or len(kept) < MOST_FLOATS:
                kept[value] = kept.get(value, 0) + 1

    def as_data(self) -> dict[str, Any]:
        """All that is known of these calls."""
        return {
            "number": self.number,
            "count": self.count,
            "looked": self.looked,
            "address_bits": dict(zip(self.names, self.address_bits, strict=True)),
            "args": self.data,
            "values": self.values,
            "written": self.written,
            "results": self.results,
            "floats": {name: list(kept.items()) for name, kept in self.floats.items()},
        }


class Operator:
    """One wrapped operator: its parameters, and its calls."""

    def __init__(self, number: int, name: str, declared: str, names: list[str] | None) -> None:
        self.number, self.name, self.declared = number, name, declared
        self.names = names
        """Names of positional parameters; None: it does not say."""
        self.forget()

    def forget(self) -> None:
        """Begin without a call."""
        self.entries: dict[Any, FoldedCall] = {}
        self.traced = self.beyond = self.unreadable = self.in_graphs = 0
        self.trouble = ""

    def bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """A call's values by the names of parameters."""
        names = list(self.names or ())[: len(args)]
        names += [f"arg{at}" for at in range(len(names), len(args))]
        return dict(named({**dict(zip(names, args, strict=True)), **kwargs}))

    def counters(self) -> dict[str, Any]:
        """What is known beside its entries."""
        return {
            "operator": self.number,
            "traced": self.traced,
            "beyond": self.beyond,
            "unreadable": self.unreadable,
            "in_graphs": self.in_graphs,
            "trouble": self.trouble,
        }


def positional_names(function: Callable[..., Any]) -> tuple[list[str] | None, str]:
    """Names of the positional parameters, and all of the signature as text."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None, ""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [name for name, one in signature.parameters.items() if one.kind in kinds]
    return names, str(signature)


class CallRecorder:
    """All operators of a process."""

    def __init__(self, journal: Journal, contents: Path | None) -> None:
        self._journal, self._contents = journal, contents
        self._operators: list[Operator] = []
        self._lock = threading.RLock()
        self._thread = threading.local()
        self._next_s = time.monotonic() + EVERY_S

    def begin_again(self, journal: Journal) -> None:
        """In a forked process: no call is known, and locks may be held by threads of the other."""
        self._journal, self._lock, self._thread = journal, threading.RLock(), threading.local()
        for operator in self._operators:
            operator.forget()
            self._tell(operator)

    def operator(self, name: str, declared: str, names: list[str] | None) -> Operator:
        """Begin to record an operator."""
        operator = Operator(len(self._operators), name, declared, names)
        self._operators.append(operator)
        self._tell(operator)
        return operator

    def _tell(self, operator: Operator) -> None:
        fields = {"name": operator.name, "declared": operator.declared}
        self._journal.line("operator", operator=operator.number, **fields)

    def traced(self, number: int) -> None:
        """torch.compile takes the operator into a graph."""
        self._operators[number].traced += 1

    def call(
        self,
        operator: Operator,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Call it, and record the call. Whatever fails here is no matter of the program's."""
        if getattr(self._thread, "busy", False):
            return function(*args, **kwargs)
        after = None
        try:
            after = self._before(operator, args, kwargs)
        except Traced:
            operator.traced += 1
        except Exception as error:
            self._failed(operator, error)
        result = function(*args, **kwargs)
        if after is not None:
            try:
                with self._lock, torch.no_grad():
                    self._thread.busy = True
                    after(result)
            except Exception as error:
                self._failed(operator, error)
            finally:
                self._thread.busy = False
        return result

    def _failed(self, operator: Operator, error: Exception) -> None:
        operator.unreadable += 1
        operator.trouble = operator.trouble or f"{type(error).__name__}: {error}"[:300]

    def _before(
        self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Callable[[Any], None] | None:
        """Count the call; what is to be done after it, if its values are looked at."""
        seen = Signature((*args, *kwargs.values()) if kwargs else args)
        key = (seen.key, tuple(kwargs)) if kwargs else seen.key
        with self._lock:
            entry = operator.entries.get(key)
            if entry is None:
                if len(operator.entries) >= MOST_ENTRIES:
                    operator.beyond += 1
                    return None
                entry = self._entered(operator, key, operator.bound(args, kwargs))
            entry.counted(seen.floats, seen.addresses)
            if not entry.count & (entry.count - 1):  # a power of two: a kill loses less than half
                self._write(operator, entry)
            if time.monotonic() > self._next_s:
                self.write_counts()
        if any(tensor.is_cuda for tensor in seen.tensors):
            if torch.cuda.is_current_stream_capturing():
                operator.in_graphs += 1
                return None
        if entry.looked >= LOOKED:
            return None
        with self._lock, torch.no_grad():
            self._thread.busy = True
            try:
                return self._look(operator, entry, operator.bound(args, kwargs))
            finally:
                self._thread.busy = False

    def _entered(self, operator: Operator, key: Any, values: dict[str, Any]) -> FoldedCall:
        tensors = {name: v for name, v in values.items() if isinstance(v, torch.Tensor)}
        if any(tensor.is_meta for tensor in tensors.values()):
            raise Traced
        floats = [name for name, value in values.items() if type(value) is float]
        entry = FoldedCall(len(operator.entries), list(tensors), floats)
        entry.data = described(values)
        operator.entries[key] = entry
        return entry

    def _look(
        self, operator: Operator, entry: FoldedCall, values: dict[str, Any]
    ) -> Callable[[Any], None]:
        """Look at the values before the call; what looks at them after it."""
        entry.looked += 1
        tensors = {name: values[name] for name in entry.names}
        if self._contents and entry.looked == 1:
            file = self._contents / f"{os.getpid()}-{operator.number}-{entry.number}.pt"
            torch.save({name: t.detach().cpu() for name, t in tensors.items()}, file)
        for name, tensor in tensors.items():
            entry.values[name] = merged(entry.values.get(name), values_of(tensor))
        before = {name: (version_of(t), copy_of(t)) for name, t in tensors.items()}

        def after(result: Any) -> None:
            for name, tensor in tensors.items():
                wrote = changed(tensor, *before[name])
                known = entry.written.get(name)
                entry.written[name] = wrote if known is None else known or bool(wrote)
            given = dict(named({"result": result}))
            both = described({**values, **given})
            entry.results = {name: both[name] for name in given if result is not None}
            self._write(operator, entry)

        return after

    def write_counts(self) -> None:
        """Write what has changed since the last time."""
        self._next_s = time.monotonic() + EVERY_S
        for operator in self._operators:
            for entry in list(operator.entries.values()):
                if entry.count != entry.reported:
                    self._write(operator, entry)
            self._journal.line("counters", **operator.counters())

    def _write(self, operator: Operator, entry: FoldedCall) -> None:
        entry.reported = entry.count
        self._journal.line("entry", operator=operator.number, **entry.as_data())

    def end(self) -> None:
        """The process ends as it should."""
        with self._lock:
            self.write_counts()
            self._journal.line("end")
