"""Launch plans as values: JSON round trip, bounds, one line of text."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from astra_chat.tools.plan.model import (
    MAX_NODES,
    MAX_PARAMETER_BYTES,
    ArgumentAddress,
    CopyNode,
    DeviceFact,
    KernelNode,
    LaunchPlan,
    MemsetNode,
    PointerRelocation,
    TensorMapRelocation,
    TiledTensorMap,
    VariableAddress,
)
from astra_chat.tools.types import Case

CASE = Case(dims={"tokens": 16, "d": 4096}, dtype="float16")
INPUT = ArgumentAddress(name="input", offset=16)
MAP = TiledTensorMap(
    data_type=6,
    address=INPUT,
    global_dim=(8192, 16),
    global_strides=(16384,),
    box_dim=(64, 8),
    element_strides=(1, 1),
    interleave=0,
    swizzle=3,
    l2_promotion=2,
    oob_fill=0,
)
KERNEL = KernelNode(
    kernel="_Z4fillPfi",
    grid=(16, 1, 1),
    block=(128, 2, 1),
    dynamic_shared_bytes=1024,
    cluster=(2, 1, 1),
    programmatic=True,
    parameters=bytes(256),
    relocations=(
        PointerRelocation(at=0, to=INPUT),
        PointerRelocation(at=8, to=VariableAddress(name="table", offset=4)),
        TensorMapRelocation(at=64, map=MAP),
    ),
    undefined=((20, 4),),
)
PLAN = LaunchPlan(
    case=CASE,
    nodes=(
        MemsetNode(target=ArgumentAddress(name="out", offset=0), value=255, width_bytes=64),
        KERNEL,
        CopyNode(target=VariableAddress(name="table", offset=0), source=INPUT, width_bytes=8),
    ),
    facts=(DeviceFact(name="cudaDevAttrMultiProcessorCount", value=132),),
)


def test_json_round_trip_keeps_everything() -> None:
    text = PLAN.model_dump_json()
    assert LaunchPlan.model_validate_json(text) == PLAN
    assert f'"{"00" * 256}"' in text, "bytes are hexadecimal digits"


def test_the_hash_changes_with_any_launch() -> None:
    other = KERNEL.model_copy(update={"grid": (17, 1, 1)})
    assert PLAN.model_copy(update={"nodes": (other,)}).sha256 != PLAN.sha256
    assert PLAN.model_copy().sha256 == PLAN.sha256


def test_a_plan_is_one_line_of_text() -> None:
    assert PLAN.summary == (
        "memset out, 64 bytes; fill grid 16x1x1 block 128x2x1, "
        "shared 1,024 bytes, cluster 2x1x1, PDL; copy input to table, 8 bytes"
    )
    assert PLAN.model_copy(update={"nodes": ()}).summary.endswith("launches nothing")


@pytest.mark.parametrize(
    "change",
    [
        {"grid": (0, 1, 1)},
        {"grid": (1, 1)},
        {"grid": (2**31, 1, 1)},
        {"dynamic_shared_bytes": -1},
        {"shared_carveout": 101},
        {"parameters": bytes(MAX_PARAMETER_BYTES + 1)},
        {"undefined": ((-1, 4),)},
        {"kernel": ""},
        {"kernel": "k" * 5000},
        {"surprise": 1},
    ],
)
def test_what_no_launch_can_be_is_no_plan(change: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        KernelNode.model_validate({**KERNEL.model_dump(), **change})


def test_the_number_of_launches_is_bounded() -> None:
    with pytest.raises(ValidationError):
        LaunchPlan(case=CASE, nodes=(KERNEL,) * (MAX_NODES + 1))
