"""What samples of a step say: a verdict for each variant and number of requests, and for each
operator whether a package should contain it."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import ConfigDict, Field

from astra_chat.package.folder import StepRow
from astra_chat.package.kernel_names import canonical
from astra_chat.package.proof import Proof, proof_of
from astra_chat.step.intervals import Interval, error_ratio, median_interval
from astra_chat.step.samples import (
    AGAIN,
    ALL,
    ONLY,
    WITHOUT,
    BatchSamples,
    Call,
    Samples,
    VariantSamples,
)
from astra_chat.tools.types import Value

SCHEMA: Literal["astra-chat/step/1"] = "astra-chat/step/1"
LEAST_EXACT = 1.05
"""How many times the error without winners is allowed with them."""
NO_REFERENCE = 0.5
"""A relative error of the baseline from which on the float32 results are of another model."""
Verdict = Literal["gains", "loses", "no difference"]
Finding = Literal["gains", "gains in part", "loses", "no difference", "less exact", "not engaged"]


class Parity(Value):
    """Logits beside float32."""

    error: float
    """Root mean square error over the root mean square of float32's."""
    over_without: Interval | None
    """That error over the baseline's; None: the float32 results are not of this model."""
    apart: float
    same: int
    rows: int


class StepTimes(Value):
    """A variant at one number of requests."""

    requests: int
    median_us: float
    speedup: Interval
    """The step's time without winners over its time, by rounds."""
    verdict: Verdict
    kernels_us: float
    """Time of all kernels in one profiled replay."""
    kernels_speedup: float
    """What these times promise: the profile without winners over this one."""
    share: float | None = None
    """Part of the promised gain that the step has; None: the promise is no larger than what two
    captures of one step, or their profiles, differ by."""
    launches: int
    seen: dict[str, int]
    """Launches of each winner's kernels in the graph."""
    calls: dict[str, tuple[Call, ...]] = Field(default_factory=dict)
    """What each winner was called with; none: the program that measured did not say it."""
    parity: Parity


class VariantResult(Value):
    """The step with some winners."""

    name: str
    winners: tuple[str, ...]
    why_not: str
    """Why it was not measured; empty: it was."""
    fell_back: dict[str, dict[str, int]]
    """Calls that the original took while graphs were captured, by operator and reason."""
    times: tuple[StepTimes, ...]


class ModelResult(Value):
    """One model on this GPU."""

    model: str
    facts: dict[str, str]
    rounds: int
    steps: int
    prompt_tokens: int
    no_reference: str
    variants: tuple[VariantResult, ...]


class OperatorResult(Value):
    """What the steps say of a winner."""

    candidate: str
    finding: Finding
    why: str

    ships: bool
    """Whether a package should contain it."""
    steps: tuple[StepRow, ...] = ()
    """Where it gains in part: the steps by which a package chooses its calls."""
    share: float | None = None
    """Part of the gain predicted from kernel times, over all steps with this winner alone."""


class StepReport(Value):
    """What `astra-chat step` found."""

    model_config = ConfigDict(serialize_by_alias=True)

    schema_name: Literal["astra-chat/step/1"] = Field(SCHEMA, alias="schema")
    models: tuple[ModelResult, ...]
    operators: dict[str, OperatorResult]
    share: float | None = None
    """Part of the gain predicted from kernel times, over all steps with all winners."""
    proof: Proof
    """Which kernels the captured graphs contain, as `astra-chat package --proof` takes it."""


def judged(some: Sequence[Samples]) -> StepReport:
    """Samples of one package on one kind of GPU, one for each model."""
    models = tuple(_model(one) for one in some)
    packaged = some[0].packaged
    operators = {
        name: _operator(name, made.candidate, some, models) for name, made in packaged.items()
    }
    every = [t for model in models for v in model.variants if v.name == ALL for t in v.times]
    proof = _proof(some, operators)
    return StepReport(models=models, operators=operators, share=_share(every), proof=proof)


def _model(samples: Samples) -> ModelResult:
    variants = tuple(_variant(name, one, samples) for name, one in samples.variants.items())
    request = samples.request
    rounds = len(next(iter(samples.variants[WITHOUT].batches.values())).blocks_us)
    return ModelResult(
        model=samples.name,
        facts=samples.facts,
        rounds=rounds,
        steps=request.steps,
        prompt_tokens=request.prompt_tokens,
        no_reference=samples.no_reference,
        variants=variants,
    )


