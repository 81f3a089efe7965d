"""Turns of the chat as plain values: one class for each kind. No AutoGen here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from pydantic import Field

from astra_chat.agents.memory_cards import MemoryCard
from astra_chat.agents.strategy import Strategy
from astra_chat.tools.case import is_empty
from astra_chat.tools.evaluation import BuildReport, Evaluation
from astra_chat.tools.mutation.scores import CaseScores
from astra_chat.tools.profiling.metrics import BOTTLENECKS
from astra_chat.tools.task.folder import Task
from astra_chat.tools.tuning.tuned import Tuning
from astra_chat.tools.types import Case, DTypeName, Value, ValueFamily, candidate_id

RoleName = Literal["tester", "planner", "coder", "fixer", "profiler", "single"]
"""Roles that a model plays; single is planner, coder and fixer in one, without the others."""
Speaker = Literal[
    "user", "tester", "planner", "coder", "fixer", "executor", "profiler", "single", "human"
]
"""The user opens the chat; the human approves or rejects candidates in runs with approval."""
MODEL_ROLES: tuple[RoleName, ...] = ("tester", "planner", "coder", "fixer", "profiler")
"""The team of every strategy but `single`."""


class RunRequest(Value):
    """The user's request, which opens the chat."""

    kind: Literal["request"] = "request"
    task: str
    summary: str
    device: str
    tier: str
    """The baseline tier: "sglang" or "paper"."""
    rounds: int
    """Maximum number of rounds."""
    approval: bool = False
    """A human decides which candidates are run and accepted."""
    strategy: Strategy = Strategy()
    """The search strategy: which candidate a plan changes."""
    memory: tuple[MemoryCard, ...] = Field(default=(), exclude_if=is_empty)
    """Cards of the user's memory that the planner may see."""


class Extent(Value):
    """One dim of a case."""

    name: str
    value: int


class TypeChoice(Value):
    """What one type variable stands for."""

    name: str
    dtype: DTypeName


class ScalarChoice(Value):
    """Value of a varying scalar in a case; 0 or 1 for a bool."""

    name: str
    value: float


class TestCase(Value):
    """A case that the tester proposes. No mappings: strict JSON schemas allow lists only."""

    __test__ = False  # not a pytest class

    dims: tuple[Extent, ...]
    dtype: DTypeName
    values: ValueFamily
    why: str
    """What could fail here."""
    types: tuple[TypeChoice, ...] = Field(default=(), exclude_if=is_empty)
    """Dtypes of the type variables other than T, if the task has any."""
    scalars: tuple[ScalarChoice, ...] = Field(default=(), exclude_if=is_empty)
    """Values of scalars that vary; the others have their usual value."""
    pad: int = Field(default=0, exclude_if=is_empty)
    """Elements between the rows of every strided argument."""

    def case(self) -> Case:
        return Case(
            dims={dim.name: dim.value for dim in self.dims},
            dtype=self.dtype,
            values=self.values,
            types={choice.name: choice.dtype for choice in self.types},
            scalars={choice.name: choice.value for choice in self.scalars},
            pad=self.pad,
        )


class TestSuite(Value):
    """The tester's turn: cases that every later candidate has to pass, with the task's own."""

    __test__ = False

    kind: Literal["tests"] = "tests"
    words: str
    cases: tuple[TestCase, ...]


Direction = Literal["up", "down", "stays", "unsaid"]


class Plan(Value):
    """The planner's turn: one change to its parent, the source that the strategy chose."""

    kind: Literal["plan"] = "plan"
    title: str
    change: str
    why: str
    anchor: str
    """A line or fragment of the parent's source where the change applies."""
    metric: str
    """The profiled metric that should change."""
    predicted_ratio: float = Field(gt=0)
    """Predicted speedup over the parent: above 1 is faster."""
    moves: Direction = "unsaid"
    """The direction in which the metric should change."""
    risk: str = ""
    """What could go wrong."""
    case: str = ""
    """The timed case, as the profile writes it, on which the metric should change; "" for the case
    with the largest weight."""
    parent: str = ""
    """An earlier correct candidate to change instead of the source shown; "" for that source."""
    second_parent: str = Field(default="", exclude_if=is_empty)
    """Another correct candidate whose idea the change takes over; "" for none."""


class Kernel(Value):
    """The coder's or the fixer's turn: a whole source file."""

    kind: Literal["kernel"] = "kernel"
    words: str
    source: str
    edits: int = 0
    """Number of edits that it was given as (agents/edits.py); 0: as a whole file. Set by Astra."""

    @property
    def candidate(self) -> str:
        return _name(self.source)


_name = lru_cache(maxsize=1024)(candidate_id)
"""Cached: every turn asks for the names of all kernels before it."""


class Edit(Value):
    """One replacement in a source."""

    find: str
    """Text that occurs exactly once in the source to change."""
    replace: str


class Edits(Value):
    """A kernel as edits of the source that the prompt shows for change or repair."""

    kind: Literal["edits"] = "edits"
    words: str
    edits: tuple[Edit, ...] = Field(min_length=1)


