"""The options of a run, one model from the command line and `run()` to the transcript's header, and
from there to the run that resumes it."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, PlainSerializer, ValidationError

from astra_chat.agents.limits import Limits
from astra_chat.agents.strategy import Strategy, parse_strategy
from astra_chat.options import RunArguments, declared
from astra_chat.tools.language import CUDA_ONLY, Languages
from astra_chat.tools.text import one_line
from astra_chat.tools.types import Value
from astra_chat.tools.wording import invalid
from astra_vgpu.ground.errors import BadInput

OneLine = Annotated[str, Field(max_length=10_000, pattern=r"^[^\x00-\x1f\x7f]*$")]
"""Text of the command line."""


_DECLARED = declared(RunArguments)
MAX_ROUNDS, MOST_POINTS = (int(_DECLARED[name].option.most or 0) for name in ("rounds", "tune"))
_ARGUMENTS = {"tier": "baseline", "stop_at_percent": "stop_at"}
"""Arguments of `run` whose fields here have other names."""
JUDGES = "use local, detached, ssh:HOST or ray[:ADDRESS]"
EVALUATIONS = re.compile(r"\bevaluations=(\d+)")


def _strategy(value: object) -> object:
    return parse_strategy(value) if isinstance(value, str) else value


def _zero_is_none(value: object) -> object:
    return None if value == 0 else value


def _field(name: str, **more: Any) -> Any:
    """Returns a field with the default and the limits of an argument of `run`."""
    option = _DECLARED[name].option
    return Field(default=option.default, ge=option.least, le=option.most, **more)


class RunOptions(Value):
    """What a run is asked to do. Where the run takes place and which models it asks are in
    SessionOptions.

    `model_fields_set` holds what was given; the rest are defaults. A resumed run uses the recorded
    options, overridden by those given on the command line.
    """

    models: OneLine = _field("models")
    tier: Literal["sglang", "paper"] = _field("baseline")
    """The baseline."""
    rounds: int = _field("rounds")
    repairs: int = Field(default=2, ge=0, le=MAX_ROUNDS)
    """Repairs by the fixer per round."""
    cases: Literal["demo", "bench"] | None = _field("cases")
    """The timed cases; None leaves them to the device."""
    approval: Literal["", "ask", "detached", "decisions"] = ""
    """Who decides which candidates are run and accepted: nobody, the terminal, `astra-chat
    approve`, a file."""
    budget: OneLine = _field("budget")
    """Limits on what the run may spend, as spending.budget reads them; "" for no limit."""
    confirmations: int = Field(default=3, ge=0, le=100)
    """Maximum number of winners that are evaluated once more at the end."""
    winner_repairs: int = Field(default=2, ge=0, le=100)
    """Maximum number of winners that are repaired, each once, after their confirmation rejected
    them."""
    strategy: Annotated[Strategy, BeforeValidator(_strategy), PlainSerializer(str)] = Strategy()
    """Which candidate a plan changes, and how many kernels it gets."""
    mutants: int = _field("mutants")
    """Number of seeded bugs that score the tester's cases; 0: no scoring."""
    tune: int = _field("tune", exclude_if=lambda points: not points)
    """Number of points that are ranked for a correct candidate that marks constants; 0: no
    tuning."""
    languages: Languages = Field(
        default=CUDA_ONLY, exclude_if=lambda languages: languages == CUDA_ONLY
    )
    """Languages that the coder may write kernels in."""
    stop_at_percent: Annotated[
        Annotated[float, Field(gt=0, le=100)] | None, BeforeValidator(_zero_is_none)
    ] = None
    """The run ends at this share of the physical limit; 0 on the command line means None."""
    patience: Annotated[Annotated[int, Field(ge=1)] | None, BeforeValidator(_zero_is_none)] = None
    """The run ends after this many rounds in a row without a gain; 0 on the command line means
    None."""
    judge: Literal["local", "detached"] = _field("judge")
    """Where evaluations run: in this process, or in a worker that finds them as jobs in the run's
    folder. The host to which --judge ssh:HOST or ray carries them is never recorded."""
    trust: bool = _field("trust")
    """Run candidates even where they cannot be isolated."""

    @classmethod
    def given(cls, **options: Any) -> RunOptions:
        """The options that the user gave, None being none, by the names of fields or of `run`'s
        arguments. Raises BadInput naming the wrong one."""
        fields = {argument: field for field, argument in _ARGUMENTS.items()}
        found = {fields.get(n, n): v for n, v in options.items() if v is not None}
        try:
            return cls.model_validate(found)
        except ValidationError as error:
            first = error.errors()[0]
            name, value = str(first["loc"][0]), one_line(str(first["input"]))[:200]
            what = JUDGES if name == "judge" else invalid(first)
            raise BadInput(f"{option_name(name)} {value}: {what}") from None

    def changed(self, given: RunOptions) -> RunOptions:
        """These options, with those that were given in their place."""
        return self.model_copy(update={n: getattr(given, n) for n in given.model_fields_set})

    @property
    def limits(self) -> Limits:
        """What the run is held to."""
        shared = set(Limits.model_fields) - {"approval", "evaluations"}
        return Limits(
            approval=bool(self.approval),
            evaluations=self.evaluations,
            **self.model_dump(include=shared),
        )

    @property
    def evaluations(self) -> int | None:
        """Evaluations that the budget allows; None: no limit."""
        found = EVALUATIONS.search(self.budget)
        return int(found[1]) if found else None


def option_name(field: str) -> str:
    """A field's option on the command line: "--stop-at"."""
    return f"--{_ARGUMENTS.get(field, field).replace('_', '-')}"


def _from_file(value: object) -> object:
    """Options as old transcripts have them: without confirmations, repairs of winners and seeded
    bugs, which there were none of, and with the task's nvcc flags, which its own files say."""
    if not isinstance(value, dict):
        return value
    kept = {name: one for name, one in value.items() if name != "flags"}
    return {"confirmations": 0, "winner_repairs": 0, "mutants": 0, **kept}


RecordedOptions: TypeAlias = Annotated[RunOptions, BeforeValidator(_from_file)]
"""Options of a run as a transcript holds them."""
