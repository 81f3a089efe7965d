"""What the live view prints of a run."""

from __future__ import annotations

import io
from collections.abc import Sequence

from astra_chat.display.console import console
from astra_chat.display.run_view import View
from astra_chat.transcript.events import Record


def shown(records: Sequence[Record], quiet: bool = False) -> str:
    out = io.StringIO()
    view = View(console(out), quiet)
    for record in records:
        view.show(record)
    view.close()
    return out.getvalue()