def _variant(name: str, variant: VariantSamples, samples: Samples) -> VariantResult:
    fell_back: dict[str, dict[str, int]] = {}
    for operator, what, reason, count in variant.counts:
        if what != "took":
            fell_back.setdefault(operator, {})[reason] = count
    times = tuple(
        _times(int(batch), one, variant, samples) for batch, one in variant.batches.items()
    )
    return VariantResult(
        name=name,
        winners=variant.winners,
        why_not=variant.error,
        fell_back=fell_back,
        times=times,
    )


def _times(
    requests: int, one: BatchSamples, variant: VariantSamples, samples: Samples
) -> StepTimes:
    plain = samples.variants[WITHOUT].batches[str(requests)]
    speedup = _speedup(plain, one)
    kernels_us, promised = _kernels_us(one), _promised(plain, one)
    return StepTimes(
        requests=requests,
        median_us=statistics.median(one.blocks_us),
        speedup=speedup,
        verdict=_verdict(speedup, _noise(samples)),
        kernels_us=kernels_us,
        kernels_speedup=promised,
        share=(speedup.ratio - 1) / (promised - 1) if promised > _least_promise(samples) else None,
        launches=sum(count for count, _ in one.kernels.values()),
        seen={name: _seen(samples, name, one.kernels) for name in variant.winners},
        calls=variant.calls.get(str(requests), {}),
        parity=_parity(plain, one, requests),
    )


def _share(some: Sequence[StepTimes]) -> float | None:
    """Part of what the kernel times of these steps promise together."""
    sure = [one for one in some if one.share is not None]
    promised = sum(math.log(one.kernels_speedup) for one in sure)
    return sum(math.log(one.speedup.ratio) for one in sure) / promised if sure else None


def _speedup(plain: BatchSamples, one: BatchSamples) -> Interval:
    pairs = zip(plain.blocks_us, one.blocks_us, strict=True)
    return median_interval([without / max(own, 1e-3) for without, own in pairs])


def _noise(samples: Samples) -> float:
    """The factor by which the same step, captured twice, differs by chance: the largest over all
    numbers of requests, since each of them is one pair of captures."""
    plain, again = samples.variants[WITHOUT], samples.variants.get(AGAIN)
    found = [
        _speedup(plain.batches[batch], own)
        for batch, own in (again.batches if again else {}).items()
    ]
    return max((max(one.high, 1 / one.low) for one in found), default=1.0)


def _kernels_us(one: BatchSamples) -> float:
    return sum(us for _, us in one.kernels.values())


def _promised(plain: BatchSamples, one: BatchSamples) -> float:
    return _kernels_us(plain) / max(_kernels_us(one), 1e-3)


def _least_promise(samples: Samples) -> float:
    """The speedup by which profiles, too, of the same step captured twice differ."""
    plain, again = samples.variants[WITHOUT], samples.variants.get(AGAIN)
    found = [
        _promised(plain.batches[batch], one)
        for batch, one in (again.batches if again else {}).items()
    ]
    return max([_noise(samples), *(max(one, 1 / max(one, 1e-3)) for one in found)])


def _verdict(speedup: Interval, noise: float) -> Verdict:
    """A difference counts where it is larger than that of two captures of the same step."""
    if speedup.low > noise:
        return "gains"
    return "loses" if speedup.high < 1 / noise else "no difference"


def _seen(samples: Samples, operator: str, kernels: Mapping[str, tuple[int, float]]) -> int:
    own = {canonical(name) for name in samples.packaged[operator].kernels}
    return sum(count for name, (count, _) in kernels.items() if canonical(name) in own)


def _parity(plain: BatchSamples, one: BatchSamples, seed: int) -> Parity:
    total = sum(one.norms)
    base = (sum(plain.errors) / sum(plain.norms)) ** 0.5 if sum(plain.norms) else 1.0
    over = error_ratio(one.errors, plain.errors, seed) if base < NO_REFERENCE else None
    return Parity(
        error=(sum(one.errors) / total) ** 0.5 if total else 0.0,
        over_without=over,
        apart=one.apart,
        same=one.same,
        rows=one.rows,
    )


def _operator(
    name: str, candidate: str, some: Sequence[Samples], models: Sequence[ModelResult]
) -> OperatorResult:
    """A winner that loses anywhere is left out, though it gains alone; but where its calls say
    which steps those are, a package leaves these calls to the original."""
    engaged = _engaged(name, models)
    finding, why = _finding(name, engaged, some, models)
    steps: tuple[StepRow, ...] = ()
    if finding == "loses" and (steps := _told_apart(name, engaged)):
        finding = "gains in part"
        why += "; it gains: " + _words([s for s in engaged if s[1].verdict == "gains"])
    ships = finding in ("gains", "gains in part", "no difference")
    return OperatorResult(
        candidate=candidate,
        finding=finding,
        why=why,
        ships=ships,
        steps=steps,
        share=_share([times for _, times in engaged]),
    )


