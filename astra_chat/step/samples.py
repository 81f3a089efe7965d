"""Samples of a step, as the program in inside/ writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationError, model_validator

from astra_chat.package.engine_file import Engine
from astra_chat.tools.recordings.reading import read_recorded
from astra_chat.tools.types import Microseconds, Value
from astra_chat.tools.wording import invalid
from astra_vgpu.ground.errors import BadInput

WITHOUT, AGAIN, ALL, ONLY = "without", "again", "all", "only "
"""Variants, as inside/astra_step/turns.py names them."""
Square = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class StepRequest(Value):
    """What is to be measured."""

    engine: Engine
    model: str
    call: str | None = None
    batches: tuple[Annotated[int, Field(ge=1, le=65536)], ...] = Field(min_length=1)
    rounds: int = Field(ge=1, le=10_000)
    steps: int = Field(ge=1, le=1000)
    prompt_tokens: int = Field(ge=1, le=100_000)
    seed: int = 0
    alone: bool = True
    arguments: tuple[str, ...] = ()
    out: str


class Packaged(Value):
    """A winner in the package."""

    candidate: str
    kernels: tuple[str, ...]


class BatchSamples(Value):
    """A variant at one number of requests."""

    blocks_us: tuple[Microseconds, ...] = Field(min_length=1)
    """Mean of a replay in each round."""
    kernels: dict[str, tuple[int, Microseconds]]
    """Launches and microseconds of each kernel in one profiled replay."""
    errors: tuple[Square, ...]
    """Squared distance of each row of logits from float32."""
    norms: tuple[Square, ...]
    """Squared norm of each row in float32."""
    apart: float
    """Largest distance of a logit from the one without winners."""
    same: int
    """Rows whose largest logit is at the same place as without winners."""
    rows: int

    @model_validator(mode="after")
    def _paired(self) -> BatchSamples:
        if len(self.errors) != len(self.norms):
            raise ValueError("errors and norms have different lengths")
        return self


class Call(Value):
    """What a winner was called with."""

    dtype: str
    dims: dict[str, Annotated[int, Field(ge=1)]]


class VariantSamples(Value):
    """The step with some winners."""

    winners: tuple[str, ...]
    error: str = ""
    """Why it could not be captured."""
    off: dict[str, str] = Field(default_factory=dict)
    counts: tuple[tuple[str, str, str, int], ...]
    """Calls during the capture: operator, what became of them, reason, count."""
    calls: dict[str, dict[str, tuple[Call, ...]]] = Field(default_factory=dict)
    """Calls that winners took while a graph was captured, by number of requests and operator."""
    batches: dict[str, BatchSamples]


class Samples(Value):
    """One model, measured on one GPU."""

    model_config = ConfigDict(serialize_by_alias=True)

    schema_name: Literal["astra-chat/step-samples/1"] = Field(alias="schema")
    request: StepRequest
    engine: Engine
    version: str
    torch: str
    gpu: str
    arch: str
    ranks: int
    hooks: tuple[str, ...]
    packaged: dict[str, Packaged]
    facts: dict[str, str]
    called: tuple[str, ...]
    """Operators that took a call."""
    no_reference: str = ""
    """Why there are no results in float32."""
    variants: dict[str, VariantSamples]

    @model_validator(mode="after")
    def _complete(self) -> Samples:
        if not {WITHOUT, ALL} <= set(self.variants):
            raise ValueError(
                "samples of the step without winners and with all of them are required"
            )
        plain = self.variants[WITHOUT].batches
        if not plain:
            raise ValueError("the step without winners was not measured")
        for name, variant in self.variants.items():
            for batch, one in variant.batches.items():
                other = plain.get(batch)
                lengths = len(one.blocks_us), len(one.errors)
                if other is None or lengths != (len(other.blocks_us), len(other.errors)):
                    raise ValueError(
                        f"{name} at {batch} requests has no counterpart without winners"
                    )
        return self

    @property
    def name(self) -> str:
        return self.request.call or self.request.model


def read_samples(path: Path) -> Samples:
    """Raises BadInput."""
    return samples_of(read_recorded(path), str(path))


def samples_of(content: bytes | dict[str, Any], name: str) -> Samples:
    """Raises BadInput."""
    try:
        if isinstance(content, bytes):
            return Samples.model_validate_json(content)
        return Samples.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        found = f"{where}: {invalid(first)}" if where else invalid(first)
        raise BadInput(f"{name} contains no samples of a step: {found}") from None
