"""The 64 bits of an mbarrier, and what may be said of one in PTX."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from astra_vgpu.isa.mbarriers import (
    BYTES,
    MOST,
    PHASE,
    MbarrierState,
    hang_message,
    has_no_result,
    is_poll,
)
from astra_vgpu.ptx.syntax import Instruction

COUNTS = st.integers(0, MOST)


@given(COUNTS, COUNTS, st.integers(-MOST, MOST), st.integers(0, 1))
def test_a_state_comes_back_from_its_word(
    pending: int, expected: int, nbytes: int, phase: int
) -> None:
    state = MbarrierState(pending, expected, nbytes, phase)
    assert 0 <= state.word < 1 << 64
    assert MbarrierState.of(state.word) == state


@given(st.integers(0, (1 << 64) - 1))
def test_only_marked_words_are_mbarriers(word: int) -> None:
    assert (MbarrierState.of(word) is None) == (word >> 62 != 1)


def test_fresh_memory_is_no_mbarrier() -> None:
    assert MbarrierState.of((1 << 64) - 1) is None and MbarrierState.of(0) is None


def test_a_phase_ends_when_nothing_is_awaited() -> None:
    state = MbarrierState(0, 5, 16, 1)
    assert not state.turn()
    state.bytes = 0
    assert state.turn() and state == MbarrierState(5, 5, 0, 0)


@given(COUNTS, st.integers(0, 1 << 40), st.integers(0, 1))
def test_a_token_tells_count_parity_and_phase(pending: int, phases: int, phase: int) -> None:
    token = MbarrierState(pending, 7, -3, phase).token(phases)
    assert token & MOST == pending and token >> PHASE & 1 == phase
    assert token >> BYTES & MOST == phases & MOST


def test_which_instructions_wait_and_which_have_results() -> None:
    def of(opcode: str) -> Instruction:
        return Instruction(opcode, (), None, 1)

    assert is_poll(of("mbarrier.try_wait.parity.shared.b64"))
    assert not is_poll(of("mbarrier.arrive.shared.b64")) and not is_poll(of("bar.sync"))
    assert has_no_result(of("mbarrier.expect_tx.relaxed.cta.b64"))
    assert not has_no_result(of("mbarrier.arrive.expect_tx.b64"))
    assert not has_no_result(of("mbarrier.pending_count.b64"))


def test_words_of_a_wait_in_vain() -> None:
    assert "offset 8, which still awaits 2 of 3 arrivals and 16 bytes" in hang_message(
        8, MbarrierState(2, 3, 16, 0).word
    )
    assert "nothing, as it is not initialized" in hang_message(8, 0)
