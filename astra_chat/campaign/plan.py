"""The runs of a campaign, each with a name that follows from what it is, and their commands."""

from __future__ import annotations

import json
import re
from itertools import product
from pathlib import Path

from pydantic import Field

from astra_chat.campaign.campaign_file import CampaignFile
from astra_chat.models.spec import parse
from astra_chat.spending.budget import Budget
from astra_chat.tools.entropy import Entropy, Seed
from astra_chat.tools.types import Value, sha256_of
from astra_chat.transcript.options import OneLine
from astra_chat.transcript.run_folder import TRANSCRIPT

RUNS = "runs"
"""A folder: one folder a run."""


class RunPlan(Value):
    """One run: what it is, not how it went."""

    id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$")
    """Name of its folder."""
    task: OneLine
    strategy: OneLine
    model: OneLine
    """Model backend, as the campaign file names it."""
    start: OneLine
    """The baseline that it starts from."""
    device: OneLine
    gpu: OneLine | None = None
    repeat: int = Field(ge=1)

    @property
    def arm(self) -> tuple[str, ...]:
        """What is compared within a task: all but the repeat."""
        return (self.strategy, self.model, self.start, self.device, self.gpu or "")


def plans_of(file: CampaignFile) -> list[RunPlan]:
    """Every run, repeats outermost: a campaign that is cut short has each arm about as often."""
    return [
        RunPlan(
            id=_id(file, [Path(task).name, strategy, start], [task, model, device, gpu], repeat),
            task=task,
            strategy=strategy,
            model=model,
            start=start,
            device=device,
            gpu=gpu,
            repeat=repeat,
        )
        for repeat, task, strategy, model, start, device, gpu in product(
            range(1, file.repeats + 1),
            file.tasks,
            file.strategies,
            file.models,
            file.starts,
            file.devices,
            file.gpus or (None,),
        )
    ]


def _id(file: CampaignFile, shown: list[str], more: list[str | None], repeat: int) -> str:
    """Returns a run's id: equal for the same run of the same file, whatever its budgets."""
    what = json.dumps([shown, more, repeat, file.shared, file.seed], sort_keys=True)
    slug = re.sub(r"[^A-Za-z0-9]+", "_", "-".join(shown)).strip("_")[:80]
    return f"{slug}-{repeat}-{sha256_of(what)[:8]}"


def transcript_of(folder: Path, plan: RunPlan) -> Path:
    """Returns the path of a run's transcript in the campaign's folder."""
    return folder / RUNS / plan.id / TRANSCRIPT


def _models_of(plan: RunPlan, folder: Path) -> str:
    """Returns what the run's --models is given."""
    places = {
        "task": Path(plan.task).name,
        "strategy": plan.strategy,
        "start": plan.start,
        "repeat": plan.repeat,
        "run": transcript_of(folder, plan).parent,
    }
    return plan.model.format_map(places)


def mailboxes_of(plan: RunPlan, folder: Path) -> set[Path]:
    """The folders in which the run asks."""
    specs = parse(_models_of(plan, folder)).values()
    return {Path(spec.argument) for spec in specs if spec.kind == "mailbox"}


def run_arguments(
    plan: RunPlan, file: CampaignFile, folder: Path, budget: Budget, trust: bool
) -> list[str]:
    """What stands after `astra-chat` to begin the run, or to resume it where it has begun."""
    path = transcript_of(folder, plan)
    given: dict[str, object] = {
        "models": _models_of(plan, folder),
        "strategy": plan.strategy,
        "baseline": plan.start,
        **file.shared,
        "budget": str(budget) or "none",
    }
    if file.seed is not None:
        root = Entropy(file.seed).root
        given["seed"] = Seed(root).of("campaign", plan.id).text
    words = ["run", plan.task, "--quiet", "--no-wait"]
    if path.exists() and path.stat().st_size:
        given["resume"] = path
    else:
        given |= {"device": plan.device, "out": path.parent}
        if plan.gpu is not None:
            given["gpu"] = plan.gpu
    for name, value in given.items():
        words.append(f"--{name.replace('_', '-')}={value}")
    return words + (["--trust"] if trust else [])
