"""Words beside the output."""

from __future__ import annotations

import pytest

from astra_chat.display.notes import note


def test_a_note_is_one_line_on_stderr_without_control_codes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    note("continue \x1b[31mwith")
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err == "astra-chat: continue \\x1b[31mwith\n"
