"""Claims about what was drawn and what was run: seeds, hidden cases, timed cases, launch plans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from astra_chat.tools.check.cases_by_heart import cases_by_heart
from astra_chat.tools.check.hidden_cases import draw, draw_confirming, reseeded
from astra_chat.tools.entropy import EVALUATION, Entropy, Seed
from astra_chat.tools.evaluation import CheckRecord, Evaluation, Evidence
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Case, Correct, Timed
from astra_chat.verify.claims import OLD, Claim, claim, differences, unchecked
from astra_chat.verify.recorded import Run, about
from astra_vgpu.ground.errors import BadInput

SEEDS, HIDDEN = "seeds follow from the root", "hidden cases follow from the seed"
CHECKED, TIMED = "the checked cases are named", "the timed cases are the task's"
PLANS, BESIDE = "each timed case has a launch plan", "one baseline throughout"
BUILT_ANEW = (
    "built in another session or on another machine: nvcc derives kernel names from the build"
    " folder"
)


def draw_claims(run: Run) -> Iterator[Claim]:
    """Every claim about cases and seeds."""
    yield from _seeds(run)
    for turn, evaluation in run.evaluations:
        where = about(turn, evaluation)
        if evaluation.check is not None:
            yield _hidden(run, evaluation, evaluation.check, where)
            yield _checked(run, evaluation, evaluation.check, where)
        if isinstance(evaluation.outcome, Timed):
            yield _timed(run, evaluation, evaluation.outcome, where)
            yield _plans(evaluation, evaluation.outcome, where)
    yield from _baselines(run)


def _seeds(run: Run) -> Iterator[Claim]:
    """A session's root, told at its end, gives the seed of each of its evaluations: no seed was
    chosen for its result. That of a job follows from the root of the session that asked for it."""
    for session in run.sessions:
        try:
            entropy = Entropy(session.root) if session.root else None
            asked = [Entropy(root) if root else None for root in session.asked]
        except BadInput as error:
            yield claim(SEEDS, "the session's root", False, str(error))
            continue
        for turn, evaluation in session.judged:
            where, candidate = about(turn, evaluation), evaluation.candidate
            if not evaluation.seed:
                yield unchecked(SEEDS, where, OLD)
                continue
            own = entropy.evaluation(candidate).text if entropy else ""
            jobs = [one and Entropy(one.root).evaluation(candidate).text for one in asked]
            if evaluation.seed not in (own, *jobs) and None in (entropy, *jobs):
                yield unchecked(
                    SEEDS, where, "the session did not end, so its root seed is unknown"
                )
                continue
            known = evaluation.seed in (own, *jobs)
            yield claim(SEEDS, where, known, f"the root seed gives {own}")


def _hidden(run: Run, evaluation: Evaluation, check: CheckRecord, where: str) -> Claim:
    """Drawn again; other versions of the judge may draw others."""
    if run.task is None or not EVALUATION.fullmatch(evaluation.seed):
        return unchecked(HIDDEN, where, run.broken_task or OLD)
    drawn = drawn_again(run.task, evaluation)
    strange = [case for case in check.hidden if _unseeded(case) not in drawn]
    if strange and not run.by_this_judge(evaluation):
        return unchecked(
            HIDDEN, where, "judged by another version of the judge, which drew other cases"
        )
    return claim(HIDDEN, where, not strange, f"this seed does not produce {len(strange)} of them")


def drawn_again(task: Task, evaluation: Evaluation) -> set[str]:
    """The cases of an evaluation's seed and of the numbers in its candidate's code. A few run a
    second time on other numbers, so a case's own seed is left out."""
    seed = Seed(evaluation.seed)
    cases = draw(task, evaluation.device.kind, seed.of("hidden cases").random())
    if evaluation.confirms:
        cases = (*cases, *draw_confirming(task, seed)[0])
    if evaluation.check is not None:
        known = evaluation.check.known
        cases = (*cases, *cases_by_heart(task, known, seed, evaluation.confirms))
    return {_unseeded(case) for case in cases}


def _unseeded(case: Case) -> str:
    return case.model_copy(update={"seed": 0}).model_dump_json()


