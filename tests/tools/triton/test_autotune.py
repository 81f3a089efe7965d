"""@triton.autotune stands for a marked constant: the first configuration is judged, tuning tries
the others, and what cannot be read is named with its line."""

from __future__ import annotations

import pytest

from astra_chat.agents.constants import is_marked
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.triton.autotune import without_autotune
from astra_chat.tools.triton.candidate import TritonSource, read_source
from astra_chat.tools.triton.translated import triton_findings
from astra_chat.tools.tuning.space import read_space
from astra_vgpu.ground.errors import BadInput
from tests.tools.triton.samples import SOURCES

TASK = find_task("moe_sum_reduce")
PLAIN = SOURCES["moe_sum_reduce"]
CONFIGS = """\
@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 256}, num_warps=4),
        triton.Config({"BLOCK": 1024}, num_warps=8, num_stages=2),
    ],
    key=["hidden"],
)  # two of them
"""
LAUNCHER = """\
def moe_sum_reduce(input, output, tokens, experts, hidden, scale):
    grid = lambda META: (tokens, triton.cdiv(hidden, META["BLOCK"]))
    moe_sum_reduce_kernel[grid](
        input, output, experts, hidden, scale,  # all, but BLOCK
    )
"""
TUNED = PLAIN[: PLAIN.index("def moe_sum_reduce(")].replace("@triton.jit", f"{CONFIGS}@triton.jit")
TUNED += LAUNCHER
INDEX = "moe_sum_reduce_kernel_config"


def test_the_first_configuration_is_judged_and_the_others_are_points() -> None:
    space = read_space(TUNED)
    assert triton_findings(TUNED, TASK) == () and is_marked(TUNED)
    assert [(one.name, one.values, one.first) for one in space.parameters] == [(INDEX, (0, 1), 0)]
    for place, (block, warps, stages) in enumerate(((256, 4, 3), (1024, 8, 2))):
        source = space.at({INDEX: place})
        assert triton_findings(source, TASK) == ()
        scope: dict[str, object] = {INDEX: place}
        launch = source[source.index("num_warps=", source.index("def moe_sum_reduce(")) :]
        exec(f"found = dict({launch.strip()}", scope)
        assert scope["found"] == {"num_warps": warps, "num_stages": stages, "BLOCK": block}


def test_lines_keep_their_numbers_and_sources_without_it_stay() -> None:
    plain = without_autotune(TUNED)
    assert len(plain.splitlines()) == len(TUNED.splitlines())
    assert plain.splitlines().index("@triton.jit") == TUNED.splitlines().index("@triton.jit")
    assert without_autotune(PLAIN) is PLAIN
    read = read_source(TUNED, TASK)
    assert isinstance(read, TritonSource) and read.text == plain


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("num_warps=8, num_stages=2", "num_warps=8, maxnreg=64", "maxnreg=64"),
        ('{"BLOCK": 1024}', '{"SIZE": 1024}', "must set the same names"),
        ('{"BLOCK": 1024}', '{"BLOCK": h}', "write @triton.autotune"),
        ('key=["hidden"]', 'key=["hidden"], reset_to_zero=["output"]', "reset_to_zero"),
        ('META["BLOCK"]', 'META["SIZE"]', 'META["SIZE"]: no configuration sets it'),
        ('(tokens, triton.cdiv(hidden, META["BLOCK"]))', "tokens", "write a grid as lambda META"),
    ],
)
def test_what_cannot_be_read_is_named(old: str, new: str, words: str) -> None:
    source = TUNED.replace(old, new)
    assert source != TUNED
    assert any(words in finding.what for finding in triton_findings(source, TASK))
    with pytest.raises(BadInput, match=r"^line \d+: "):
        read_space(source)
