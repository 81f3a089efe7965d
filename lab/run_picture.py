"""The README's picture, the rounds of one live run:
`python -m lab.run_picture RUN EVALUATION > docs/run.svg`.

RUN and EVALUATION are what live_runs takes: a transcript, and what a GPU says of its winner. A row
is a kernel; its bar is as long as the speed over the baseline. Colours follow the reader's light or
dark setting.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Literal

from astra_chat.transcript.summary import AttemptSummary, RunSummary
from astra_vgpu.ground.errors import BadInput
from lab.commands import one_line_errors
from lab.live_runs import LiveRun, load

Kind = Literal["plain", "bad", "best"]
WIDTH, LEFT, RIGHT, TOP, ROW = 820, 92, 130, 58, 40
"""Pixels: of the picture, beside and above the bars, and from one row to the next."""
STYLE = """
text{font:14px system-ui,sans-serif;fill:#1f2328}.small{font-size:12px;fill:#59636e}
.head{font-size:16px;font-weight:600}.plain{fill:#8c959f}.best{fill:#1a7f37}.bad{fill:#cf222e}
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.small{fill:#9198a1}.plain{fill:#6e7681}
.best{fill:#3fb950}.bad{fill:#f85149}}
"""


@dataclass(frozen=True)
class KernelBar:
    """One kernel."""

    left: str
    """Its round."""
    text: str
    """What was changed, above the bar."""
    result: str
    """Beside the bar."""
    ratio: float
    """Length of the bar: the speed over the baseline; 0 for a kernel that was not timed."""
    kind: Kind = "plain"


def rows(run: LiveRun) -> Iterator[KernelBar]:
    """The baseline, all candidates in their order, and the winner as a GPU measured it."""
    summary = run.summary
    yield KernelBar("baseline", "SGLang's kernel of 2025", "1.00x", 1.0)
    for one in summary.rounds:
        for number, attempt in enumerate(one.attempts):
            left = "" if number else f"round {one.number}"
            yield _candidate(left, "repaired" if number else one.title, attempt, summary)
    for gpu in sorted(run.measured, reverse=True):
        if (timed := run.timed_on(gpu)) and timed.basis == "measured":
            result = f"measured {timed.ratio:.2f}x"
            yield KernelBar("winner", f"judged again on one {gpu}", result, timed.ratio, "best")


def _candidate(left: str, text: str, attempt: AttemptSummary, summary: RunSummary) -> KernelBar:
    if attempt.ratio is None:
        return KernelBar(left, text, f"{attempt.verdict or 'not judged'}: sent back", 0.0, "bad")
    basis = "measured" if summary.device.kind == "cuda" else "estimated"
    return KernelBar(left, text, f"{basis} {attempt.ratio:.2f}x", attempt.ratio)


def picture(run: LiveRun) -> str:
    """The picture as a document of SVG."""
    shown = list(rows(run))
    height = TOP + ROW * len(shown) + 6
    title = f"A live run on {run.summary.task}: speed over the baseline, by round"
    when = f"{run.summary.started[:10]} · {run.summary.device.name} · {run.answers} model replies"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
            f"<title>{escape(title)}</title><style>{STYLE}</style>",
            f'<text class="head" x="8" y="24">{escape(title)}</text>',
            f'<text class="small" x="8" y="43">{escape(when)}</text>',
            *_bars(shown),
            "</svg>",
        ]
    )


def _bars(shown: Sequence[KernelBar]) -> Iterator[str]:
    scale = (WIDTH - LEFT - RIGHT - 8) / max(row.ratio for row in shown)
    for place, row in enumerate(shown):
        y, end = TOP + ROW * place, LEFT + row.ratio * scale
        if row.left:
            yield f'<text class="small" x="8" y="{y + 27}">{escape(row.left)}</text>'
        yield f'<text class="small" x="{LEFT}" y="{y + 12}">{escape(row.text)}</text>'
        yield (
            f'<rect class="{row.kind}" x="{LEFT}" y="{y + 17}" rx="2"'
            f' width="{max(4.0, end - LEFT):.0f}" height="12"/>'
        )
        beside = max(end, LEFT + 4) + 8
        yield f'<text x="{beside:.0f}" y="{y + 28}">{escape(row.result)}</text>'


@one_line_errors()
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.run_picture")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    runs = load(parser.parse_args().files)
    if len(runs) != 1:
        raise BadInput(f"{len(runs)} runs: name one, and evaluations of its winner")
    print(picture(runs[0]))


if __name__ == "__main__":
    main()