def _checked(run: Run, evaluation: Evaluation, check: CheckRecord, where: str) -> Claim:
    """A correct candidate passed the task's own cases, and as many as it is said to have passed."""
    outcome = evaluation.outcome
    correct = outcome.correct if isinstance(outcome, Timed) else outcome
    if not isinstance(correct, Correct):
        return claim(CHECKED, where, True)  # it stopped on the way, at the case that is named
    if run.task is None:
        return unchecked(CHECKED, where, run.broken_task)
    ran = {_unseeded(case) for case in check.visible}
    missing = [case.label for case in run.task.check if _unseeded(case) not in ran]
    why = (
        f"{missing[0]} did not run"
        if missing
        else differences(
            [("cases", correct.cases, check.cases), ("hidden", correct.hidden, check.drawn)]
        )
    )
    return claim(CHECKED, where, not why, why)


def _timed(run: Run, evaluation: Evaluation, timed: Timed, where: str) -> Claim:
    """All of the task's list and no other, with its weights; a confirmation on drawn seeds."""
    if run.task is None:
        return unchecked(TIMED, where, run.broken_task)
    name = run.transcript.options.cases or ("bench" if evaluation.device.kind == "cuda" else "demo")
    listed = run.task.bench if name == "bench" else run.task.demo
    said = [(_unseeded(one.case), one.weight) for one in timed.cases]
    if said != [(_unseeded(case), weight) for case, weight in listed]:
        return claim(TIMED, where, False, f"they are not the task's {name} cases")
    if not (evaluation.confirms and evaluation.seed):
        return claim(TIMED, where, True)
    wanted = [case.seed for case, _ in reseeded(listed, Seed(evaluation.seed))]
    seeds = [one.case.seed for one in timed.cases]
    if seeds != wanted and not run.by_this_judge(evaluation):
        return unchecked(TIMED, where, "their seeds were drawn by another version of the judge")
    return claim(TIMED, where, seeds == wanted, "their seeds do not follow from the evaluation's")


def _plans(evaluation: Evaluation, timed: Timed, where: str) -> Claim:
    if evaluation.evidence is None:
        return unchecked(PLANS, where, OLD)
    planned = [plan.case for plan in evaluation.evidence.plans]
    bare = [plan for plan in evaluation.evidence.plans if not plan.baseline_plan_sha256]
    why = "" if planned == [one.case for one in timed.cases] else "the plans belong to other cases"
    return claim(PLANS, where, not why and not bare, why or "the baseline has no plan")


def _baselines(run: Run) -> Iterator[Claim]:
    """In all evaluations of a machine's session the baseline is one machine code, and launches the
    same on the same case; judged against itself it is its own baseline. Another build of it has
    other names, and so other hashes."""
    everywhere: dict[str, str] = {}
    for session in run.sessions:
        here: dict[str, str] = {}
        for turn, evaluation in session.judged:
            where, evidence = about(turn, evaluation), evaluation.evidence
            if evidence is None:
                yield unchecked(BESIDE, where, OLD)
                continue
            told = [(evaluation.device.arch, evidence.baseline_cubin_sha256)]
            told += [(p.case.model_dump_json(), p.baseline_plan_sha256) for p in evidence.plans]
            in_session = _first_seen(here, told) if session.local else []
            why = _baseline_differences([*_beside_itself(run, evaluation, evidence), *in_session])
            if not why and _baseline_differences(_first_seen(everywhere, told)):
                yield unchecked(BESIDE, where, BUILT_ANEW)
            else:
                yield claim(BESIDE, where, not why, why)


def _beside_itself(
    run: Run, evaluation: Evaluation, evidence: Evidence
) -> list[tuple[str, str, str]]:
    """What says of the baseline's own evaluation that both sides are the same."""
    baseline = run.state.baseline
    if baseline is None or evaluation.candidate != baseline.candidate:
        return []
    plans = [("plan", p.plan_sha256, p.baseline_plan_sha256) for p in evidence.plans]
    return [("code", evidence.cubin_sha256, evidence.baseline_cubin_sha256), *plans]


def _baseline_differences(pairs: Sequence[tuple[str, str, str]]) -> str:
    return differences((f"the baseline's {name}", said, wanted) for name, said, wanted in pairs)


def _first_seen(
    known: dict[str, str], told: Sequence[tuple[str, str]]
) -> list[tuple[str, str, str]]:
    """(what, hash, the first one's hash) of each that says one."""
    return [("hash", sha[:12], known.setdefault(key, sha)[:12]) for key, sha in told if sha]
