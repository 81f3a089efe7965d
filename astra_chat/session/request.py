"""What to run: the options, and with them the task, device and models that they name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from astra_chat.agents.limits import Limits
from astra_chat.agents.memory_cards import MemoryCard
from astra_chat.agents.task_text import basis_of
from astra_chat.detached.carrying import Destination, place_of
from astra_chat.memory.file import for_run
from astra_chat.models.open_models import by_default, open_models
from astra_chat.models.run_models import RunModels
from astra_chat.spending.budget import Budget, parse_budget
from astra_chat.tools.entropy import Entropy
from astra_chat.tools.system.devices import pick_device, wanted_device
from astra_chat.tools.task.folder import Task, find_task
from astra_chat.tools.triton.compile import require_triton
from astra_chat.tools.types import Device, Value
from astra_chat.transcript.options import RunOptions
from astra_vgpu.ground.errors import BadInput

NOBODY = "none"
"""--approver: nobody decides; it switches off what a run was begun with."""
OF_A_RECORDED_RUN = ("resume", "branch", "after_round")
"""Arguments of `run` that name a transcript (resume.py)."""


class SessionOptions(Value):
    """Options of one session: where it runs, whom it asks. None is recorded or taken from a file,
    but for the device."""

    task: str | Path | None = None
    base_url: str | None = None
    device: str | None = None
    gpu: str | None = None
    out: str | Path | None = None
    approver: str | None = None
    """"ask", "detached", a file, or NOBODY."""
    seed: str | None = None
    """Root of all that the judge draws; None: a fresh one."""
    place: str | None = None
    """"ssh:HOST" or "ray[:ADDRESS]": where the jobs of a detached judge are carried to."""
    no_wait: bool = False
    """Stop, to be resumed, where an answer in a mailbox is not there yet."""
    memory: str | Path | None = None
    """The file of cards; "off" and None: none."""
    accept_recorded_options: bool = False
    """Take over what recorded_options.py shows of a run that is resumed."""


@dataclass(frozen=True)
class Request:
    """What to run."""

    task: Task
    device: Device
    models: RunModels
    options: RunOptions = field(default_factory=RunOptions)
    """The options as they were asked for; `recorded` is how the transcript has them."""
    approver: str | None = None
    """Who decides what is run and accepted, see approvers.approver_for; None: nobody is asked."""
    entropy: Entropy = field(default_factory=Entropy)
    """What the judge draws from."""
    no_wait: bool = False
    """Stop where an answer in a mailbox is not there yet."""
    place: Destination | None = None
    """Where the jobs of a detached judge are carried to; None: whoever finds them judges them."""
    folder: Path | None = None
    """Where the run's files go; None: run_folder.py names it."""
    memory: tuple[MemoryCard, ...] = ()
    """Cards of the user's memory; the transcript's first turn holds them."""

    @property
    def recorded(self) -> RunOptions:
        """The options as the header has them: no path of a recording or of decisions in them."""
        approval: Literal["", "ask", "detached", "decisions"]
        match self.approver:
            case None:
                approval = ""
            case "ask" | "detached" as approval:
                pass
            case _:
                approval = "decisions"
        return self.options.model_copy(
            update={"models": self.models.name, "approval": approval, "budget": str(self.budget)}
        )

    @property
    def limits(self) -> Limits:
        """What the run is held to."""
        return self.recorded.limits

    @property
    def budget(self) -> Budget:
        """What the run may spend. Raises BadInput."""
        return parse_budget(self.options.budget)


def split(
    given: Mapping[str, Any], task: str | Path | None = None
) -> tuple[RunOptions, SessionOptions]:
    """What is recorded of a run's arguments, and what only this session has. Raises BadInput."""
    ours = SessionOptions.model_fields.keys()
    session = {name: value for name, value in given.items() if name in ours}
    recorded = {n: v for n, v in given.items() if n not in ours and n not in OF_A_RECORDED_RUN}
    judge = given.get("judge")
    if judge is not None and place_of(judge) is not None:
        session["place"], recorded["judge"] = judge, "detached"
    return RunOptions.given(**recorded), SessionOptions(task=task, **session)


def request_for(options: RunOptions, session: SessionOptions) -> Request:
    """The request that the options make. Raises BadInput naming the option that is wrong."""
    if session.task is None:
        raise BadInput("give a TASK: one that `astra-chat tasks list` shows, or a task folder")
    parse_budget(options.budget)
    task = find_task(str(session.task))
    given = options.model_fields_set
    if "models" not in given:
        if session.base_url is not None:
            raise BadInput("--base-url: also name a model on that server: --models openai:MODEL")
        options = by_default(task, options)
    models = open_models(options.models, task, session.base_url, options.languages)
    _require_languages(options, task, models)
    device = _device(session, models, options)
    if device.kind == "cuda" and "models" not in given and "budget" not in given:
        # Of a run on the virtual GPU, where points that are tuned do not count.
        options = options.model_copy(update={"budget": ""})
    return Request(
        task=task,
        device=device,
        models=models,
        options=options,
        approver=None if session.approver == NOBODY else session.approver,
        entropy=Entropy(session.seed),
        no_wait=session.no_wait,
        place=place_of(session.place or ""),
        folder=None if session.out is None else Path(session.out),
        memory=for_run(session.memory, task, basis_of(device)),
    )


def _require_languages(options: RunOptions, task: Task, models: RunModels) -> None:
    """Raise BadInput for a task that does not take one of the languages, and MissingDependency
    where Triton is not installed on the machine that judges."""
    if "torch" in options.languages and (task.reference is None or task.binding is not None):
        raise BadInput(
            f"--languages: {task.name} is not made from a PyTorch module, so its kernels cannot be"
            " torch extensions"
        )
    if "triton" not in options.languages:
        return
    if task.binding is not None:
        raise BadInput(f"--languages: {task.name} has a [binding], so its kernels must be CUDA")
    if options.judge == "local" and models.played is None:
        require_triton()


def _device(session: SessionOptions, models: RunModels, options: RunOptions) -> Device:
    """Returns the device named, else that of the recording that is played, else the best there
    is."""
    if session.device in (None, "auto") and session.gpu is None and models.played is not None:
        return models.played.device
    if options.judge == "detached":
        return wanted_device(session.device or "auto", session.gpu)
    return pick_device(session.device or "auto", session.gpu)
