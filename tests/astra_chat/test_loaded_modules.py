"""What only reads or judges loads no AutoGen: it is slow to start and none of their business."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = str(ROOT / "transcripts" / "examples" / "silu_and_mul-h200.jsonl.xz")
RUN = """
import sys
from astra_chat.cli.main import main
try:
    main()
except SystemExit as end:
    print("exit code", end.code, file=sys.stderr)
found = sorted({name.split(".")[0] for name in sys.modules} & {"autogen_core", "torch", "openai"})
print("loaded", found, file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("arguments", "modules"),
    [
        (["replay", EXAMPLE, "--quiet"], "astra_chat.replay.show"),
        (["replay", EXAMPLE, "--prompts", "--turn", "4"], "astra_chat.replay.prompts"),
        (["replay", EXAMPLE, "--rejudge", "--device", "cuda:99"], "astra_chat.replay.rejudge"),
        (["report", EXAMPLE, "--out", "report.html"], "astra_chat.report.html"),
        (["verify", EXAMPLE], "astra_chat.verify.verify"),
        (["export", EXAMPLE, "--to", "sft", "-o", "s.jsonl"], "astra_chat.export.chats"),
        (["check", "silu_and_mul", "empty.cu", "--device", "virtual"], "astra_chat.tools.judge"),
        (
            ["evaluate", "silu_and_mul", "empty.cu", "--device", "virtual"],
            "astra_chat.judging.evaluating",
        ),
        (["mailbox", "list", "."], "astra_chat.mailbox.questions"),
        (["mailbox", "answer", ".", "nothing", "empty.cu"], "astra_chat.mailbox.checking"),
        (["judge", "work", ".", "--once", "--device", "virtual"], "astra_chat.tools.judge"),
    ],
    ids=[
        "replay",
        "prompts",
        "rejudge",
        "report",
        "verify",
        "export",
        "check",
        "evaluate",
        "mailbox",
        "answer",
        "work",
    ],
)
def test_it_loads_no_autogen(tmp_path: Path, arguments: list[str], modules: str) -> None:
    (tmp_path / "empty.cu").write_text("// no launcher\n")
    program = f"{RUN}\nassert {modules!r} in sys.modules, 'the command did not come that far'\n"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "loaded []" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
