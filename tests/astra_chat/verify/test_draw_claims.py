"""Hidden cases are drawn again from the seed and the recorded numbers of the candidate."""

from __future__ import annotations

from astra_chat.tools.check.cases_by_heart import cases_by_heart
from astra_chat.tools.entropy import Seed
from astra_chat.tools.evaluation import CheckRecord, Evaluation
from astra_chat.tools.known import NOTHING_KNOWN, KnownNumbers
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import Correct, Device
from astra_chat.verify.draw_claims import drawn_again

SEED = "0123456789ab-0123456789abcdef"
TASK = find_task("silu_and_mul")
KNOWN = KnownNumbers(sizes=(333,), values=(3.140625,))


def evaluation(known: KnownNumbers, *, confirms: bool = False) -> Evaluation:
    record = CheckRecord(
        visible=(),
        hidden=(),
        calls=0,
        how={},
        elements=0,
        guard_bytes=0,
        read_bytes=0,
        repeats=0,
        known=known,
    )
    device = Device(kind="virtual", name="virtual GPU", arch="sm_90", spec="h200")
    return Evaluation(
        candidate="0" * 12,
        device=device,
        outcome=Correct(cases=1, worst=0.0),
        check=record,
        seed=SEED,
        confirms=confirms,
    )


def test_cases_of_the_recorded_numbers_follow_from_the_seed() -> None:
    for confirms in (False, True):
        cases = cases_by_heart(TASK, KNOWN, Seed(SEED), confirms)
        texts = {case.model_copy(update={"seed": 0}).model_dump_json() for case in cases}
        assert texts and texts <= drawn_again(TASK, evaluation(KNOWN, confirms=confirms))
        assert not texts <= drawn_again(TASK, evaluation(NOTHING_KNOWN, confirms=confirms))


def test_a_record_without_numbers_reads_as_before() -> None:
    text = evaluation(NOTHING_KNOWN).model_dump_json()
    assert "known" not in text and Evaluation.model_validate_json(text).check is not None
    told = evaluation(KNOWN).model_dump_json()
    again = Evaluation.model_validate_json(told)
    assert again.check is not None and again.check.known == KNOWN
