"""A judge by the words of the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Unpack

from astra_chat.options import JudgeOptions, takes
from astra_chat.tools.entropy import Entropy
from astra_chat.tools.judge import CASE_LISTS, Judge
from astra_chat.tools.progress import Progress
from astra_chat.tools.ranks.judge import judge_of
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.task.tiers import TIER_FILES
from astra_chat.tools.virtual_gpu.adapter import ENGINES
from astra_chat.tools.wording import choices
from astra_vgpu.ground.errors import BadInput


@takes(JudgeOptions, (*JudgeOptions.__annotations__, "on_progress"))
def open_judge(
    task: str | Path,
    on_progress: Callable[[Progress], None] = lambda _: None,
    **options: Unpack[JudgeOptions],
) -> Judge:
    """The judge for these options, each as on the command line; use it in a `with`.

    Raises BadInput naming the option that is wrong, and MissingDependency.
    """
    cases, baseline, engine = options["cases"], options["baseline"], options["engine"]
    if cases is not None and cases not in CASE_LISTS:
        raise BadInput(f"there are no cases named '{cases}'{choices(cases, CASE_LISTS)}")
    if baseline not in TIER_FILES:
        raise BadInput(f"there is no baseline '{baseline}'{choices(baseline, TIER_FILES)}")
    chosen = next((known for known in ENGINES if known == engine), None)
    if chosen is None:
        raise BadInput(f"there is no engine '{engine}'{choices(engine, ENGINES)}")
    return judge_of(
        find_task(str(task)),
        pick_device(options["device"], options["gpu"]),
        tier=baseline,
        cases=cases,
        trust=options["trust"],
        engine=chosen,
        entropy=Entropy(options["seed"]),
        on_progress=on_progress,
    )
