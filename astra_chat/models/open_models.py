"""The models that --models names. A new kind is a class with `Models`' methods and an entry in
KINDS."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from astra_chat.models.mailbox import MailboxModels
from astra_chat.models.openai_client import OpenAIModels
from astra_chat.models.recording import Recording
from astra_chat.models.run_models import Models, RecordedModels, RunModels
from astra_chat.models.script import SCRIPT, load_script
from astra_chat.models.scripted import ScriptedModels
from astra_chat.models.spec import LIVE, ROLES, ModelSpec, Role, at_address, parse
from astra_chat.models.transcript_models import TranscriptModels, own_transcript
from astra_chat.tools.language import CUDA_ONLY, Language
from astra_chat.tools.task.folder import TRANSCRIPT, Task
from astra_chat.tools.task.shipped import shipped_folder
from astra_chat.tools.wording import nearest
from astra_chat.transcript.options import RunOptions
from astra_chat.transcript.reader import read
from astra_vgpu.ground.errors import BadInput


def _scripted(
    name: str, roles: Mapping[Role, ModelSpec], task: Task, languages: Sequence[Language]
) -> Models:
    if any(spec.argument for spec in roles.values()):
        raise BadInput("'scripted' takes no argument: it reads the script/ folder of the task")
    if len(roles) == len(ROLES) and any(spec.options for spec in roles.values()):
        raise BadInput("'scripted' takes no options: it reads the script/ folder of the task")
    return ScriptedModels(load_script(task, languages))


def _transcript(
    name: str, roles: Mapping[Role, ModelSpec], task: Task, languages: Sequence[Language]
) -> Models:
    files = {spec.argument for spec in roles.values()}
    if len(files) != 1:
        raise BadInput("--models: 'transcript' takes one transcript: transcript:FILE")
    if any(spec.options for spec in roles.values()) and len(roles) == len(ROLES):
        raise BadInput("--models: 'transcript' takes no options: it repeats the replies in FILE")
    if file := files.pop():
        return TranscriptModels(Path(file))
    own = own_transcript(task)
    if own is None:
        raise BadInput(f"--models: {task.folder} has no {TRANSCRIPT}: give one as transcript:FILE")
    return TranscriptModels(own, "transcript")


def _mailbox(
    name: str, roles: Mapping[Role, ModelSpec], task: Task, languages: Sequence[Language]
) -> Models:
    folders = {spec.argument for spec in roles.values()}
    if len(folders) != 1 or "" in folders:
        raise BadInput("--models: 'mailbox' takes one folder: mailbox:DIR")
    if any(spec.options for spec in roles.values()) and len(roles) == len(ROLES):
        raise BadInput("--models: 'mailbox' takes no options")
    return MailboxModels(name, Path(folders.pop()))


def _live(
    name: str, roles: Mapping[Role, ModelSpec], task: Task, languages: Sequence[Language]
) -> Models:
    return OpenAIModels(name, roles)


Opening: TypeAlias = Callable[[str, Mapping[Role, ModelSpec], Task, Sequence[Language]], Models]
KINDS: dict[str, Opening] = {
    "scripted": _scripted,
    **dict.fromkeys(LIVE, _live),
    "transcript": _transcript,
    "mailbox": _mailbox,
}
"""Functions that open models, by the name before the colon in --models. Each gets the whole of
--models, the roles of its kind, the task, and the languages of the run's kernels."""


DECIDING = ("tier", "strategy")
"""Options with other values of which a recorded run's replies make no sense."""
REPEATED = (
    "rounds",
    "repairs",
    "cases",
    "budget",
    "confirmations",
    "winner_repairs",
    "mutants",
    "tune",
    "languages",
    "stop_at_percent",
    "patience",
)


def by_default(task: Task, options: RunOptions) -> RunOptions:
    """The options of a run that names no models: a recorded run in the task's folder is repeated if
    it had the same baseline and strategy, else the task's script is played.

    That of a task which comes with Astra brings its own options for those that are not given.
    Raises BadInput where neither is there.
    """
    path, given = task.recorded_run, options.model_fields_set
    if path is not None:
        recorded, ours = read(path).options, task.folder == shipped_folder(task.name)
        asked = [name for name in DECIDING if name in given or not ours]
        if all(getattr(recorded, name) == getattr(options, name) for name in asked):
            own = {n: getattr(recorded, n) for n in (*DECIDING, *REPEATED) if n not in given}
            return options.model_copy(update={"models": "transcript", **(own if ours else {})})
        if not (task.folder / SCRIPT).is_file():
            raise BadInput(
                f"the recorded run of {task.name} was made with --strategy {recorded.strategy} and"
                f" --baseline {recorded.tier}: omit these options, or choose a model backend:"
                " --models mailbox:DIR or openai:MODEL"
            )
    return options.model_copy(update={"models": "scripted"})


def open_models(
    spec: str,
    task: Task,
    base_url: str | None = None,
    languages: Sequence[Language] = CUDA_ONLY,
) -> RunModels:
    """The models named by --models, see models/spec.py. record:FILE: or auto:FILE: may precede
    them; replay:FILE stands alone. `languages`: of the run's kernels.

    Raises BadInput, which names the backends, and MissingDependency for a missing key.
    """
    mode, _, rest = spec.partition(":")
    if mode == "replay":
        if base_url is not None:
            raise BadInput("--base-url has no effect: replay: does not call a server")
        recording = Recording(_file(rest, spec), "replay")
        assert recording.head is not None
        played = RecordedModels(recording.head, task, languages)
        return RunModels(played.name, dict.fromkeys(ROLES, played), recording)
    if mode in ("record", "auto"):
        file, _, inner = rest.partition(":")
        if not inner:
            raise BadInput(
                f"--models {spec}: give the file and the models, as in {mode}:FILE:openai:o4-mini"
            )
        name = at_address(inner, base_url)
        path = _file(file, spec)
        recording = Recording(path, "record") if mode == "record" else Recording(path, "auto")
        return RunModels(name, _parts(name, task, languages), recording)
    name = at_address(spec, base_url)
    return RunModels(name, _parts(name, task, languages))


def _file(name: str, spec: str) -> Path:
    if not name:
        raise BadInput(f"--models {spec}: give the file of the recording")
    return Path(name)


def _parts(spec: str, task: Task, languages: Sequence[Language]) -> dict[Role, Models]:
    """The models of each role; one object for all roles of a kind."""
    roles = parse(spec)
    for one in roles.values():
        if one.kind not in KINDS:
            there = [*KINDS, "record", "auto", "replay"]
            near = nearest(one.kind, there)
            mean = f"did you mean {near}?" if near else f"backends are {', '.join(there)}."
            raise BadInput(
                f"--models: no backend '{one}': {mean} For any other server that speaks OpenAI's"
                " protocol, use openai:MODEL,base_url=URL"
            )
    parts: dict[Role, Models] = {}
    for kind, make in KINDS.items():
        played = {role: one for role, one in roles.items() if one.kind == kind}
        if played:
            parts |= dict.fromkeys(played, make(spec, played, task, languages))
    return parts
