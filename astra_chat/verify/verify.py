"""All checks of a transcript: what is claimed, recomputed from the transcript alone.

No code of the run is executed and no GPU is needed, unless the winner is judged again.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from astra_chat.transcript.reader import Transcript, incompleteness, unknown_kinds
from astra_chat.verify.bundle import Bundle, transcript_of
from astra_chat.verify.bundle_claims import SIGNED, bundle_claims
from astra_chat.verify.claims import Claim, Verification, unchecked
from astra_chat.verify.draw_claims import draw_claims
from astra_chat.verify.figure_claims import figure_claims
from astra_chat.verify.measure import REPEATS, measured_again
from astra_chat.verify.recorded import opened
from astra_chat.verify.run_claims import run_claims, text_claims


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
