"""The driver of a campaign: starts the chats, as many at once as file and budgets allow, follows
them, and writes down where each stands. It keeps nothing that cannot be found again: killed, it is
started once more."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from astra_chat.campaign.campaign_file import CampaignFile
from astra_chat.campaign.index import Index, index_of, now, read_index, write_index
from astra_chat.campaign.plan import plans_of, run_arguments, transcript_of
from astra_chat.campaign.rows import CampaignRow, can_go_on, row_of
from astra_chat.spending.budget import Budget
from astra_chat.transcript.run_folder import LOG
from astra_chat.transcript.under_way import locked_inodes
from astra_vgpu.ground.errors import BadInput

Amounts = dict[str, float]
UNITS = ("tokens", "usd", "evaluations", "gpu_s")
"""What runs spend side by side; the campaign's wall_s is the driver's to keep."""


def spent_by(row: CampaignRow) -> Amounts:
    """What a run has spent; an unknown price is no small one."""
    usd = math.inf if row.usd is None else row.usd
    return {
        "tokens": row.tokens,
        "usd": usd,
        "evaluations": row.evaluations,
        "gpu_s": row.gpu_s,
    }


def allotted(
    own: CampaignRow, run: Budget, whole: Budget, others: Iterable[Mapping[str, float]]
) -> Budget | None:
    """The budget of a run beside others, of which each has spent so much, or may; None: too little
    is left."""
    taken = list(others)
    given = run.model_dump(exclude_none=True)
    for unit in UNITS:
        limit = getattr(whole, unit)
        if limit is None:
            continue
        left = limit - sum(one.get(unit, 0.0) for one in taken)
        if left <= spent_by(own)[unit] or given.get(unit, 0) > left:
            return None
        given.setdefault(unit, left)
    return Budget.model_validate(given)


def reserved(row: CampaignRow, budget: Budget) -> Amounts:
    """What a run under way may still have spent at its end."""
    spent = spent_by(row)
    return {unit: max(spent[unit], getattr(budget, unit) or 0.0) for unit in UNITS}


def used_up(whole: Budget, rows: Iterable[CampaignRow]) -> str:
    """What of the campaign's budget does not suffice for one more run, for the reader."""
    taken = [spent_by(row) for row in rows]
    parts = [
        f"{unit}: {sum(one[unit] for one in taken):,.6g} of {limit:,.6g} spent"
        for unit in UNITS
        if (limit := getattr(whole, unit)) is not None
    ]
    return "the campaign's budget does not cover another run: " + ", ".join(parts)


LOOK_S = 1.0
ASK_AGAIN_S = 10.0
"""Seconds between two tries of a host or a cluster that failed; each try is a process."""
RELEASED_S = 60.0
"""Seconds in which a run whose driver was killed has to let go of its transcript."""
NOTE = "astra-chat: "


@dataclass
class Chat:
    """A run under way."""

    process: asyncio.subprocess.Process
    log: Path
    begins: int
    """Byte at which its own lines begin in the log."""

    def last_note(self) -> str:
        """Why it failed, in its own words."""
        lines = self.log.read_bytes()[self.begins :].decode(errors="replace").splitlines()
        notes = [line.removeprefix(NOTE) for line in lines if line.startswith(NOTE)]
        return notes[0] if notes else (lines[-1] if lines else "it printed nothing")


