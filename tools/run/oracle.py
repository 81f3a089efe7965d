"""The oracle: inputs and results of cases, made once by the oracle process; and what the task's
reference.py says of outputs, where many are legal."""

from __future__ import annotations

import itertools
import json
import logging
import os
import platform
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal
from weakref import finalize

import numpy as np

from astra_chat.tools.judge_version import judge_sha256
from astra_chat.tools.run.oracle_process import (
    OracleFolders,
    OracleProcess,
    most_processes,
    served_by,
    shared_out,
)
from astra_chat.tools.system.background import remove_soon
from astra_chat.tools.system.subprocesses import Cancelled, Stop
from astra_chat.tools.task.folder import Arg, Task
from astra_chat.tools.types import Case, is_float, sha256_of
from astra_vgpu.ground.cache import cache_folder, in_cache, new_entry
from astra_vgpu.ground.errors import AstraError, BadInput, MissingDependency

logger = logging.getLogger(__name__)

ORACLE_TIMEOUT_S = 600.0
OUTPUTS_TIMEOUT_S = 60.0
YIELD_S = 0.005
READ_BYTES = 2**18
"""Larger files of results are mapped."""
Array = np.ndarray[Any, Any]
ResultDType = Literal["float32", "float64", "int64"]


@dataclass(frozen=True)
class Answer:
    """What reference.py says of the outputs of one call."""

    why: str = ""
    """Why they are not accepted."""
    argument: str = ""
    """Argument with the first place that speaks against the outputs, where accept names one."""
    index: tuple[int, ...] = ()
    """Index of the first place that speaks against the outputs, in `argument`."""
    canonical: Mapping[str, Array] = field(default_factory=dict)
    """Bytes of the outputs in canonical form, by argument; empty where there is none."""


Outputs = Mapping[str, Array]
"""Bytes of every written argument, by name, in row-major order."""


@dataclass(frozen=True)
class OracleCase:
    """One case's inputs and expected outputs, as files."""

    case: Case
    folder: Path
    """Folder of the expected outputs: no runner may read it."""
    inputs: Path
    ask: Callable[[OracleCase, Outputs], Answer] | None = field(
        default=None, compare=False, repr=False
    )
    _read: dict[str, Array] = field(default_factory=dict, init=False, compare=False, repr=False)
    """Results that were read, by the name of their file: several look at them."""
    _names: set[str] = field(default_factory=set, init=False, compare=False, repr=False)

    def input_path(self, arg: Arg) -> Path:
        return self.inputs / f"{arg.name}.in"

    def expected(self, arg: Arg) -> Array:
        """Returns the expected results, flat, in row-major order: float64, or int64 of integers and
        bools that are no codes. Of draws the probabilities, [rows, vocabulary]."""
        return self.numbers(f"{arg.name}.expected", expected_dtype(arg, self.case))

    def numbers(self, name: str, dtype: ResultDType) -> Array:
        """Returns what a file of results holds."""
        if name not in self._read:
            self._read[name] = _read_only(self.folder / name, dtype)
        return self._read[name]

    @property
    def files(self) -> AbstractSet[str]:
        """Names of the files of results; none before they are made."""
        if not self._names:
            with suppress(FileNotFoundError):
                self._names.update(os.listdir(self.folder))  # noqa: PTH208
        return self._names

    def read_again(self) -> OracleCase:
        """Returns this case with nothing read: what is read of it is kept as long as it is."""
        return replace(self)

    @property
    def has_canonical(self) -> bool:
        """Whether outputs are compared in a canonical form; the expected ones are in it."""
        return CANONICAL in self.files

    def judged_together(self, task: Task) -> bool:
        """Whether a part of the outputs says nothing: there is a canonical form, or `accept`."""
        kinds = {arg.judged_by(self.case) for arg in task.args if arg.written}
        return self.has_canonical or "accept" in kinds

    def answer(self, outputs: Outputs) -> Answer:
        """What accept and canonical of reference.py say, in the oracle process."""
        assert self.ask is not None, "made by an oracle"
        return self.ask(self, outputs)


