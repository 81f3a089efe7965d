"""The floating-point state in which a real launcher is called."""

from __future__ import annotations

import ctypes

from astra_chat.tools.runners.cuda_capture import floating_point_state


def halved() -> float:
    """The least normal number times a half, by the machine's own multiplication."""
    one = ctypes.c_double(2.0**-1022)
    return one.value * 0.5


def test_every_second_call_flushes_denormals() -> None:
    assert halved() > 0
    with floating_point_state(1):
        flushed = halved()
    with floating_point_state(2):
        kept = halved()
    assert flushed == 0 < kept == halved()


def test_the_state_is_restored_after_an_error() -> None:
    try:
        with floating_point_state(3):
            raise ValueError
    except ValueError:
        assert halved() > 0
