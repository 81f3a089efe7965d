"""Records the launch plans of many cases beside the judge, whose own process compares results.

It is no more walled than the judge: it starts the recorders, which are, and checks what they wrote
(tools/plan/record.py). No code of a candidate is in it.
"""

from __future__ import annotations

from pathlib import Path

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.entropy import Seed
from astra_chat.tools.plan.record import record_each
from astra_chat.tools.system.reporter import Reporter
from astra_chat.tools.task.folder import load_task
from astra_chat.tools.types import Case
from astra_vgpu.ground.gpu_specs import spec


def main() -> None:
    """Write what was recorded to a file, a line of JSON for each case, or one for all of them."""
    reporter = Reporter()
    asked = reporter.request
    folder = Path(asked["folder"])
    lines = (folder / "cases").read_text().splitlines()
    cases = [Case.model_validate_json(line) for line in lines]
    task = load_task(Path(asked["task"])).model_copy(update={"entry": asked["entry"]})
    source = (folder / "source").read_text()
    built = Build(Path(asked["build"]), resources=(), cached=True, seconds=0.0, source=source)
    found = record_each(built, task, cases, spec(asked["spec"]), Seed(asked["seed"]).random())
    each = isinstance(found, tuple)
    with (folder / "plans").open("w") as file:
        for one in found if isinstance(found, tuple) else (found,):
            file.write(f"{one.model_dump_json()}\n")
    reporter.send("recorded", each=each)


if __name__ == "__main__":
    main()