def _read_only(path: Path, dtype: ResultDType) -> Array:
    """The numbers of a file. To read a small one takes a fifth of the time that mapping it does."""
    if path.stat().st_size <= READ_BYTES:
        return np.frombuffer(path.read_bytes(), dtype)
    return np.asarray(np.memmap(path, dtype, mode="r"))


CANONICAL = "canonical"
"""A file beside the expected outputs."""


def expected_dtype(arg: Arg, case: Case) -> Literal["float64", "int64"]:
    """What reference.py gives for an argument: a bool counts as an integer in files."""
    real = is_float(arg.dtype_of(case)) or arg.judged_by(case) in ("quantized", "distribution")
    return "float64" if real else "int64"


class Oracle:
    """Keeps what it made until `close`: candidates of one run share inputs and results."""

    def __init__(self, task: Task) -> None:
        self._task = task
        root = self._root = Path(tempfile.mkdtemp(prefix="astra-oracle-"))
        self._unclosed = finalize(self, shutil.rmtree, root, ignore_errors=True)
        self.inputs = root / "inputs"
        """Holds the inputs of all cases, and nothing that is expected."""
        self._drawn, self._given = self.inputs / "drawn", self.inputs / "given"
        """Inputs that the oracle processes write, and those that they only read."""
        self._expected, self._asked = root / "expected", root / "asked"
        """Results, which the oracle processes write; what they are asked, which they only read."""
        self._removed, self._number = root / "removed", itertools.count()
        """Where forgotten cases lie until their folders are gone."""
        for folder in (self._drawn, self._given, self._expected, self._asked, self._removed):
            folder.mkdir(parents=True)
        folders = OracleFolders(self._asked, self._given, self._expected, self._drawn)
        self._processes = [OracleProcess(task, folders) for _ in range(most_processes())]
        self._kept = KeptResults(task)
        self._one = threading.RLock()
        """Serializes requests to the processes."""
        self._asking, self._quiet = 0, Stop()
        self._ahead: threading.Thread | None = None
        self._sound = False

    def close(self) -> None:
        self._quiet.set()
        if self._ahead:
            self._ahead.join()
        self._end()
        if self._unclosed.detach():
            remove_soon(self._root)

    def prepare(self) -> None:
        """Start the oracle process, which takes a second or two, while others work."""
        self._processes[0].prepare()

    def ahead(self, cases: Sequence[Case]) -> None:
        """Make these in the background, case by case; what is asked for in the meantime comes
        first.

        What fails there is tried again by whoever asks for it. Nothing while others are made so.
        """
        if self._ahead is None or not self._ahead.is_alive():
            self._ahead = threading.Thread(target=self._make_ahead, args=(cases,), daemon=True)
            self._ahead.start()

    def _make_ahead(self, cases: Sequence[Case]) -> None:
        try:
            for case in cases:
                while self._asking:
                    time.sleep(YIELD_S)
                self._complete(
                    [OracleCase(case, *self._folders(case))], self._quiet, lambda _: None
                )
        except (Cancelled, AstraError):
            return

    def place_of(self, case: Case) -> OracleCase:
        """Where a case's inputs and results lie once they are made."""
        return OracleCase(case, *self._folders(case))

    def forget(self, oracle_case: OracleCase) -> None:
        """Delete a case's inputs and results."""
        for folder in (oracle_case.folder, oracle_case.inputs):
            moved = self._removed / f"{next(self._number)}"
            with suppress(FileNotFoundError):
                remove_soon(folder.rename(moved))

    def oracle_cases(
        self,
        cases: Sequence[Case],
        stop: Stop,
        on_case: Callable[[int], None] = lambda _: None,
    ) -> list[OracleCase]:
        """Inputs and results of these cases. `on_case` gets how many of them there are. Raises
        BadInput where reference.py fails."""
        ask = partial(self._answer, stop)
        found = [OracleCase(case, *self._folders(case), ask) for case in cases]
        self._asking += 1
        try:
            self._complete(found, stop, on_case)
        finally:
            self._asking -= 1
        return found

    def on_inputs(self, given: Sequence[tuple[Case, Path]], stop: Stop) -> list[OracleCase]:
        """Results for inputs that are there: each folder holds <arg>.in of every input, which is
        moved to the oracle's own. `forget` deletes them. Raises BadInput where reference.py fails.
        """
        found = []
        for case, folder in given:
            inputs = Path(tempfile.mkdtemp(dir=self._given))
            place = self._expected / inputs.name
            found.append(OracleCase(case, place, inputs, partial(self._answer, stop)))
            for arg in self._task.args:
                if arg.read:
                    shutil.move(folder / f"{arg.name}.in", found[-1].input_path(arg))
        self._asking += 1
        try:
            if found:
                with self._one:
                    self._make(found, stop, lambda _: None, given=True)
        finally:
            self._asking -= 1
        return found

    def _answer(self, stop: Stop, oracle_case: OracleCase, outputs: Outputs) -> Answer:
        """Outputs that reference.py cannot read, or not in time, are not accepted."""
        with (
            self._one,
            tempfile.TemporaryDirectory(dir=self._asked) as shown,
            tempfile.TemporaryDirectory(dir=self._expected) as canonical,
        ):
            for name, content in outputs.items():
                content.tofile(Path(shown) / f"{name}.out")
            item = {
                "case": oracle_case.case.model_dump(),
                "inputs": str(oracle_case.inputs),
                "outputs": shown,
                "canonical": canonical,
            }
            served = False
            try:
                reports = list(self._processes[0].served([item], stop, OUTPUTS_TIMEOUT_S))
                served = True
                return _answered(reports[0], Path(canonical))
            except AstraError as error:
                return Answer(why=str(error))
            finally:
                if not served:
                    self._end()

    def require_sound(self, stop: Stop) -> None:
        """Raises BadInput where reference.py writes its inputs, gives other dtypes than the
        contract says or is not deterministic, on the smallest check case of each dtype; once."""
        smallest: dict[tuple[str, ...], Case] = {}
        for case in sorted(self._task.check, key=self._task.least_bytes):
            smallest.setdefault((case.dtype, *case.types.values()), case)
        cases = list(smallest.values())
        with self._one:
            if self._sound:
                return
            items = [{"case": case.model_dump()} for case in cases]
            reports = list(self._processes[0].served(items, stop, OUTPUTS_TIMEOUT_S))
            for case, report in zip(cases, reports, strict=False):
                if report["kind"] == "failed":
                    raise self._failed(case, report)
                if report["fault"]:
                    where = f"{self._task.reference_place}:{report['line']}"
                    raise BadInput(f"{where}: {report['fault']} (case {case.label})")
            self._sound = True

    def _failed(self, case: Case, report: Mapping[str, Any]) -> BadInput:
        line = f":{report['line']}" if report["line"] else ""
        place = f"{self._task.reference_place}{line}"
        return BadInput(f"{place}: {report['message']} (case {case.label})")

    def _complete(
        self, oracle_cases: Sequence[OracleCase], stop: Stop, on_case: Callable[[int], None]
    ) -> None:
        """Make what is not there."""
        distinct = {oracle_case.folder: oracle_case for oracle_case in oracle_cases}
        if all(folder.is_dir() for folder in distinct):
            return
        with self._one:
            missing = [
                oracle_case for folder, oracle_case in distinct.items() if not folder.is_dir()
            ]
            missing = [oracle_case for oracle_case in missing if not self._took(oracle_case)]
            there = len(distinct) - len(missing)
            if missing:
                self._make(missing, stop, lambda made: on_case(there + made))

    def _took(self, oracle_case: OracleCase) -> bool:
        """Whether the cache had this case, which is there then."""
        if not self._kept.are_of(oracle_case.case):
            return False
        # Out of the oracle process's reach until they are whole.
        scratch, inputs = (Path(tempfile.mkdtemp(prefix="astra-kept-")) for _ in range(2))
        took = self._kept.take(oracle_case.case, {"expected": scratch, "inputs": inputs})
        if took and not oracle_case.inputs.exists():
            inputs.rename(oracle_case.inputs)
            scratch.rename(oracle_case.folder)
            return True
        for folder in (scratch, inputs):
            remove_soon(folder)
        return False

    def _folders(self, case: Case) -> tuple[Path, Path]:
        """Returns the folder of a case's expected outputs and that of its inputs."""
        name = sha256_of(case.key)[:16]
        return self._expected / name, self._drawn / name

    def _make(
        self,
        missing: list[OracleCase],
        stop: Stop,
        on_case: Callable[[int], None],
        *,
        given: bool = False,
    ) -> None:
        """Make the results of these cases and, unless they are `given`, their inputs."""
        scratch = [Path(tempfile.mkdtemp(dir=self._expected)) for _ in missing]
        for oracle_case in missing:
            oracle_case.inputs.mkdir(exist_ok=True)
        sizes = [self._task.least_bytes(t.case) for t in missing]
        shares = shared_out(sizes, len(self._processes))
        items = [
            {
                "case": t.case.model_dump(),
                "folder": str(s),
                "inputs": str(t.inputs),
                "given": given,
                "beside": len(shares) - 1,
            }
            for t, s in zip(missing, scratch, strict=True)
        ]
        made, served = 0, False
        try:
            for place, report in served_by(self._processes, shares, items, stop, ORACLE_TIMEOUT_S):
                oracle_case = missing[place]
                if report["kind"] == "failed":
                    raise self._failed(oracle_case.case, report)
                if note := report["note"]:
                    label = oracle_case.case.label
                    logger.info(
                        "%s: sums of terms are not derived for %s: %s",
                        self._task.name,
                        label,
                        note,
                    )
                scratch[place].rename(oracle_case.folder)
                if not given and self._kept.are_of(oracle_case.case):
                    parts = {"expected": oracle_case.folder, "inputs": oracle_case.inputs}
                    self._kept.keep(oracle_case.case, parts)
                made += 1
                on_case(made)
            served = made == len(missing)
        finally:
            if not served:
                self._end()

    def _end(self) -> None:
        """Stop the processes; the next cases start others."""
        for process in self._processes:
            process.end()