class Driver:
    """One session of a campaign."""

    def __init__(
        self,
        file: CampaignFile,
        folder: Path,
        before: Index | None,
        changed: Callable[[CampaignRow], None],
        looked: Callable[[Index], None] = lambda _: None,
        trust: bool = False,
        wait: bool = False,
    ) -> None:
        """`changed` hears of each run that begins, ends or fails, `looked` of the whole about once
        a second. `wait`: stay until runs that wait for a judge or an answer have it."""
        self._file, self._folder, self._trust, self._wait = file, folder, trust, wait
        self._changed, self._looked = changed, looked
        self._before_s = before.totals.wall_s if before else 0.0
        self._began = time.monotonic()
        self._rows = _rows(file, folder, before)
        richer = before is not None and _budgets(before.file) != _budgets(file)
        self._queue = deque(i for i, row in self._rows.items() if _to_go(row, richer))
        self._chats: dict[str, Chat] = {}
        self._budgets: dict[str, Budget] = {}
        """Budgets of the runs that were started and have not ended, by the run's id."""
        self._stops: signal.Signals | None = None

    def run(self) -> Index:
        """Drive the runs until nothing more can be done here, and return the index."""
        asyncio.run(self._drive())
        return self._index()

    async def _drive(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        loop.add_signal_handler(signal.SIGTERM, self._stop, signal.SIGTERM)
        tasks: set[asyncio.Task[None]] = set()
        while True:
            while self._stops is None and len(tasks) < self._file.at_once and self._queue:
                if not self._start_next(tasks):
                    break
            self._write()
            if not tasks and not await self._more():
                return
            if tasks:
                _, tasks = await asyncio.wait(
                    tasks, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED
                )
            self._look()

    def _start_next(self, tasks: set[asyncio.Task[None]]) -> bool:
        """Start the next run, or leave it out where nothing under way could give back the budget
        that it lacks; False: later."""
        name = self._queue[0]
        row = self._rows[name]
        others = [self._claim(other) for other in self._rows.values() if other is not row]
        budget = allotted(row, self._file.run_budget, self._file.budget, others)
        if budget is None and tasks:
            return False
        self._queue.popleft()
        if budget is None:
            words = used_up(self._file.budget, self._rows.values())
            self._set(row.model_copy(update={"state": "left_out", "words": words}))
            return True
        self._set(row.model_copy(update={"state": "running", "words": "starts"}))
        self._budgets[name] = budget
        tasks.add(asyncio.create_task(self._hold(name, budget)))
        return True

    def _claim(self, row: CampaignRow) -> dict[str, float]:
        budget = self._budgets.get(row.plan.id)
        return reserved(row, budget) if budget is not None else spent_by(row)

    async def _hold(self, name: str, budget: Budget) -> None:
        """Hold one session of a run, in a process of its own."""
        plan = self._rows[name].plan
        path = transcript_of(self._folder, plan)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            await _released(path)
            arguments = run_arguments(plan, self._file, self._folder, budget, self._trust)
            with (path.parent / LOG).open("ab") as log:
                process = await _chat(arguments, log)
                self._chats[name] = Chat(process, path.parent / LOG, log.tell())
            if self._stops is not None:
                process.send_signal(self._stops)
            code = await process.wait()
            row = row_of(self._folder, plan)
            held = row.state not in ("new", "stopped", "unreadable")
            if not held and code and self._stops is None:
                row = row.fails(self._chats[name].last_note())
        except (OSError, BadInput) as error:
            row = row_of(self._folder, plan).fails(str(error))
        finally:
            self._chats.pop(name, None)
            del self._budgets[name]
        self._set(row)

    def _set(self, row: CampaignRow) -> None:
        self._rows[row.plan.id] = row
        self._changed(row)

    def _look(self) -> None:
        """See how far the runs are, what has become possible, and whether time is up."""
        locked = locked_inodes()
        for name in self._chats:
            row = row_of(self._folder, self._rows[name].plan, locked)
            self._rows[name] = row.model_copy(update={"state": "running"})
        for name, row in self._rows.items():
            waits = row.state == "waiting" and name not in self._queue
            if waits and self._stops is None and can_go_on(self._folder, row):
                self._queue.append(name)
        limit = self._file.budget.wall_s
        if limit is not None and self._wall_s >= limit and self._stops is None:
            self._stop(signal.SIGINT)
        self._looked(self._index())

    async def _more(self) -> bool:
        """Whether something is left to be done, or waited for."""
        if self._stops is not None:
            return False
        if self._queue:
            return True
        if not self._wait or all(row.state != "waiting" for row in self._rows.values()):
            return False
        files = self._file.judge in ("local", "detached")
        await asyncio.sleep(LOOK_S if files else ASK_AGAIN_S)
        if not files:  # a host or a cluster, which the run itself asks
            waiting = (n for n, row in self._rows.items() if row.state == "waiting")
            self._queue.extend(
                n for n in waiting if can_go_on(self._folder, self._rows[n], judge_again=True)
            )
        return True

    def _interrupt(self) -> None:
        self._stop(signal.SIGINT if self._stops is None else signal.SIGTERM)

    def _stop(self, how: signal.Signals) -> None:
        """Start nothing more; SIGINT lets each run finish its turn, SIGTERM does not."""
        self._stops = how
        for chat in self._chats.values():
            if chat.process.returncode is None:
                chat.process.send_signal(how)

    @property
    def interrupted(self) -> bool:
        """Whether a signal, or the end of the campaign's time, cut it short."""
        return self._stops is not None

    @property
    def _wall_s(self) -> float:
        return self._before_s + time.monotonic() - self._began

    def _index(self) -> Index:
        return index_of(self._file, list(self._rows.values()), self._wall_s)

    def _write(self) -> None:
        write_index(self._folder, self._index())


async def _chat(arguments: Sequence[str], log: BinaryIO) -> asyncio.subprocess.Process:
    """Start it in a session of its own: a Ctrl-C reaches it through the driver alone."""
    module = "astra_chat.campaign.chat"
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        str(os.getpid()),
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )


async def _released(path: Path) -> None:
    """Wait for a run that a killed driver has left, which ends by itself. Raises BadInput."""
    began = time.monotonic()
    while path.exists() and path.stat().st_ino in locked_inodes():
        if time.monotonic() - began > RELEASED_S:
            raise BadInput(f"{path} is being written by another process")
        await asyncio.sleep(0.1)


def _rows(file: CampaignFile, folder: Path, before: Index | None) -> dict[str, CampaignRow]:
    """Every run of the file as it stands. Raises BadInput for runs that the file no longer has."""
    known = {row.plan.id: row for row in before.runs} if before else {}
    plans, locked = plans_of(file), locked_inodes()
    gone = [name for name in known if name not in {plan.id for plan in plans}]
    if gone:
        raise BadInput(
            f"{folder} contains runs that the file no longer defines, such as {gone[0]}: you"
            " may change only budgets and at_once, and add to lists; or choose another"
            " folder with --out"
        )
    return {plan.id: now(folder, plan, known.get(plan.id), locked) for plan in plans}


def _budgets(file: CampaignFile) -> tuple[Budget, Budget]:
    return file.run_budget, file.budget


def _to_go(row: CampaignRow, richer: bool) -> bool:
    """Whether it can be begun or resumed; `richer`: budgets have changed since."""
    if row.outcome == "baseline_failed" or row.state == "unreadable":
        return False
    return row.state != "ended" or (richer and row.outcome in ("budget", "evaluations"))


def begin(file: CampaignFile, folder: Path, resume: bool) -> Index | None:
    """What is known of the campaign in this folder. Raises BadInput where it has begun and is not
    to be resumed, or the other way about."""
    try:
        before = read_index(folder)
    except BadInput:
        if resume and not folder.is_dir():
            raise BadInput(f"{folder} contains no campaign to resume") from None
        if resume:
            return None  # killed before its first index
        if folder.is_dir() and any(one.name != ".lock" for one in folder.iterdir()):
            raise BadInput(f"{folder} already exists and is not overwritten") from None
        return None
    if not resume:
        raise BadInput(f"{folder} already contains this campaign: continue it with --resume")
    return before
