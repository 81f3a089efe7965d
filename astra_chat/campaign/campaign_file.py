"""The campaign file: tasks x strategies x models x starts x devices x GPUs x repeats, and the
budgets."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, ValidationError

from astra_chat.agents.strategy import parse_strategy
from astra_chat.models.spec import parse
from astra_chat.session.recorded_options import RECORDINGS
from astra_chat.session.request import split
from astra_chat.spending.budget import Budget
from astra_chat.tools.entropy import Entropy
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.text import one_line
from astra_chat.tools.types import Value
from astra_chat.tools.wording import choices, invalid
from astra_chat.transcript.options import OneLine
from astra_vgpu.ground.errors import BadInput, reading

MAX_RUNS = 10_000
PLACES = {"task": "", "strategy": "", "start": "", "repeat": "", "run": ""}
"""What stands in braces in a model's name, `replay:{task}.jsonl`; `run` is the run's folder."""


def _different(values: tuple[Any, ...]) -> tuple[Any, ...]:
    twice = next((one for i, one in enumerate(values) if one in values[:i]), None)
    if twice is not None:
        raise ValueError(f"'{twice}' is given twice")
    return values


Names = Annotated[tuple[OneLine, ...], Field(min_length=1), AfterValidator(_different)]
Starts = Annotated[
    tuple[Literal["sglang", "paper"], ...], Field(min_length=1), AfterValidator(_different)
]


class CampaignFile(Value):
    """One run for each combination of tasks, strategies, models, starts, devices, gpus, repeats."""

    model_config = ConfigDict(serialize_by_alias=True)

    schema_number: Literal[1] = Field(alias="schema")
    tasks: Names
    models: Names
    """Model backends, each as `run --models` takes it."""
    strategies: Names = ("best",)
    starts: Starts = ("sglang",)
    """The baselines that runs start from and are compared with."""
    devices: Names = ("auto",)
    gpus: Names | None = None
    """GPU models to estimate for, or that a detached judge is to have."""
    repeats: int = Field(1, ge=1, le=1000)
    judge: OneLine = "local"
    """Where evaluations are made, as `run --judge` takes it."""
    at_once: int = Field(2, ge=1, le=256)
    """Chats under way together."""
    base_url: OneLine | None = None
    rounds: int | None = None
    cases: Literal["demo", "bench"] | None = None
    mutants: int | None = None
    tune: int | None = None
    languages: OneLine | None = None
    patience: int | None = None
    stop_at: float | None = None
    seed: str | None = None
    """Root of the roots of all runs; without it each run has a fresh one."""
    run_budget: Budget = Budget.model_validate({})
    """Limits on what each run may spend."""
    budget: Budget = Budget.model_validate({})
    """Limits on what all runs together may spend."""

    @property
    def count(self) -> int:
        """Number of runs that the file makes."""
        arms = len(self.strategies) * len(self.models) * len(self.starts)
        return len(self.tasks) * arms * len(self.devices) * len(self.gpus or "-") * self.repeats

    @property
    def shared(self) -> dict[str, Any]:
        """Options of `run` that all runs have in common."""
        names = ("base_url", "rounds", "cases", "mutants", "tune", "languages", "patience")
        each = ((name, getattr(self, name)) for name in (*names, "stop_at", "judge"))
        return {name: value for name, value in each if value is not None}


def read_campaign(path: Path) -> CampaignFile:
    """Read a campaign file. Raises BadInput, in one line, naming the key that is wrong."""
    with reading(path):
        text = path.read_text(encoding="utf-8")
    try:
        found = CampaignFile.model_validate(tomllib.loads(text))
        _require_usable(found)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{path}: {error}") from None
    except ValidationError as error:
        raise BadInput(f"{path}: {_problem(error)}") from None
    except (BadInput, ValueError) as error:
        raise BadInput(f"{path}: {error}") from None
    return found


def _problem(error: ValidationError) -> str:
    """The first of what is wrong; of a key that does not exist the nearest that does."""
    first = error.errors()[0]
    place = [str(part) for part in first["loc"]]
    name = one_line(".".join(place))[:100]
    if first["type"] == "missing":
        return f"'{name}' is missing"
    if first["type"] == "too_short":
        return f"'{name}' is empty, so there is nothing to run"
    if first["type"] != "extra_forbidden":
        return f"{name}: {invalid(first)}"
    fields = Budget.model_fields if len(place) > 1 else CampaignFile.model_fields
    there = [field.alias or key for key, field in fields.items()]
    return f"there is no key '{name}'{choices(place[-1], there)}"


def _require_usable(file: CampaignFile) -> None:
    """Raise BadInput or ValueError for what would fail in each run."""
    if file.count > MAX_RUNS:
        raise BadInput(f"it defines {file.count:,} runs; at most {MAX_RUNS:,} are allowed")
    if file.seed is not None:
        Entropy(file.seed)
    for task in file.tasks:
        find_task(task)
    for start in file.starts:
        split({**file.shared, "baseline": start})
    for name in file.strategies:
        parse_strategy(name)
    for model in file.models:
        _require_model(model)
    if len(file.strategies) > 1 and file.run_budget.evaluations is None:
        raise BadInput(
            "strategies are compared at the same number of evaluations: set run_budget.evaluations"
        )


def _require_model(model: str) -> None:
    try:
        filled = model.format_map(PLACES)
    except (KeyError, ValueError, IndexError, AttributeError):
        there = ", ".join(f"{{{name}}}" for name in PLACES)
        raise BadInput(f"models: '{model}': braces may contain only {there}") from None
    if filled.partition(":")[0] not in RECORDINGS:
        parse(filled)
