"""Where each run of a campaign stands: from its transcript, which is all that counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import Literal, TypeAlias

from astra_chat.campaign.plan import RunPlan, mailboxes_of, transcript_of
from astra_chat.mailbox.questions import is_open
from astra_chat.session.advance import standing_of
from astra_chat.tools.types import Basis, Device, Timed, Value
from astra_chat.transcript.events import Judged, Record
from astra_chat.transcript.reader import Transcript, read
from astra_chat.transcript.summary import RunSummary, Timing, summarize
from astra_chat.transcript.time_use import TimeUse
from astra_chat.transcript.under_way import locked_inodes, state_of_run
from astra_vgpu.ground.errors import BadInput
from astra_vgpu.ground.gpu_specs import spec

RowState: TypeAlias = Literal[
    "new", "running", "waiting", "ended", "stopped", "failed", "left_out", "unreadable"
]
"""new: not begun; stopped: can be resumed; left_out: the campaign's budget does not suffice."""


class CampaignRow(Value):
    """One run and what came of it so far."""

    plan: RunPlan
    state: RowState = "new"
    words: str = ""
    transcript: str = ""
    """Below the campaign's folder; "" before the run has begun."""
    outcome: str = ""
    """Why its chat ended, "" while it has not."""
    device: str = ""
    """Name of the GPU; that of a virtual one begins with "virtual"."""
    basis: Basis | None = None
    """measured or estimated; None: nothing was timed."""
    best: Timing | None = None
    """The last timing of the winner; None: no candidate was faster than the baseline."""
    search: tuple[float, ...] = ()
    """Best speed-up of the search after each evaluation, the baseline's first; 1 before any."""
    evaluations: int = 0
    tokens: int = 0
    usd: float | None = 0.0
    """US dollars of all answers; None: the price of some is not known."""
    gpu_s: float = 0.0
    energy_j: float | None = None
    """Joules that the run's GPU used while the run held it; None: NVML said nothing."""
    gpu_busy: float | None = None
    """NVML's mean utilization of the run's GPU while the run held it, 0 to 1; None: NVML said
    nothing."""
    seconds: float = 0.0
    time_use: TimeUse = TimeUse()
    """Where the run's seconds went."""

    def fails(self, words: str) -> CampaignRow:
        """Returns the row of a run that could not be held, and why."""
        return self.model_copy(update={"state": "failed", "words": words})


def row_of(folder: Path, plan: RunPlan, locked: Set[int] | None = None) -> CampaignRow:
    """Returns where a run stands, by its transcript. `locked`: inodes of the files that some
    process writes, where they are known already."""
    path = transcript_of(folder, plan)
    if not path.exists() or not path.stat().st_size:
        return CampaignRow(plan=plan)
    name = str(path.relative_to(folder))
    running = path.stat().st_ino in (locked_inodes() if locked is None else locked)
    try:
        transcript = read(path)
    except BadInput as error:
        state: RowState = "running" if running else "unreadable"
        return CampaignRow(plan=plan, state=state, words=str(error), transcript=name)
    return _row(plan, transcript, running).model_copy(update={"transcript": name})


def _row(plan: RunPlan, transcript: Transcript, running: bool) -> CampaignRow:
    state, words = state_of_run(transcript.records, running)
    summary, ended = summarize(transcript.records), transcript.ended
    reason = ended.reason if ended is not None and not running else ""
    timed = summary.best or summary.baseline
    spent = summary.spent
    return CampaignRow(
        plan=plan,
        state=_state(state, reason),
        words=words if not reason == "error" else _error(summary) or words,
        outcome=reason,
        device=_device(summary.device),
        basis=timed.basis if timed else None,
        best=summary.best,
        search=tuple(_search(transcript.records)) if timed else (),
        evaluations=spent.runs,
        tokens=spent.tokens.total,
        usd=spent.tokens.usd,
        gpu_s=spent.gpu_s,
        energy_j=spent.energy_j,
        gpu_busy=spent.gpu_busy,
        seconds=summary.seconds,
        time_use=summary.time_use,
    )


def _state(state: RowState, reason: str) -> RowState:
    """A run that has spent its budget did what the campaign asked for."""
    known: dict[str, RowState] = {
        "budget": "ended",
        "error": "failed",
        "baseline_failed": "failed",
    }
    return known.get(reason, state)


def _search(records: Sequence[Record]) -> Iterator[float]:
    """A confirmation is an evaluation that finds nothing new."""
    best = 1.0
    for record in records:
        if isinstance(record.event, Judged):
            found = record.event.evaluation
            timed = found.outcome
            gain = isinstance(timed, Timed) and timed.verdict == "accepted" and not found.confirms
            if gain and isinstance(timed, Timed):
                best = max(best, timed.ratio)
            yield best


def _device(device: Device) -> str:
    """ "NVIDIA H200" or "virtual NVIDIA H200"."""
    return device.name if device.kind == "cuda" else f"virtual {spec(device.spec).name}"


def _error(summary: RunSummary) -> str:
    return summary.ended.error if summary.ended else ""


def can_go_on(folder: Path, row: CampaignRow, judge_again: bool = False) -> bool:
    """Whether a run that waits has what it waits for: its answer in a mailbox, or its job's result.
    `judge_again`: whoever judges does so only where the run asks, so a job is tried again."""
    path = transcript_of(folder, row.plan)
    try:
        ended = read(path).ended
    except BadInput:
        return True
    if ended is not None and ended.question:
        return not any(is_open(box, ended.question) for box in mailboxes_of(row.plan, folder))
    found = standing_of(path)
    return judge_again or (found is not None and found.ready)
