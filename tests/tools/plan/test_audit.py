"""Forged plans of many kinds, each held against cubin, buffers and GPU."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from astra_chat.tools.plan.audit import audit
from astra_chat.tools.plan.model import (
    BEFORE_BYTES,
    ArgumentAddress,
    CopyNode,
    KernelNode,
    MemsetNode,
    Node,
    PointerRelocation,
    TensorMapRelocation,
    TiledTensorMap,
    VariableAddress,
)
from astra_chat.tools.plan.stand_ins import Argument, Buffer, Buffers
from astra_vgpu.ground.cubin import Cubin, CubinKernel, CubinParameter, CubinVariable
from astra_vgpu.ground.gpu_specs import spec

H200, A100 = spec("h200"), spec("a100")
KERNEL = CubinKernel(
    name="k",
    registers=64,
    static_shared_bytes=1024,
    barriers=1,
    max_threads=256,
    required_block=None,
    cluster=None,
    max_cluster=0,
    parameter_bytes=144,
    parameters=(CubinParameter(0, 8), CubinParameter(8, 4), CubinParameter(16, 128)),
)
SIZED = CubinKernel(
    name="sized",
    registers=8,
    static_shared_bytes=0,
    barriers=0,
    max_threads=64,
    required_block=(64, 1, 1),
    cluster=None,
    max_cluster=0,
    parameter_bytes=0,
    parameters=(),
)
CUBIN = Cubin((9, 0), {"k": KERNEL, "sized": SIZED}, {"table": CubinVariable("table", 32, 0)})
BUFFERS = Buffers(
    buffers=(Buffer(64),), arguments=(Argument("out", 64, 0), Argument("none", 0, None))
)
OUT = ArgumentAddress(name="out", offset=64)
TABLE = VariableAddress(name="table", offset=32)
MAP = TiledTensorMap(
    data_type=6,
    address=ArgumentAddress(name="out", offset=0),
    global_dim=(8, 2),
    global_strides=(16,),
    box_dim=(8, 1),
    element_strides=(1, 1),
    interleave=0,
    swizzle=0,
    l2_promotion=0,
    oob_fill=0,
)
GOOD: dict[str, Any] = {
    "kernel": "k",
    "grid": (64, 2, 1),
    "block": (128, 2, 1),
    "dynamic_shared_bytes": 200_000,
    "cluster": (2, 1, 1),
    "parameters": bytes(144),
    "undefined": ((12, 4),),
    "relocations": (
        PointerRelocation(at=0, to=OUT),
        TensorMapRelocation(at=16, map=MAP),
    ),
}


def kernel(**changes: Any) -> KernelNode:
    return KernelNode.model_validate({**GOOD, **changes})


def test_what_fits_passes() -> None:
    nodes: tuple[Node, ...] = (
        MemsetNode(target=ArgumentAddress(name="out", offset=0), value=0, width_bytes=64),
        kernel(),
        kernel(relocations=(PointerRelocation(at=0, to=TABLE),)),
        CopyNode(
            target=VariableAddress(name="table", offset=0),
            source=ArgumentAddress(name="out", offset=16),
            width_bytes=8,
            height=3,
            target_pitch_bytes=8,
            source_pitch_bytes=20,
        ),
        kernel(
            kernel="sized",
            block=(64, 1, 1),
            parameters=b"",
            undefined=(),
            relocations=(),
            dynamic_shared_bytes=0,
        ),
    )
    assert audit(nodes, CUBIN, BUFFERS, H200) == ""


def pointer(at: int, to: ArgumentAddress | VariableAddress = OUT) -> PointerRelocation:
    return PointerRelocation(at=at, to=to)


def argument(name: str, offset: int) -> PointerRelocation:
    return pointer(0, ArgumentAddress(name=name, offset=offset))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"kernel": "ghost"}, "the cubin has no kernel ghost"),
        ({"block": (257, 1, 1)}, "no GPU of this kind can run it"),
        ({"block": (1, 1, 65)}, "no GPU of this kind can run it"),
        ({"dynamic_shared_bytes": 232_000}, "no GPU of this kind can run it"),
        (
            {
                "cooperative": True,
                "cluster": None,
                "dynamic_shared_bytes": 0,
                "block": (64, 1, 1),
                "grid": (132 * 16 + 1, 1, 1),
            },
            "CUDA error 720",
        ),
        (
            {
                "cooperative": True,
                "cluster": (2, 1, 1),
                "dynamic_shared_bytes": 0,
                "block": (64, 1, 1),
                "grid": (132 * 8 + 2, 1, 1),
            },
            "CUDA error 720",
        ),
        ({"cluster": (32, 1, 1)}, "a cluster of 32 blocks"),
        ({"cluster": (3, 1, 1)}, "its grid is not a multiple of its cluster"),
        ({"parameters": bytes(143)}, "143 parameter bytes, but the cubin says 144"),
        ({"undefined": ((140, 5),)}, "undefined bytes outside"),
        ({"undefined": ((8, 4), (10, 4))}, "undefined bytes outside"),
        ({"relocations": (pointer(4),)}, "misaligned or overlapping"),
        ({"relocations": (pointer(0), pointer(0))}, "misaligned or overlapping"),
        ({"relocations": (pointer(8),)}, "outside all parameters"),
        ({"relocations": (pointer(1 << 40),)}, "outside all parameters"),
        ({"relocations": (TensorMapRelocation(at=24, map=MAP),)}, "outside all parameters"),
        ({"relocations": (argument("out", 65),)}, "byte 65 of out"),
        ({"relocations": (argument("ghost", 0),)}, "no argument ghost"),
        ({"relocations": (argument("ghost", -16),)}, "no argument ghost"),
        (
            {
                "relocations": (
                    TensorMapRelocation(
                        at=16, map=MAP.model_copy(update={"address": argument("out", -16).to})
                    ),
                )
            },
            "16 bytes before out",
        ),
        ({"relocations": (argument("none", 0),)}, "no argument none"),
        ({"relocations": (pointer(0, VariableAddress(name="out", offset=0)),)}, "no variable out"),
        (
            {
                "relocations": (
                    TensorMapRelocation(at=16, map=MAP.model_copy(update={"box_dim": (1, 1, 1)})),
                )
            },
            "do not match its rank",
        ),
    ],
)
def test_a_forged_kernel_launch_is_named(change: dict[str, Any], what: str) -> None:
    assert what in audit((kernel(**change),), CUBIN, BUFFERS, H200)


@pytest.mark.parametrize(
    "rows",
    [
        {"width_bytes": 65},
        {"width_bytes": 8, "height": 9, "pitch_bytes": 8},
        {"width_bytes": 8, "height": 2, "pitch_bytes": 4},
        {"width_bytes": 1, "height": 2**31 - 1, "pitch_bytes": 2**47},
    ],
)
def test_a_memset_outside_its_argument_is_named(rows: dict[str, int]) -> None:
    start = ArgumentAddress(name="out", offset=0)
    node = MemsetNode.model_validate({"target": start, "value": 0, **rows})
    assert audit((node,), CUBIN, BUFFERS, H200).startswith("launch 1 (memset)")


def test_only_a_kernels_pointer_may_lie_before_its_argument() -> None:
    node = kernel(relocations=(argument("out", -16),))
    assert audit((node,), CUBIN, BUFFERS, H200) == ""
    inside, before = (ArgumentAddress(name="out", offset=offset) for offset in (0, -1))
    for moved in (
        MemsetNode(target=before, value=0, width_bytes=8),
        CopyNode(target=before, source=inside, width_bytes=8),
        CopyNode(target=inside, source=before, width_bytes=8),
    ):
        assert "1 bytes before out" in audit((moved,), CUBIN, BUFFERS, H200)
    with pytest.raises(ValidationError):
        ArgumentAddress(name="out", offset=-BEFORE_BYTES - 1)
    with pytest.raises(ValidationError):
        VariableAddress(name="table", offset=-1)


def test_both_ends_of_a_copy_are_held_to_their_argument() -> None:
    start, end = ArgumentAddress(name="out", offset=0), ArgumentAddress(name="out", offset=60)
    for target, source in ((start, end), (end, start)):
        node = CopyNode(target=target, source=source, width_bytes=8)
        assert "byte 68 of out" in audit((node,), CUBIN, BUFFERS, H200)


def test_what_only_other_gpus_take_is_named() -> None:
    small = kernel(dynamic_shared_bytes=0, grid=(2, 1, 1))
    assert "clusters need compute capability 9.0" in audit((small,), CUBIN, BUFFERS, A100)
    wrong = kernel(kernel="sized", block=(32, 1, 1), parameters=b"", undefined=(), relocations=())
    assert "required (64, 1, 1)" in audit(
        (wrong.model_copy(update={"dynamic_shared_bytes": 0}),), CUBIN, BUFFERS, H200
    )


def test_the_number_of_launches_is_bounded() -> None:
    assert "more than 256" in audit((kernel(),) * 257, CUBIN, BUFFERS, H200)
