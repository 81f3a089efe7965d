"""Raw samples of a measurement as text."""

from __future__ import annotations

import base64
import zlib

import pytest

from astra_chat.tools.run.protocol import Block, ClockReading, WarmReplay
from astra_chat.tools.timing.raw_samples import MOST_BYTES, pack, unpack
from astra_vgpu.ground.errors import BadInput
from tests.time_samples import raw_times

CLOCK = ClockReading(
    sm_clock_mhz=1980,
    memory_clock_mhz=3201,
    temperature_c=40,
    power_w=300,
    throttle_reasons=0,
    throttled=False,
)
BLOCK = Block(
    candidate_first=True,
    baseline=(1 / 3, 2 / 3),
    candidate=(0.1, 0.2),
    control=(0.3, 0.4),
    spent_s=0.5,
    clock=CLOCK,
)
RAW = raw_times(
    (BLOCK,) * 40,
    warm=(WarmReplay(baseline_us=1.0, candidate_us=2.0),),
    baseline_event_us=(2.1,) * 100,
    candidate_event_us=(2.2,) * 100,
    event_us=9.0,
    host_us=10.0,
)


def test_all_samples_come_back_with_all_their_bits() -> None:
    text = pack(RAW)
    assert unpack(text) == RAW
    assert text.isascii() and len(text) < len(RAW.model_dump_json()) / 4


@pytest.mark.parametrize(
    "text",
    [
        "no base64 !",
        base64.b64encode(b"not compressed").decode(),
        base64.b64encode(zlib.compress(b"{}")).decode(),
        base64.b64encode(zlib.compress(b'{"blocks": 1}')).decode(),
        pack(RAW)[:-8],
        "",
    ],
)
def test_what_is_damaged_is_named(text: str) -> None:
    with pytest.raises(BadInput, match="raw samples"):
        unpack(text)


def test_a_small_text_that_becomes_a_large_one_is_refused() -> None:
    bomb = base64.b64encode(zlib.compress(b" " * (MOST_BYTES + 1), 9)).decode()
    with pytest.raises(BadInput, match="more than a measurement can have"):
        unpack(bomb)
