"""Signals between ranks in PTX: what is refused, and how often a rank waits."""

from __future__ import annotations

import pytest

from astra_chat.tools.ranks.signals import rounds, signal_faults

HEAD = ".version 8.0\n.target sm_90\n.visible .entry kernel(.param .u64 p)\n{\n"
SEND, WAIT = "st.release.sys.global.u32 [%rd1], %r1;", "ld.acquire.sys.global.u32 %r2, [%rd2];"
PUSH = "st.relaxed.sys.global.v2.u64 [%rd1], {%rd3, %rd4};"
POLL = "ld.relaxed.sys.global.v2.u64 {%rd5, %rd6}, [%rd2];"
FENCE, FLAG = "fence.acq_rel.sys;", "st.volatile.global.u32 [%rd1], %r1;"


def ptx(*lines: str) -> str:
    return HEAD + "\n".join(lines) + "\nret;\n}\n"


@pytest.mark.parametrize(
    "lines",
    [
        (SEND, WAIT),
        (PUSH, POLL),
        (
            FENCE,
            "st.volatile.global.u32 [%rd1], %r1;",
            "ld.volatile.global.u32 %r2, [%rd2];",
            FENCE,
        ),
        ("membar.sys;", "st.relaxed.sys.global.u32 [%rd1], %r1;", WAIT),
        ("st.volatile.shared.u32 [%r3], %r1;", SEND, "fence.acq_rel.gpu;", WAIT),
    ],
)
def test_what_is_ordered_passes(lines: tuple[str, ...]) -> None:
    assert signal_faults(ptx(*lines)) == []


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ((SEND.replace("sys", "gpu"), WAIT), "scope within this GPU"),
        ((SEND, WAIT.replace("sys", "cta")), "scope within this GPU"),
        ((SEND, "atom.global.add.u32 %r1, [%rd1], 1;", WAIT), "scope within this GPU"),
        ((SEND.replace("release", "relaxed"), WAIT), "nothing orders the stores before it"),
        ((WAIT.replace("acquire", "relaxed"), SEND), "nothing orders the reads after it"),
        (("membar.gl;", FLAG, WAIT), "nothing orders the stores"),
        ((SEND, "ld.global.u32 %r2, [%rd2];"), "no kernel waits for a peer"),
        (("st.global.u32 [%rd1], %r1;", WAIT), "no kernel signals a peer"),
        (("ld.global.u32 %r2, [%rd2];",), "exchange no signal"),
    ],
)
def test_what_orders_nothing_for_a_peer_is_named(lines: tuple[str, ...], said: str) -> None:
    found = signal_faults(ptx(*lines))
    assert any(said in one for one in found), found


def test_a_wait_counts_once_for_all_that_was_sent_before_it() -> None:
    assert rounds(ptx(SEND, WAIT, SEND, WAIT), ["kernel"]) == 2
    assert rounds(ptx(PUSH, PUSH, POLL, POLL), ["kernel"]) == 1
    assert rounds(ptx(WAIT, SEND, WAIT), ["kernel"]) == 1
    assert rounds(ptx(SEND, WAIT), ["other"]) == 0
