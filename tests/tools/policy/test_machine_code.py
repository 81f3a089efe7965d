"""Special registers in nvdisasm's text: which are refused, and whose lines read them."""

from __future__ import annotations

import pytest

from astra_chat.tools.policy.machine_code import Frame, refused_registers, special_registers

OWN = '\t//## File "/build/0/kernel.cu", line {}\n'
PTX = '\t//## File ".nv_debug_ptx_txt", line 7\n'
THREADS = "/usr/local/cuda/include/cccl/cuda/std/__thread/threading_support.h"
WAIT = f'\t//## File "{THREADS}", line 65 inlined at "/build/0/kernel.cu", line 14\n'
OTHER = "        /*0020*/                   IADD3 R2, R2, R3, RZ ;     /* 0x00000a */\n"


def instruction(text: str) -> str:
    return f"        /*00a0*/              {text} ;              /* 0x0000000000007919 */\n"


def refused(text: str, *, timer: bool = False) -> list[tuple[str, int]]:
    return refused_registers(text.splitlines(keepends=True), timer=timer)


@pytest.mark.parametrize(
    "text",
    [
        "S2R R0, SR_TID.X",
        "@!P0 S2R R0, SR_TID.Y",
        "S2UR UR4, SR_CTAID.Z",
        "CS2R R2, SRZ",
        "S2R R3, SR_LANEID",
        "S2R R3, SR_LTMASK",
        "S2UR UR6, SR_CgaCtaId",
        "S2R R1, SR_CgaSize",
        "S2R R5, SR_SMEMSZ",
        "S2UR UR5, SR_SWINHI",
        "IADD3 R2, R2, R3, RZ",
    ],
)
def test_where_a_thread_is_may_be_asked(text: str) -> None:
    assert refused(OWN.format(3) + PTX + instruction(text)) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("CS2R R4, SR_CLOCKLO", "%clock (SR_CLOCKLO)"),
        ("@P1 CS2R.32 R5, SR_CLOCKHI", "%clock (SR_CLOCKHI)"),
        ("S2UR UR4, SR_GLOBALTIMERLO", "%globaltimer (SR_GLOBALTIMERLO)"),
        ("S2R R5, SR_VIRTUALSMID", "%smid (SR_VIRTUALSMID)"),
        ("S2R R5, SR_VIRTID", "%warpid (SR_VIRTID)"),
        ("CS2UR UR4, SR_PM0", "%pm (SR_PM0)"),
        ("MOV R3, SR_CLOCKLO", "%clock (SR_CLOCKLO)"),
        ("S2R R5, SR_NEW", "the special register SR_NEW"),
        ("S2R R5, 0x55", "the special register 0x55"),
    ],
)
def test_all_others_are_refused_at_their_line(text: str, name: str) -> None:
    lines = OWN.format(3) + PTX + OTHER + OWN.format(12) + PTX + instruction(text)
    assert refused(lines + OWN.format(20) + instruction(text)) == [(name, 12)]


def test_the_timer_is_allowed_where_it_only_pauses_and_no_line_says_so() -> None:
    """A line of the toolkit's own wait, which inline assembly could name, changes nothing."""
    timer, clock = (instruction(f"CS2R R4, SR_{name}") for name in ("GLOBALTIMERLO", "CLOCKLO"))
    waits = WAIT + OWN.format(14) + PTX
    assert refused(waits + timer, timer=True) == refused(OWN.format(3) + timer, timer=True) == []
    assert refused(waits + timer) == [("%globaltimer (SR_GLOBALTIMERLO)", 14)]
    assert refused(waits + clock, timer=True) == [("%clock (SR_CLOCKLO)", 14)]


def test_a_place_holds_until_the_next() -> None:
    text = WAIT + OWN.format(14) + OTHER + PTX + instruction("S2R R0, SR_TID.X")
    (read,) = special_registers(text.splitlines())
    assert read.register == "SR_TID.X"
    assert read.frames == (Frame(THREADS, 65), Frame("/build/0/kernel.cu", 14))


def test_an_instruction_of_no_line_is_refused_at_the_first() -> None:
    assert refused(instruction("CS2R R4, SR_GLOBALTIMERLO")) == [
        ("%globaltimer (SR_GLOBALTIMERLO)", 1)
    ]
