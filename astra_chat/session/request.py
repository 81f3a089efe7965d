"""What to run: the user's words as values, or BadInput naming the one that is off."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from astra_chat.agents.limits import Limits
from astra_chat.agents.strategy import Strategy, parse_strategy
from astra_chat.models.open_models import open_models
from astra_chat.models.run_models import RunModels
from astra_chat.spending.budget import Budget, parse_budget
from astra_chat.tools.entropy import Entropy
from astra_chat.tools.errors import BadInput
from astra_chat.tools.judge import CASE_LISTS, TIER_FILES
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import Task, find_task
from astra_chat.tools.types import Device

NOBODY = "none"
"""--approver: nobody decides; it switches off what a run was begun with."""
MUTANTS = 12
"""Seeded bugs where the user names no number."""


@dataclass(frozen=True)
class Request:
    """What to run."""

    task: Task
    device: Device
    models: RunModels
    tier: str = "sglang"
    """The baseline to beat, a key of judge.TIER_FILES."""
    cases: str | None = None
    """The list to time, one of judge.CASE_LISTS; None leaves it to the device."""
    limits: Limits = field(default_factory=Limits)
    approver: str | None = None
    """Who decides what is run and accepted, see approval.approver_for; None: nobody is asked."""
    budget: Budget = field(default_factory=Budget)
    strategy: Strategy = field(default_factory=Strategy)
    """Which candidate a plan goes on from, and how many kernels it gets."""
    trust: bool = False
    """Candidates may run even where they cannot be isolated."""
    entropy: Entropy = field(default_factory=Entropy)
    """What the judge draws from."""
    folder: Path | None = None
    """Where the run's files go; ./transcripts/<task>-<time>-<id> if None."""


@dataclass(frozen=True)
class RunOptions:
    """What the user said, word for word. None: the default, or for a run that goes on from a
    transcript what was recorded there."""

    task: str | Path | None = None
    models: str | None = None
    base_url: str | None = None
    device: str | None = None
    gpu: str | None = None
    out: str | Path | None = None
    rounds: int | None = None
    cases: str | None = None
    baseline: str | None = None
    approver: str | None = None
    budget: str | None = None
    trust: bool = False
    strategy: str | None = None
    stop_at: float | None = None
    patience: int | None = None
    mutants: int | None = None
    """Seeded bugs that score the tester's cases; 0: they are not scored."""
    accept_recorded_options: bool = False
    """Of a run that is resumed: take over what recorded_options.py shows."""
    seed: str | None = None
    """Root of all that the judge draws, never taken from a transcript; None: a fresh one."""


def request_for(wishes: RunOptions) -> Request:
    """The request in values. Raises BadInput naming the option that is off."""
    if wishes.task is None:
        raise BadInput("name a TASK: one of `astra-chat tasks`, or a task folder")
    limits, strategy = _limits(wishes), _strategy(wishes.strategy)
    found = find_task(str(wishes.task))
    cases = wishes.cases
    models = open_models(wishes.models or "scripted", found, wishes.base_url)
    return Request(
        task=found,
        device=_device(wishes, models),
        models=models,
        tier=_one_of("--baseline", wishes.baseline or "sglang", tuple(TIER_FILES)),
        cases=None if cases is None else _one_of("--cases", cases, CASE_LISTS),
        limits=limits,
        strategy=strategy,
        approver=None if wishes.approver == NOBODY else wishes.approver,
        budget=parse_budget(wishes.budget),
        trust=wishes.trust,
        entropy=Entropy(wishes.seed),
        folder=None if wishes.out is None else Path(wishes.out),
    )


def _limits(wishes: RunOptions) -> Limits:
    if wishes.rounds is not None and wishes.rounds < 1:
        raise BadInput(f"--rounds {wishes.rounds}: at least 1")
    for option, number in (("--mutants", wishes.mutants), ("--patience", wishes.patience)):
        if number is not None and number < 0:
            raise BadInput(f"{option} {number}: 0 for none, or how many")
    if wishes.stop_at is not None and not 0 <= wishes.stop_at <= 100:
        raise BadInput(
            f"--stop-at {wishes.stop_at:g}: percent of the physical limit, up to 100, or 0 for none"
        )
    return Limits(
        rounds=Limits().rounds if wishes.rounds is None else wishes.rounds,
        mutants=MUTANTS if wishes.mutants is None else wishes.mutants,
        stop_at_percent=wishes.stop_at or None,
        patience=wishes.patience or None,
    )


def _strategy(words: str | None) -> Strategy:
    try:
        return parse_strategy(words or "best")
    except ValueError as error:
        raise BadInput(f"--strategy {error}") from None


def _device(wishes: RunOptions, models: RunModels) -> Device:
    """The one named, else that of the recording that is played, else the best there is."""
    if wishes.device in (None, "auto") and wishes.gpu is None and models.played is not None:
        return models.played.device
    return pick_device(wishes.device or "auto", wishes.gpu)


def _one_of(option: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise BadInput(f"{option} {value}: use {' or '.join(allowed)}")
    return value


def place(request: Request) -> tuple[Path, str]:
    """Folder and name of a run."""
    name = f"{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
    folder = request.folder or Path("transcripts") / f"{request.task.name}-{name}"
    return folder, name