def _engaged(name: str, models: Sequence[ModelResult]) -> list[tuple[str, StepTimes]]:
    """Steps with this winner alone that contain a kernel of it."""
    single = f"{ONLY}{name}"
    return [
        (model.model, times)
        for model in models
        for variant in model.variants
        if variant.name == single or (variant.name == ALL and variant.winners == (name,))
        for times in variant.times
        if times.seen.get(name)
    ]


def _told_apart(name: str, engaged: Sequence[tuple[str, StepTimes]]) -> tuple[StepRow, ...]:
    """A row for each call of each step; none if the winner gains nowhere, or a call of a step that
    loses is one of another step, too."""
    rows: dict[bool, list[StepRow]] = {True: [], False: []}
    for model, times in engaged:
        calls, loses = times.calls.get(name, ()), times.verdict == "loses"
        if not calls:
            return ()
        low = min(times.speedup.low, 1.0) if loses else max(times.speedup.low, 1.0)
        label = f"{model} at {times.requests} requests"
        rows[loses] += [
            StepRow(label=label, dtype=one.dtype, dims=one.dims, low=low) for one in calls
        ]
    both = [one for one in rows[True] if any(_same_call(one, other) for other in rows[False])]
    gains = any(times.verdict == "gains" for _, times in engaged)
    return (*rows[True], *rows[False]) if gains and not both else ()


def _same_call(one: StepRow, other: StepRow) -> bool:
    return (one.dtype, one.dims) == (other.dtype, other.dims)


def _finding(
    name: str,
    engaged: Sequence[tuple[str, StepTimes]],
    some: Sequence[Samples],
    models: Sequence[ModelResult],
) -> tuple[Finding, str]:
    if not engaged:
        return "not engaged", _why_not_engaged(name, some, models)
    inexact = [
        (model, times.requests, over)
        for model, times in engaged
        if (over := times.parity.over_without) and over.low > LEAST_EXACT
    ]
    by_verdict = {v: [s for s in engaged if s[1].verdict == v] for v in ("loses", "gains")}
    if inexact:
        return "less exact", "error at " + ", ".join(
            f"{model} at {requests}: {over.ratio:.3f}x" for model, requests, over in inexact
        )
    if by_verdict["loses"]:
        return "loses", _words(by_verdict["loses"])
    if by_verdict["gains"]:
        return "gains", _words(by_verdict["gains"])
    return "no difference", _words(engaged)


def _words(steps: Sequence[tuple[str, StepTimes]]) -> str:
    return ", ".join(
        f"{model} at {times.requests}: {times.speedup.ratio:.4f}" for model, times in steps
    )


def _why_not_engaged(name: str, some: Sequence[Samples], models: Sequence[ModelResult]) -> str:
    """The first of: it was not measured, it is switched off, the originals ran, no call came."""
    variants = [v for model in models for v in model.variants if name in v.winners]
    for variant in variants:
        if variant.why_not and variant.name != ALL:
            return f"not measured: {variant.why_not}"
    for samples in some:
        for own in samples.variants.values():
            if why := own.off.get(name):
                return why
    reasons: Counter[str] = Counter()
    for variant in variants:
        reasons.update(variant.fell_back.get(name, {}))
    if reasons:
        return "the original ran: " + ", ".join(f"{n}x {why}" for why, n in reasons.items())
    unset = [line for one in some for line in one.hooks if name in line and "original runs" in line]
    if unset:
        return unset[0]
    took = any(
        row[:2] == (name, "took") for s in some for v in s.variants.values() for row in v.counts
    )
    if took:
        return "it handled calls, but none of its kernels is in a graph"
    return "the measured steps do not call this operator"


def _proof(some: Sequence[Samples], operators: Mapping[str, OperatorResult]) -> Proof:
    """Graphs with all winners, as of one start of the engine."""
    pages = []
    for samples in some:
        variant = samples.variants[ALL]
        pages.append(
            {
                **{key: getattr(samples, key) for key in ("engine", "version", "gpu", "arch")},
                "torch": samples.torch,
                "ranks": samples.ranks,
                "graphs": [
                    {name: count for name, (count, _) in one.kernels.items()}
                    for one in variant.batches.values()
                ],
                "counts": variant.counts,
            }
        )
    document = {"operators": {n: one.model_dump() for n, one in some[0].packaged.items()}}
    names = " ".join(f"--model {one.name}" for one in some)
    found = proof_of(pages, document, f"astra-chat step {names}")
    proved = {
        name: one.model_copy(update={"steps": operators[name].steps})
        for name, one in found.operators.items()
    }
    return found.model_copy(update={"operators": proved})
