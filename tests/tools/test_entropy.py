"""One root, from which every seed derives and which no seed gives away."""

from __future__ import annotations

import subprocess
import sys

import pytest

from astra_chat.tools.entropy import VARIABLE, Entropy, Seed, nonce
from astra_vgpu.ground.errors import BadInput


def test_the_same_root_gives_the_same_seeds() -> None:
    first, second = Entropy("ab12"), Entropy(" AB12\n")
    assert first.root == second.root and first.cases == second.cases
    assert first.evaluation("x") == second.evaluation("x")
    assert (
        first.cases.of("poison", 3).random().random()
        == second.cases.of("poison", 3).random().random()
    )


def test_another_root_candidate_number_or_purpose_gives_another_seed() -> None:
    one = Entropy("1")
    seeds = [one.evaluation("x"), one.evaluation("x"), one.evaluation("y")]
    seeds += [Entropy("2").evaluation("x"), seeds[0].of("check"), seeds[0].of("check", 0)]
    seeds += [seeds[0].of("check", 1), seeds[0].of("time")]
    assert len({seed.text for seed in seeds}) == len(seeds)
    assert len({seed.bits(48) for seed in seeds}) == len(seeds)
    assert len({seed.random().random() for seed in seeds}) == len(seeds)


def test_the_order_of_other_candidates_changes_nothing() -> None:
    first, second = Entropy("1"), Entropy("1")
    for candidate in ("y", "z"):
        second.evaluation(candidate)
    assert first.evaluation("x") == second.evaluation("x")


def test_an_evaluations_seed_makes_that_evaluation_again_and_no_other() -> None:
    """Who reads it learns the seeds of the visible cases, and neither the root nor what comes."""
    whole = Entropy("1")
    shown, later = whole.evaluation("x"), whole.evaluation("x")
    again = Entropy(shown.text)
    assert again.cases == whole.cases and again.root != whole.root
    assert again.evaluation("whatever") == shown
    assert later not in {again.evaluation("x") for _ in range(100)}
    assert shown.text.startswith(whole.cases.text) and whole.root not in shown.text


def test_an_entropy_may_make_another_evaluation_on_its_cases_again() -> None:
    whole = Entropy("1")
    first, second = whole.evaluation("x"), whole.evaluation("y")
    kept, new = Entropy(first.text), Entropy(second.text)
    assert kept.evaluation("x") == first and kept.timing("x") != new.timing("x")
    kept.again(second.text)
    assert kept.evaluation("y") == second == new.evaluation("y")
    for _ in range(2):
        assert kept.evaluation("x") == new.evaluation("x")
    assert kept.timing("y") == Entropy(second.text).timing("y") and kept.root == new.root
    with pytest.raises(BadInput, match="on the cases"):
        kept.again(Entropy("2").evaluation("x").text)


def test_a_seed_below_does_not_lead_to_those_beside_it() -> None:
    """A runner process holds its own: what it derives is not what the judge draws."""
    seed = Entropy("1").evaluation("x")
    child, judge = seed.of("runner process", "time"), seed.of("judge", "time", 0)
    assert child.of("judge", "time", 0) != judge and child.of("time", 0) != judge


def test_bits_are_as_many_as_asked() -> None:
    drawn = [Seed(str(n)).bits(48) for n in range(200)]
    assert all(0 <= bits < 2**48 for bits in drawn) and max(drawn) > 2**47


@pytest.mark.parametrize("text", ["x", "0" * 33, "12-34", "0x12", "--", "12 34", "1" * 12 + "-"])
def test_what_is_no_seed_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="use up to 32 hex digits"):
        Entropy(text)


def test_without_a_seed_it_is_the_variables_or_the_operating_systems(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, "77")
    assert Entropy().root == "77".zfill(32) and Entropy("8").root == "8".zfill(32)
    monkeypatch.delenv(VARIABLE)
    roots = {Entropy().root for _ in range(50)}
    assert len(roots) == 50 and all(len(root) == 32 for root in roots)
    assert nonce() != nonce()


def test_every_process_derives_the_same() -> None:
    """Hashes of strings differ from process to process; seeds may not."""
    program = (
        "from astra_chat.tools.entropy import Entropy; e = Entropy('5');"
        "print(e.evaluation('x').text, e.cases.of('a', 1).random().getrandbits(64))"
    )
    entropy = Entropy("5")
    expected = f"{entropy.evaluation('x').text} {entropy.cases.of('a', 1).random().getrandbits(64)}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == expected, done.stderr


def test_timings_take_no_evaluations_place() -> None:
    plain, timed = Entropy("5eed"), Entropy("5eed")
    seeds = [timed.timing("a"), timed.timing("a"), timed.timing("b")]
    assert len({seed.text for seed in seeds}) == 3
    assert timed.evaluation("a") == plain.evaluation("a") not in seeds
    assert seeds[0] == Entropy("5eed").timing("a")
