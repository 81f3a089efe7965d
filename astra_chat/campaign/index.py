"""index.json: a campaign as one document. All in it but the plan and the time that passed can be
made again from the file and the transcripts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field, ValidationError

from astra_chat.campaign.campaign_file import CampaignFile
from astra_chat.campaign.plan import RunPlan
from astra_chat.campaign.rows import CampaignRow, row_of
from astra_chat.tools.system.files import locked, write_whole
from astra_chat.tools.types import Value
from astra_chat.transcript.time_use import TimeUse, sum_of
from astra_chat.transcript.under_way import locked_inodes
from astra_vgpu.ground.errors import BadInput, reading

INDEX, LOCK = "index.json", ".lock"


class Totals(Value):
    """Totals over all runs of a campaign."""

    runs: int
    ended: int
    evaluations: int
    tokens: int
    usd: float | None
    gpu_s: float
    energy_j: float | None = None
    """Joules that the GPUs used while runs held them, by NVML; None: it said nothing."""
    time_use: TimeUse = TimeUse()
    """Where the time of all runs went, added up: runs may lie side by side."""
    gpu_share: dict[str, float] = Field(default_factory=dict)
    """Part of wall_s in which evaluations held a GPU's lease, by the GPU's name; more than 1 where
    checks shared it. The wait for it is in time_use."""
    gpu_busy: dict[str, float] = Field(default_factory=dict)
    """NVML's mean utilization of a GPU while evaluations held its lease, 0 to 1, by the GPU's name;
    without runs of which NVML said nothing."""
    wall_s: float
    """Seconds in which a driver was there."""


class Index(Value):
    """A campaign: its file, its runs and their totals."""

    model_config = ConfigDict(serialize_by_alias=True)

    schema_name: Literal["astra-chat/campaign/1"] = Field("astra-chat/campaign/1", alias="schema")
    file: CampaignFile
    runs: tuple[CampaignRow, ...]
    totals: Totals


def index_of(file: CampaignFile, rows: Sequence[CampaignRow], wall_s: float) -> Index:
    prices = [row.usd for row in rows]
    known = [one for one in prices if one is not None]
    energies = [row.energy_j for row in rows if row.energy_j is not None]
    totals = Totals(
        runs=len(rows),
        ended=sum(row.state == "ended" for row in rows),
        evaluations=sum(row.evaluations for row in rows),
        tokens=sum(row.tokens for row in rows),
        usd=sum(known) if len(known) == len(prices) else None,
        gpu_s=round(sum(row.gpu_s for row in rows), 3),
        energy_j=round(sum(energies), 3) if energies else None,
        wall_s=round(wall_s, 3),
        time_use=sum_of(row.time_use for row in rows),
        gpu_share=_gpu_share(rows, wall_s),
        gpu_busy=_gpu_busy(rows),
    )
    return Index(schema="astra-chat/campaign/1", file=file, runs=tuple(rows), totals=totals)


def _gpu_share(rows: Sequence[CampaignRow], wall_s: float) -> dict[str, float]:
    held: defaultdict[str, float] = defaultdict(float)
    for row in rows:
        if row.gpu_s and wall_s:
            held[row.device] += row.gpu_s / wall_s
    return {name: round(share, 4) for name, share in held.items()}


def _gpu_busy(rows: Sequence[CampaignRow]) -> dict[str, float]:
    """Returns the mean utilization by the GPU's name, weighted by the seconds for which runs held
    it."""
    busy_s, held_s = defaultdict[str, float](float), defaultdict[str, float](float)
    for row in rows:
        if row.gpu_busy is not None:
            busy_s[row.device] += row.gpu_busy * row.gpu_s
            held_s[row.device] += row.gpu_s
    return {name: round(busy_s[name] / of_s, 4) for name, of_s in held_s.items() if of_s}


def write_index(folder: Path, index: Index) -> None:
    """Write index.json in a campaign's folder, whole or not at all. Raises BadInput."""
    write_whole(folder / INDEX, (index.model_dump_json(indent=2) + "\n").encode())


def read_index(folder: Path) -> Index:
    """Returns the index of a campaign's folder as it was written last. Raises BadInput."""
    path = folder / INDEX
    with reading(path):
        text = path.read_text(encoding="utf-8")
    try:
        return Index.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise BadInput(f"{path} is not a campaign index: {where}: {first['msg']}") from None


def present(index: Index, folder: Path) -> Index:
    """Returns the index with every run as its transcript has it now; runs that failed or were left
    out stay marked as such."""
    locked = locked_inodes()
    rows = [now(folder, row.plan, row, locked) for row in index.runs]
    return index_of(index.file, rows, index.totals.wall_s)


def now(folder: Path, plan: RunPlan, before: CampaignRow | None, locked: set[int]) -> CampaignRow:
    """Where a run stands; `before`: as it was known last."""
    row = row_of(folder, plan, locked)
    kept = before is not None and before.state in ("failed", "left_out")
    if before is not None and kept and row.state in ("new", "stopped"):
        return row.model_copy(update={"state": before.state, "words": before.words})
    return row


@contextmanager
def driving(folder: Path) -> Iterator[None]:
    """Keep a second driver from the folder; the lock goes with the process. Raises BadInput."""
    path = folder / LOCK
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}") from None
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(path, wait=False))
        except BlockingIOError:
            raise BadInput(f"{folder}: another process is running this campaign") from None
        yield
