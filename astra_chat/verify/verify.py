"""All checks of a transcript: what is claimed, recomputed from the transcript alone.

No code of the run is executed and no GPU is needed, unless the winner is judged again.

A winner that is judged again repeats exactly on the virtual GPU, since the evaluation's seed draws
the same again. On a GPU times are compared as `replay --rejudge` does: of another day or
machine they may be a quarter apart.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from astra_chat.replay.rejudge import times_agree
from astra_chat.tools.descriptions import describe, verdict
from astra_chat.tools.entropy import Entropy
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.ranks.judge import judge_of
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.types import Device, Timed
from astra_chat.transcript.reader import Transcript, incompleteness, unknown_kinds
from astra_chat.transcript.recorded_cases import require_bounded_cases
from astra_chat.transcript.recorded_task import require_hashes
from astra_chat.verify.bundle import Bundle, transcript_of
from astra_chat.verify.bundle_claims import SIGNED, bundle_claims
from astra_chat.verify.claims import Claim, Verification, claim, unchecked
from astra_chat.verify.draw_claims import draw_claims
from astra_chat.verify.figure_claims import figure_claims
from astra_chat.verify.recorded import Run, opened
from astra_chat.verify.run_claims import run_claims, text_claims
from astra_vgpu.ground.errors import BadInput


@dataclass(frozen=True)
class Measuring:
    """How the winner is judged again."""

    device: str = ""
    """auto, cuda, cuda:N or virtual; empty: of the recorded kind."""
    trust: bool = False


def verify(transcript: Transcript, measuring: Measuring | None = None) -> Verification:
    """Every claim of a transcript, in the order: texts, cases, figures, the run.

    With `measuring` the winner is judged again on this machine. Raises then what the judge raises.
    """
    claims: list[Claim] = []
    with opened(transcript) as run:
        for checks in (text_claims, draw_claims, figure_claims, run_claims):
            claims += checks(run)
        if measuring is not None:
            claims += measured_again(run, measuring.device, measuring.trust)
        elif run.state.best is not None:
            name = run.state.best[0].candidate
            claims.append(unchecked(REPEATS, name, "only --measure judges the winner again"))
    lacking = filter(None, (incompleteness(transcript), unknown_kinds(transcript)))
    return Verification(
        schema="astra-chat/verified/1",
        run=transcript.records[0].run,
        claims=tuple(claims),
        notes=tuple(lacking),
    )


def verify_bundle(
    bundle: Bundle, measuring: Measuring | None = None, key: bytes | None = None
) -> Verification:
    """Every claim of a bundle's transcript, and that the bundle holds what it names. `key`: the
    public key whose signature is required."""
    with transcript_of(bundle) as transcript:
        found = verify(transcript, measuring)
        with opened(transcript) as run:
            claims = list(bundle_claims(bundle, run, key))
    signed = any(one.name == SIGNED and one.status == "stands" for one in claims)
    public = bytes.fromhex(bundle.manifest.public_key)
    return found.model_copy(
        update={
            "claims": (*claims, *found.claims),
            "signed_by": hashlib.sha256(public).hexdigest()[:16] if signed else "",
            "notes": (
                *found.notes,
                *(f"left out of the bundle: {one}" for one in bundle.manifest.left_out),
            ),
        }
    )


VERDICT_AGAIN, REPEATS = "the winner's verdict is reproduced", "the winner's times are reproduced"


def measured_again(run: Run, device: str, trust: bool) -> list[Claim]:
    """Claims about the winner; none where the run has none. `device`: empty for the recorded kind.

    Raises BadInput where a text is not the one that its hash names, and what the judge raises.
    """
    best = run.state.best
    if best is None:
        return []
    if run.task is None:
        raise BadInput(f"{run.transcript.path}: {run.broken_task}")
    require_hashes(run.transcript)
    then, options = best[0], run.transcript.options
    chosen = _device(then.device, device)
    require_bounded_cases(run.transcript, run.task, chosen.kind, trust)
    with judge_of(
        run.task,
        chosen,
        tier=options.tier,
        cases=options.cases,
        trust=trust,
        entropy=Entropy(then.seed or None),
    ) as judge:
        extra = [case for case in run.state.extra_cases if case not in run.task.check]
        source = run.state.sources[then.candidate]
        now = judge.evaluate(source, extra, fresh_seeds=then.confirms)
    return compared(then, now)


def compared(then: Evaluation, now: Evaluation) -> list[Claim]:
    """What was recorded of a candidate, beside what was found again."""
    name = then.candidate
    why = f"now: {describe(now.outcome)}"
    same_kind = then.device.kind == now.device.kind
    if not same_kind and isinstance(now.outcome, Timed):
        other = unchecked(
            VERDICT_AGAIN, name, f"{now.device.name} uses a different rule for the verdict"
        )
    else:
        other = claim(VERDICT_AGAIN, name, verdict(then.outcome) == verdict(now.outcome), why)
    return [other, _times(then, now, why)]


def _times(then: Evaluation, now: Evaluation, why: str) -> Claim:
    if then.device.name != now.device.name:
        return unchecked(
            REPEATS, then.candidate, f"recorded on {then.device.name}, not on {now.device.name}"
        )
    if not isinstance(then.outcome, Timed) or not isinstance(now.outcome, Timed):
        return claim(REPEATS, then.candidate, False, why)
    if then.device.kind == "virtual" and _same_judge(then, now):
        return claim(REPEATS, then.candidate, then.outcome.cases == now.outcome.cases, why)
    return claim(REPEATS, then.candidate, times_agree(then.outcome, now.outcome), why)


def _same_judge(then: Evaluation, now: Evaluation) -> bool:
    return (
        then.evidence is not None
        and now.evidence is not None
        and then.evidence.judge_sha256 == now.evidence.judge_sha256
    )


def _device(then: Device, wanted: str) -> Device:
    """Raises BadInput or MissingDependency where this machine has no such device."""
    name = wanted or then.kind
    return pick_device(name, then.spec if name == "virtual" else None)