class Source(Value):
    """A kernel as a model gives it: the whole file."""

    kind: Literal["kernel"] = "kernel"
    words: str
    source: str


class Analysis(Value):
    """The profiler's turn: what limits the candidate's speed, and what to do next."""

    kind: Literal["analysis"] = "analysis"
    words: str
    bottleneck: str = Field(json_schema_extra={"enum": list(BOTTLENECKS)})
    evidence: tuple[str, ...]
    """Names of metrics of the last profile; their values are looked up."""
    next: Literal["plan", "unsure", "stop"]
    """unsure: a model chooses whether the planner or the tester acts next."""


class Pass(Value):
    """A role says that it has nothing to add, and why."""

    kind: Literal["pass"] = "pass"
    words: str


class Approval(Value):
    """The human's turn: whether the last candidate may be run, or is accepted as the new best.

    An edit is a Kernel turn of the human, not an Approval.
    """

    kind: Literal["approval"] = "approval"
    candidate: str
    decision: Literal["approve", "approve_all", "reject"]
    """approve_all: approve this one and all that follow."""
    reason: str = ""
    """Why the candidate is rejected; the planner's prompt shows it."""


TextPayload: TypeAlias = (
    RunRequest | TestSuite | CaseScores | Plan | Analysis | Pass | Approval | Tuning
)
"""Payloads without a kernel or a result of the judge."""
Payload: TypeAlias = TextPayload | Kernel | BuildReport | Evaluation


@dataclass(frozen=True)
class Turn:
    """One turn of the chat."""

    speaker: Speaker
    payload: Payload

    @property
    def kind(self) -> str:
        """The kind of its payload."""
        match self.payload:
            case BuildReport():
                return "build"
            case Evaluation():
                return "evaluation"
            case payload:
                return payload.kind


Turns = Sequence[Turn]


class Position(Value):
    """A role's position in the chat; scripted and recorded replies are looked up by it."""

    round: int
    attempt: int
    """Tester: which of its turns. Coder: which kernel of the plan. Fixer: which repair of the
    round. Selector: which choice. Single: 0 for a plan, then its kernels. Else 1."""


class TesterReply(Value):
    __test__ = False

    reply: TestSuite | Pass


class PlannerReply(Value):
    reply: Plan | Pass


class KernelReply(Value):
    reply: Source | Edits | Pass


class ProfilerReply(Value):
    reply: Analysis | Pass


class SingleReply(Value):
    reply: Plan | Source | Edits | Pass


AnyReply: TypeAlias = TesterReply | PlannerReply | KernelReply | ProfilerReply | SingleReply

REPLY_TYPES: dict[RoleName, type[AnyReply]] = {
    "tester": TesterReply,
    "planner": PlannerReply,
    "coder": KernelReply,
    "fixer": KernelReply,
    "profiler": ProfilerReply,
    "single": SingleReply,
}
"""The reply of a role's model: its own payload, or Pass."""


def reply_type(role: RoleName, task: Task, acts_as: RoleName | None = None) -> type[AnyReply]:
    """What the schema is made of that a role's model is given for this task; `acts_as`: the role
    that `single` plays in this turn, whose forms of a reply are the only ones wanted."""
    if role != "tester":
        return REPLY_TYPES[acts_as or role]
    several = any(len(types) > 1 for types in task.types)
    scalars = tuple(scalar.name for scalar in task.scalars if scalar.varies)
    strided = any(arg.strided for arg in task.args)
    return _tester_reply(tuple(task.dims), tuple(task.dtypes), several, scalars, strided)


@lru_cache
def _tester_reply(
    dims: tuple[str, ...],
    dtypes: tuple[str, ...],
    several: bool,
    scalars: tuple[str, ...],
    strided: bool,
) -> type[TesterReply]:
    """A reply whose schema names the task's dims, dtypes and scalars that vary, and has only what
    the task has: `types` for several type variables, `scalars`, and `pad` for strided arguments."""

    class TesterReplyOfTask(TesterReply):
        @classmethod
        def model_json_schema(cls, *args: Any, **options: Any) -> dict[str, Any]:
            schema = super().model_json_schema(*args, **options)
            named = schema["$defs"]
            case = named["TestCase"]["properties"]
            case["dtype"] = {"enum": list(dtypes), "type": "string"}
            named["Extent"]["properties"]["name"] = {"enum": list(dims), "type": "string"}
            if not several:
                del case["types"], named["TypeChoice"]
            if scalars:
                name = {"enum": list(scalars), "type": "string"}
                named["ScalarChoice"]["properties"]["name"] = name
            else:
                del case["scalars"], named["ScalarChoice"]
            if not strided:
                del case["pad"]
            return schema

    return TesterReplyOfTask


class NextSpeaker(Value):
    """The selector model's answer."""

    choose: str = Field(json_schema_extra={"enum": ["planner", "tester"]})
