"""What task.toml says of a kernel over several GPUs: how many ranks, and what each holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from astra_chat.tools.task.contract import Arg, Name
from astra_chat.tools.task.task_file import SECTIONS
from astra_chat.tools.types import Case, Value
from astra_vgpu.ground.errors import BadInput

RANKS, RANK = "ranks", "rank"
"""Names of the dim and of the scalar that a launcher gets: how many ranks, and which of them."""
OWN_FIELDS = ("timeout_s", "alike")
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
    """What a contract says beyond that of one rank's launcher.

    Arrays of pointers are int64 arguments of one number a rank; the dim `ranks` and the scalar
    `rank` are added to what task.toml lists.
    """

    numbers: tuple[Annotated[int, Field(ge=2, le=64)], ...] = Field(min_length=1)
    """Numbers of ranks that a group may have."""
    timeout_s: float = Field(default=20.0, gt=0, le=3600)
    """Seconds after which a group is ended, one rank of which reports nothing."""
    alike: tuple[Name, ...] = ()
    """Results of which all ranks must hold the same bits."""
    peers: tuple[PeerArray, ...] = Field(min_length=1)
    """Arguments that lead to peers' memory, in the launcher's order."""

    @model_validator(mode="after")
    def _filled(self) -> RanksContract:
        if not any(peer.role == "read" for peer in self.peers):
            raise ValueError('no argument has each_rank = "read", so the ranks exchange nothing')
        if sorted(set(self.numbers)) != list(self.numbers):
            raise ValueError("ranks must be in ascending order, such as [2, 4]")
        return self

    @property
    def shared(self) -> PeerArray:
        """What each rank holds before a call, for its peers to read: the first such argument."""
        return next(peer for peer in self.peers if peer.role == "read")

    def role_of(self, name: str) -> Role | None:
        """Returns the role of an argument; None where it is no array of pointers."""
        return next((peer.role for peer in self.peers if peer.arg.name == name), None)

    def require(self, ranks: int) -> None:
        """Raises BadInput where a group may not have so many ranks."""
        if ranks not in self.numbers:
            legal = " or ".join(map(str, self.numbers))
            raise BadInput(f"the task allows {legal} ranks, not {ranks}")


def of_rank(case: Case, rank: int) -> Case:
    """Returns the case as this rank's launcher is called."""
    return case.model_copy(update={"scalars": {**case.scalars, RANK: float(rank)}})


def of_all(case: Case) -> Case:
    """Returns the case as all ranks have it."""
    scalars = {name: value for name, value in case.scalars.items() if name != RANK}
    return case.model_copy(update={"scalars": scalars})


def with_ranks(raw: dict[str, Any]) -> dict[str, Any]:
    """A task.toml as that of one rank's launcher, with the field `ranks` for the rest; as it was
    where it names no ranks. Raises ValueError and pydantic's ValidationError."""
    args = _tables(raw, "args")
    if RANKS not in raw:
        if any(PER_RANK in arg for arg in args) or set(OWN_FIELDS) & set(raw):
            raise ValueError(
                "ranks is missing: each_rank, timeout_s and alike apply only to kernels over"
                " several GPUs"
            )
        return raw
    fields = dict(raw)
    own = {name: fields.pop(name) for name in OWN_FIELDS if name in fields}
    peers = [_peer(arg) for arg in args if PER_RANK in arg]
    if not peers:
        raise ValueError("ranks is set, but no argument has each_rank")
    contract = RanksContract.model_validate({"numbers": fields.pop(RANKS), "peers": peers, **own})
    written = {arg.get("name") for arg in args if arg.get("access") in ("write", "readwrite")}
    if unknown := set(contract.alike) - written:
        raise ValueError(f"alike: {', '.join(sorted(unknown))} is not a result")
    return {**_one_rank(fields, contract), RANKS: contract}


def _tables(raw: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Tables of a list; none where it is no list of tables, which others report."""
    found = raw.get(name, [])
    if not isinstance(found, list):
        return []
    return [one for one in found if isinstance(one, dict)]


def _peer(arg: dict[str, Any]) -> dict[str, Any]:
    memory = {name: value for name, value in arg.items() if name != PER_RANK}
    return {"arg": {**memory, "access": "read"}, "role": arg[PER_RANK]}


def _one_rank(raw: dict[str, Any], contract: RanksContract) -> dict[str, Any]:
    """The contract of one rank's launcher. Raises ValueError."""
    pointers = {"dtype": "int64", "shape": [RANKS], "access": "read"}
    args = [
        {"name": arg.get("name"), **pointers} if PER_RANK in arg else arg
        for arg in _tables(raw, "args")
    ]
    numbers = [*range(contract.numbers[-1])]
    rank = {"name": RANK, "type": "int64_t", "value": 0, "values": numbers}
    dims = raw.get("dims", {})
    if not isinstance(dims, dict):
        raise ValueError("dims must be a table")
    sections = {name: _for_each(_tables(raw, name), contract.numbers) for name in SECTIONS}
    return {
        **raw,
        **sections,
        "args": args,
        "scalars": [rank, *_tables(raw, "scalars")],
        "dims": {**dims, RANKS: {"values": [*contract.numbers]}},
    }


def _for_each(cases: Sequence[dict[str, Any]], ranks: Sequence[int]) -> list[dict[str, Any]]:
    """Each case once for every number of ranks that it does not name itself."""
    return [{RANKS: number, **case} for case in cases for number in ranks]
