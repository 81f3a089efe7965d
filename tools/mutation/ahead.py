"""`python -m astra_chat.tools.mutation.ahead TASK...`: scores own cases of tasks by seeded bugs, as
the first run of a task does before the tester's cases. Later runs find scores and builds in the
cache. Set-up does it for the task of `make demo`."""

from __future__ import annotations

import sys
from contextlib import closing

from astra_chat.tools.mutation.mutant_runs import Scorer
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.task.tiers import baseline_source
from astra_vgpu.ground.errors import AstraError


def main() -> int:
    """Do it; a task that cannot be scored is one line, and exit code 3 or 2."""
    try:
        for name in sys.argv[1:]:
            task = find_task(name)
            with closing(Oracle(task)) as oracle:
                Scorer(task, oracle, baseline_source(task, "sglang"), Stop()).score_own()
    except AstraError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