def _answered(report: dict[str, Any], folder: Path) -> Answer:
    if report["kind"] == "failed":
        return Answer(why=f"reference.py cannot judge the output: {report['message']}")
    return Answer(
        why=report["why"],
        argument=report["argument"],
        index=tuple(report["place"]),
        canonical={
            path.stem: np.fromfile(path, dtype=np.uint8) for path in folder.glob("*.canonical")
        },
    )


# The files beside an oracle case's expected results that say how near a midpoint results lie
# (runners/bands.py writes them, check/bands.py judges by them).

STATED, DERIVED = "terms", "derived"
ROUNDED = ("rounded_down", "rounded_up")


def terms_of(oracle_case: OracleCase, arg: Arg) -> tuple[Array, bool] | None:
    """The absolute sum of each element's terms, flat, float32, and whether reference.py states it;
    None where nothing says it."""
    for suffix in (STATED, DERIVED):
        found = _numbers(oracle_case, f"{arg.name}.{suffix}", "float32")
        if found is not None:
            return found, suffix == STATED
    return None


def is_stated(oracle_case: OracleCase, arg: Arg) -> bool:
    """Whether reference.py states the terms, so that each result is judged by its place alone."""
    return f"{arg.name}.{STATED}" in oracle_case.files


def rounded_of(oracle_case: OracleCase, arg: Arg) -> tuple[Array, ...]:
    """Results of a kernel that rounds an intermediate once, like the expected ones; two, as what it
    rounds may be a little less or more. None where the task does not allow that."""
    names = (f"{arg.name}.{suffix}" for suffix in ROUNDED)
    found = [_numbers(oracle_case, name, "float64") for name in names]
    there = tuple(one for one in found if one is not None)
    return there if len(there) == len(ROUNDED) else ()


