"""Contracts of kernels over several GPUs (ranks.toml), and of one rank's launcher."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from astra_chat.tools.task.contract import Arg, Name
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.task_file import (
    SECTIONS,
    problem_lines,
    problems_of,
    task_fields,
)
from astra_chat.tools.types import Case, Value
from astra_vgpu.ground.errors import BadInput

FILE = "ranks.toml"
RANKS, RANK = "ranks", "rank"
"""Names of the dim and of the scalar that a launcher gets: how many ranks, and which of them."""
OWN_FIELDS = ("ranks", "timeout_s", "alike")
PER_RANK = "each_rank"
Role = Literal["read", "state"]


class PeerArray(Value):
    """An argument that is an array of device pointers, one a rank, to memory of that rank's GPU."""

    arg: Arg
    """The memory that each pointer leads to: its dtype and shape."""
    role: Role
    """read: a rank's own is filled before a call, and no kernel writes it; state: zeroed once, then
    the kernels' alone, from call to call."""


class RanksContract(Value):
    """What ranks.toml says beyond the contract of one rank's launcher."""

    ranks: tuple[Annotated[int, Field(ge=2, le=64)], ...] = Field(min_length=1)
    """Numbers of ranks that a group may have."""
    timeout_s: float = Field(gt=0, le=3600)
    """Seconds after which a group is ended, one rank of which reports nothing."""
    alike: tuple[Name, ...] = ()
    """Results of which all ranks must hold the same bits."""
    peers: tuple[PeerArray, ...] = Field(min_length=1)
    """Arguments that lead to peers' memory, in the launcher's order."""

    @model_validator(mode="after")
    def _filled(self) -> RanksContract:
        if not any(peer.role == "read" for peer in self.peers):
            raise ValueError('no argument has each_rank = "read": the ranks exchange nothing')
        if sorted(set(self.ranks)) != list(self.ranks):
            raise ValueError("ranks must ascend, such as [2, 4]")
        return self


class RanksTask(Value):
    """A kernel over several GPUs: its contract, and what one rank's launcher is recorded by."""

    contract: RanksContract
    task: Task
    """The contract of one rank's launcher: arrays of pointers are int64 tensors of one number a
    rank; a dim `ranks` and a scalar `rank` are added."""

    @property
    def shared(self) -> PeerArray:
        """What each rank holds before a call, for its peers to read: the first such argument."""
        return next(peer for peer in self.contract.peers if peer.role == "read")

    def require_ranks(self, ranks: int) -> None:
        """Raises BadInput where a group may not have so many ranks."""
        if ranks not in self.contract.ranks:
            legal = " or ".join(map(str, self.contract.ranks))
            raise BadInput(f"{self.task.name} has {legal} ranks, not {ranks}")

    def of_rank(self, case: Case, rank: int) -> Case:
        """Returns the case as this rank's launcher is called."""
        return case.model_copy(update={"scalars": {RANK: float(rank), **case.scalars}})

    def cases(self, section: Literal["check", "bench"], ranks: int) -> tuple[Case, ...]:
        """Cases of the contract for a group of so many ranks."""
        listed = self.task.check if section == "check" else tuple(c for c, _ in self.task.bench)
        return tuple(case for case in listed if case.dims[RANKS] == ranks)


def load_ranks(folder: Path) -> RanksTask:
    """Reads a folder with ranks.toml, baseline.cu and reference.py.

    Raises BadInput that names file, line and field of what is wrong.
    """
    path = folder / FILE
    for name in (FILE, "baseline.cu", "reference.py"):
        if not (folder / name).is_file():
            raise BadInput(
                f"{folder} is no folder of a kernel over several GPUs: {name} is missing"
            )
    text = path.read_text()
    try:
        raw = tomllib.loads(text)
        own = {name: raw.pop(name) for name in OWN_FIELDS if name in raw}
        peers = [_peer(arg) for arg in _tables(raw, "args") if PER_RANK in arg]
        contract = RanksContract.model_validate({**own, "peers": peers})
        fields = task_fields(_one_rank(raw, contract))
    except ValidationError as error:
        raise BadInput(problem_lines(path, text, problems_of(error))) from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path}: {error}") from None
    try:
        task = Task.model_validate({**fields, "folder": folder.resolve()})
    except ValidationError as error:
        raise BadInput(problem_lines(path, text, problems_of(error))) from None
    if unknown := set(contract.alike) - {arg.name for arg in task.args if arg.written}:
        raise BadInput(f"{path}: alike: {', '.join(sorted(unknown))} is no result")
    return RanksTask(contract=contract, task=task)


def _tables(raw: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Raises ValueError where this is no list of tables."""
    found = raw.get(name, [])
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ValueError(f"{name} must be a list of tables")
    return found


def _peer(arg: dict[str, Any]) -> dict[str, Any]:
    memory = {name: value for name, value in arg.items() if name != PER_RANK}
    return {"arg": {**memory, "access": "read"}, "role": arg[PER_RANK]}


def _one_rank(raw: dict[str, Any], contract: RanksContract) -> dict[str, Any]:
    """The contract of one rank's launcher, as task.toml would say it. Raises ValueError."""
    pointers = {"dtype": "int64", "shape": [RANKS], "access": "read"}
    args = [
        {"name": arg.get("name"), **pointers} if PER_RANK in arg else arg
        for arg in _tables(raw, "args")
    ]
    rank = {"name": RANK, "type": "int64_t", "value": 0, "values": [*range(contract.ranks[-1])]}
    dims = raw.get("dims", {})
    if not isinstance(dims, dict):
        raise ValueError("dims must be a table")
    sections = {name: _for_each(_tables(raw, name), contract.ranks) for name in SECTIONS}
    return {
        **raw,
        **sections,
        "args": args,
        "scalars": [rank, *_tables(raw, "scalars")],
        "dims": {**dims, RANKS: {"values": [*contract.ranks]}},
    }


def _for_each(cases: Sequence[dict[str, Any]], ranks: Sequence[int]) -> list[dict[str, Any]]:
    """Each case once for every number of ranks that it does not name itself."""
    return [{RANKS: number, **case} for case in cases for number in ranks]
