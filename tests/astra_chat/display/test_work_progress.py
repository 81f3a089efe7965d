"""Lines of progress where there is no terminal."""

from __future__ import annotations

import re
import threading

import pytest

from astra_chat.display import work_progress as lines
from astra_chat.tools.progress import ORACLE, Progress


def test_the_latest_phase_is_printed_again_while_nothing_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second line comes without a further report; what lasts no interval is silent."""
    printed, twice = list[str](), threading.Event()

    def note(text: str) -> None:
        printed.append(text)
        if len(printed) > 1:
            twice.set()

    monkeypatch.setattr(lines, "note", note)
    with lines.work_progress(every_s=0.01) as tell:
        tell(Progress(step="check", done=0, total=159, text="soon replaced"))
        tell(Progress(step="check", done=30, total=159, text=ORACLE))
        assert twice.wait(timeout=60)
    assert re.fullmatch(rf"check, 30 of 159: {ORACLE} \(\d+ s\)", printed[-1])
    before = len(printed)
    with lines.work_progress(every_s=60) as tell:
        tell(Progress(step="build", done=0, total=1, text="nvcc"))
    assert len(printed) == before and not capsys.readouterr().err
