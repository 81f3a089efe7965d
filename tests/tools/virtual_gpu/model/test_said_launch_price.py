"""What one more launch costs: prompts and pages say the number of the model."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from astra_vgpu.ground.gpu_specs import spec
from astra_vgpu.model.launch_price import second_launch_us

ROOT = Path(__file__).resolve().parents[4]
TEXTS = (
    "tools/report/metrics.md",
    "tools/virtual_gpu/docs/reference.md",
)


@pytest.mark.parametrize("text", TEXTS)
def test_prompts_and_docs_say_the_same_number(text: str) -> None:
    words = " ".join((ROOT / text).read_text().split())
    (said,) = re.findall(r"memset or copy(?:,| in a call) costs ([\d.]+) us on an H200", words)
    assert float(said) == round(second_launch_us(spec("h200")), 1)
