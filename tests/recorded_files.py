"""Where recorded runs lie, for tests: two examples as files, all others in the archive."""

from __future__ import annotations

from pathlib import Path

from astra_chat.tools.recordings.reading import expanded

ROOT = Path(__file__).resolve().parents[1]
PLAIN = ROOT / "transcripts/examples"
ARCHIVE = ROOT / "transcripts/recorded.tar.xz"
EXAMPLES, LIVE = ARCHIVE / "examples", ARCHIVE / "live"
BASELINES = (
    "h200/baselines.json",
    "h200/baselines-decode.json",
    "h100/baselines-h100.json",
    "h100/baselines-decode-h100.json",
)
"""Files in EXAMPLES that `lab.baselines measure` wrote of our baselines."""
TODAY = ("h200/today-h200.json", "h200/qk-today-h200.json")
"""Files in EXAMPLES that it wrote with `--winners`."""
VIRTUAL = PLAIN / "virtual/silu_and_mul.jsonl.xz"


def examples() -> list[Path]:
    """The transcripts of all scripted runs."""
    members = (path for path in expanded([EXAMPLES]) if path.suffix == ".jsonl")
    return [*sorted(PLAIN.rglob("*.jsonl*")), *members]


def live_runs() -> list[Path]:
    """All live runs of docs/results.md, and what GPUs said of their winners."""
    return expanded([LIVE / "*/*"])
