"""`python -m astra_chat.session.ahead TASK...`: what a repeated run of a task asks of the judge
first, done before it: the recorded tester's cases scored by seeded bugs, the baseline evaluated.

The cache keeps scores, builds and some of the oracle's results by content, so the run finds them.
What a run draws from its own seed is not among them: it checks the baseline again, and each
candidate. Set-up does it for the task of `make demo`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from astra_chat.models.open_models import by_default
from astra_chat.models.transcript_models import own_transcript
from astra_chat.tools.build.tvm_ffi_binding import ensure_binding
from astra_chat.tools.judge import Judge
from astra_chat.tools.mutation.scores import CaseScores
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import Task, find_task
from astra_chat.transcript.options import RunOptions
from astra_chat.transcript.reader import read
from astra_chat.transcript.turns import turns_of
from astra_vgpu.ground.errors import AstraError
from astra_vgpu.ground.toolkit import find_toolkit


def recorded_scores(task: Task) -> Iterator[CaseScores]:
    """Yields the scores in the task's recorded run, where it has one, that rest on bugs of the
    baseline alone: a run that repeats it asks for these."""
    path = own_transcript(task)
    for turn in turns_of(read(path).records) if path else ():
        if isinstance(turn.payload, CaseScores) and not turn.payload.also:
            yield turn.payload


def prepare(task: Task) -> None:
    """Score the recorded cases on the virtual GPU, as every run does, and evaluate the baseline
    there if this machine has no other; compile what the exported module has besides its kernel.
    Raises AstraError."""
    options = by_default(task, RunOptions())
    device = pick_device("virtual")
    with Judge(task, device, tier=options.tier, cases=options.cases) as judge:
        for scores in recorded_scores(task):
            judge.score([one.case for one in scores.cases], scores.asked)
        if pick_device("auto") == device:  # else the run judges on a GPU
            judge.evaluate(judge.baseline)
    ensure_binding(task, find_toolkit())


def main() -> int:
    """Do it; a task for which it cannot be done is one line, and exit code 3 or 2."""
    try:
        for name in sys.argv[1:]:
            prepare(find_task(name))
    except AstraError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