def _numbers(oracle_case: OracleCase, name: str, dtype: ResultDType) -> Array | None:
    """What a file holds; None where there is none, or nothing in it."""
    if name not in oracle_case.files:
        return None
    found = oracle_case.numbers(name, dtype)
    return found if len(found) else None


# Inputs and expected outputs that every run of a task needs, kept in the cache by their content.
#
# A run draws the seeds of nearly all its cases. Those whose seeds the task states are the same in
# each run: timed cases, and check cases as they are written. An entry is named by all that it
# depends on; its files are copied, and each must have the hash that was noted when it was kept.

KIND, NOTES = "oracle", "files.json"
MOST_BYTES = 2**27
"""Most bytes of a case's files: a 32nd of what the cache holds by default."""
CHUNK_BYTES = 2**20
Folders = Mapping[str, Path]
"""Folders of one case, by what lies in them."""


@dataclass
class KeptResults:
    """The kept cases of one task."""

    task: Task

    @cached_property
    def _stated(self) -> frozenset[str]:
        """Keys of the cases whose seeds the task states."""
        timed = (case for case, _ in (*self.task.demo, *self.task.bench))
        return frozenset(case.key for case in (*self.task.check, *timed))

    def are_of(self, case: Case) -> bool:
        """Whether every run has this case."""
        return case.key in self._stated

    @cached_property
    def _made_by(self) -> str:
        return "\0".join((self.task.id, judge_sha256(), version("torch"), platform.machine()))

    def take(self, case: Case, into: Folders) -> bool:
        """Copy what is kept of a case into these empty folders; False where that is nothing, or was
        changed: then they may hold a part of it."""
        try:
            entry = self._entry(case)
            if not in_cache(entry):
                return False
        except MissingDependency:  # there is no cache
            return False
        try:
            if _taken(entry, into):
                return True
            why: object = "it was changed"
        except (OSError, ValueError, KeyError) as error:
            why = error
        logger.warning("%s: rebuilding %s in the cache: %s", self.task.name, case, why)
        shutil.rmtree(entry, ignore_errors=True)
        return False

    def keep(self, case: Case, made: Folders) -> None:
        """Keep the files of these folders, in which reference.py may have left anything."""
        try:
            if sum(p.lstat().st_size for one in made.values() for p in one.iterdir()) > MOST_BYTES:
                return
            with new_entry(self._entry(case)) as scratch:
                notes = {place: _kept(one, scratch / place) for place, one in made.items()}
                (scratch / NOTES).write_text(json.dumps(notes))
        except (OSError, MissingDependency) as error:
            logger.info("%s: %s is not cached: %s", self.task.name, case, error)

    def _entry(self, case: Case) -> Path:
        return cache_folder(KIND) / sha256_of(f"{self._made_by}\0{case.key}")[:32]


def _kept(folder: Path, target: Path) -> dict[str, str]:
    """Copies the files of a folder, but no link's target; their hashes by name."""
    found = dict[str, str]()
    target.mkdir()
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for name in os.listdir(opened):  # noqa: PTH208
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=opened)
            found[name] = _copied(file, target / name)
    finally:
        os.close(opened)
    return found


def _taken(entry: Path, into: Folders) -> bool:
    """Whether all files of an entry are copied and unchanged."""
    notes = json.loads((entry / NOTES).read_text())
    for place, folder in into.items():
        for name, noted in notes[place].items():
            if Path(name).name != name:
                return False
            file = os.open(entry / place / name, os.O_RDONLY)
            if _copied(file, folder / name) != noted:
                return False
    return True


def _copied(file: int, target: Path) -> str:
    """Copies an opened file, which is closed; the hexadecimal sha256 of what was copied."""
    digest = sha256()
    with os.fdopen(file, "rb") as read, target.open("xb") as written:
        while chunk := read.read(CHUNK_BYTES):
            digest.update(chunk)
            written.write(chunk)
    return digest.hexdigest()
