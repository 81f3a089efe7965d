"""Claims about what a bundle holds beside the transcript: machine code, launch plans, samples."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import ValidationError

from astra_chat.tools.evaluation import CaseLaunches, Evidence
from astra_chat.tools.language import suffix_of
from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.timing.raw_samples import unpack
from astra_chat.tools.types import MeasuredTime, Timed, sha256_of
from astra_chat.transcript.archive import sha256_of_bytes
from astra_chat.verify.bundle import Bundle
from astra_chat.verify.claims import Claim, claim, unchecked
from astra_chat.verify.recorded import Run, about
from astra_vgpu.ground.errors import BadInput

FILES, SOURCES = "every file of the bundle is in its list", "sources match the transcript"
CODE, PLANS = "machine code matches its hash", "launch plans match their hashes"
SAMPLES, SIGNED = "samples match the transcript", "the bundle is signed"


def bundle_claims(bundle: Bundle, run: Run, key: bytes | None = None) -> Iterator[Claim]:
    """Yields the claims about a bundle. `key`: whose signature is wanted; None: of whoever signed
    it, if anybody did."""
    listed = bundle.manifest.files
    for name in sorted(listed.keys() | bundle.members.keys()):
        found = sha256_of_bytes(bundle.members[name]) if name in bundle.members else ""
        yield claim(FILES, name, listed.get(name) == found, "changed, missing or not listed")
    yield from _signature(bundle, key)
    yield from _sources(bundle, run)
    yield from _code(bundle, run)
    yield from _samples(bundle, run)


def _signature(bundle: Bundle, key: bytes | None) -> Iterator[Claim]:
    stated = bytes.fromhex(bundle.manifest.public_key)
    if bundle.signature is None:
        if key is not None or stated:
            yield claim(SIGNED, bundle.path.name, False, "it has no signature")
        return
    from astra_chat.verify.signature import signs  # needs an extra

    why = ""
    if key is not None and key != stated:
        why = "it was signed with a different key"
    elif not signs(stated, bundle.signature, bundle.manifest_text):
        why = "the signature does not match this manifest"
    yield claim(SIGNED, bundle.path.name, not why, why)


def source_file(candidate: str, source: str) -> str:
    """Returns the member of a bundle that holds a candidate's source."""
    return f"sources/{candidate}{suffix_of(source)}"


def _sources(bundle: Bundle, run: Run) -> Iterator[Claim]:
    for name, source in run.state.sources.items():
        where = source_file(name, source)
        packed = bundle.members.get(where)
        if packed is None:
            yield unchecked(SOURCES, where, "not in the bundle")
        else:
            yield claim(SOURCES, where, packed == source.encode(), "the text differs")


def _code(bundle: Bundle, run: Run) -> Iterator[Claim]:
    """Each machine code and each plan once, however many evaluations name it."""
    codes: dict[str, str] = {}
    plans: dict[str, tuple[str, CaseLaunches | None]] = {}
    for turn, evaluation in run.evaluations:
        where, evidence = about(turn, evaluation), evaluation.evidence
        if evidence is None:
            yield unchecked(CODE, where, "the transcript contains no hash of this code")
            continue
        for sha in (evidence.cubin_sha256, evidence.baseline_cubin_sha256):
            codes.setdefault(sha, where)
        _name_plans(plans, where, evidence)
    for sha in sorted(codes.keys() - {""}):
        content = bundle.members.get(f"cubins/{sha}.cubin")
        if content is None:
            yield unchecked(CODE, codes[sha], "not in the bundle")
        else:
            yield claim(
                CODE, codes[sha], sha256_of_bytes(content) == sha, "the machine code differs"
            )
    for sha, (where, recorded) in plans.items():
        yield _plan(bundle.members.get(f"plans/{sha}.json"), sha, where, recorded)


def _name_plans(
    plans: dict[str, tuple[str, CaseLaunches | None]], where: str, evidence: Evidence
) -> None:
    """Add the launch plans that an evaluation names, by their hashes: where each is named, and what
    is said of it, which is nothing of a baseline's."""
    for plan in evidence.plans:
        if plan.baseline_plan_sha256:
            plans.setdefault(plan.baseline_plan_sha256, (f"{where}, baseline", None))
    for plan in evidence.plans:
        if plans.get(plan.plan_sha256, ("", None))[1] is None:
            plans[plan.plan_sha256] = (where, plan)


def _plan(content: bytes | None, sha: str, where: str, recorded: CaseLaunches | None) -> Claim:
    """Its nodes and its case give its hash, and the recorded line says what it launches."""
    if content is None:
        return unchecked(PLANS, where, "not in the bundle")
    try:
        plan = LaunchPlan.model_validate_json(content)
    except ValidationError:
        return claim(PLANS, where, False, "no launch plan")
    same_case = recorded is None or plan.case == recorded.case
    told = same_case and (recorded is None or plan.is_told_by(recorded.launches))
    return claim(PLANS, where, plan.sha256 == sha and told, "its launches differ")


def _samples(bundle: Bundle, run: Run) -> Iterator[Claim]:
    for name, text, where in samples(run):
        content = bundle.members.get(name)
        if content is None:
            yield unchecked(SAMPLES, where, "not in the bundle")
        else:
            holds = sha256_of(text) == sha256_of_bytes(content)
            yield claim(SAMPLES, where, holds, "the samples differ")


def samples(run: Run) -> Iterator[tuple[str, str, str]]:
    """Member, its text and what it is of: the raw samples of each measured case."""
    for turn, evaluation in run.evaluations:
        if not isinstance(evaluation.outcome, Timed):
            continue
        for place, time in enumerate(evaluation.outcome.cases):
            if isinstance(time, MeasuredTime) and time.raw:
                try:
                    text = unpack(time.raw).model_dump_json()
                except BadInput:
                    continue  # a claim about figures says so
                where = f"{about(turn, evaluation)}, {time.case.label}"
                yield f"samples/turn-{turn}-case-{place}.json", text, where
