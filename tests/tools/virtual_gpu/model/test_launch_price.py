"""One price of a second launch: in the model, in the prompts and in the docs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from astra_chat.tools.gpu_specs import spec
from astra_chat.tools.virtual_gpu.model.estimate import estimate
from astra_chat.tools.virtual_gpu.model.launch_price import second_launch_us
from astra_chat.tools.virtual_gpu.model.ratio_interval import judged
from astra_chat.tools.virtual_gpu.types import Counters, Dim3, Launch, LaunchReport

ROOT = Path(__file__).resolve().parents[4]
H200 = spec("h200")
TEXTS = ("tools/report/metrics.md", "tools/report/metrics_measured.md", "docs/virtual-gpu.md")


def test_it_is_what_the_model_adds_to_the_fixed_part_of_a_call() -> None:
    touching = Counters(
        global_load_requests=1,
        global_load_sectors=1,
        unique_load_sectors=1,
        block_load_sectors=1,
        critical_path_instructions=9,
        critical_path_cycles=9,
    )
    report = LaunchReport(Launch("k", Dim3(1), Dim3(32), 0, b""), 1, touching)
    one, two = (
        judged(estimate([report] * n, {"k": (16, 0)}, H200, warm=True), n).split["fixed"]
        for n in (1, 2)
    )
    assert two - one == pytest.approx(second_launch_us(H200))


@pytest.mark.parametrize("text", TEXTS)
def test_prompts_and_docs_say_the_same_number(text: str) -> None:
    words = " ".join((ROOT / text).read_text().split())
    (said,) = re.findall(
        r"one more launch in a call, or a memset or copy, costs ([\d.]+) us on an H200", words
    )
    assert float(said) == round(second_launch_us(H200), 1)
