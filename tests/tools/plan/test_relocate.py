"""Recordings with other addresses, and what is made of them; addresses here are small numbers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from astra_chat.tools.plan import report
from astra_chat.tools.plan.model import (
    BEFORE_BYTES,
    ArgumentAddress,
    KernelNode,
    MemsetNode,
    PointerRelocation,
    VariableAddress,
)
from astra_chat.tools.plan.relocate import Seen, Unrepeatable, relocate
from astra_chat.tools.plan.stand_ins import Addresses, Argument, Buffer, Buffers
from astra_vgpu.ground.cubin import Cubin, CubinKernel, CubinParameter, CubinVariable

OUT = (0x10_0000, 0x10_0000, 0x70_0400, 0x35_0800)
INPUT = (0x20_0000, 0x20_0000, 0x11_0000, 0x97_0C00)
FAR = (0x4000_0000, 0x4000_0000, 0x9000_0400, 0x7000_0800)
TABLE = (0x5_0000, 0x5_0000, 0x5_0000, 0x6_2000)
"""Addresses of each in four recordings: the first two have the same ones."""
PATTERNS = (0x1AA, 0x2BB, 0x3CC, 0x4DD)
BUFFERS = Buffers(
    buffers=(Buffer(64), Buffer(256)), arguments=(Argument("out", 64, 0), Argument("input", 256, 1))
)
KERNEL = CubinKernel(
    name="k",
    registers=8,
    static_shared_bytes=0,
    barriers=0,
    max_threads=0,
    required_block=None,
    cluster=None,
    max_cluster=0,
    parameter_bytes=24,
    parameters=(CubinParameter(0, 8), CubinParameter(8, 16)),
)
CUBIN = Cubin((9, 0), {"k": KERNEL}, {"table": CubinVariable("table", 32, 0)})


def launched(parameters: bytes, **changes: object) -> report.Kernel:
    fields: dict[str, object] = {
        "kind": "kernel",
        "kernel": "k",
        "grid": (1, 1, 1),
        "block": (32, 1, 1),
        "dynamic_shared_bytes": 0,
        "shared_carveout": -1,
        "cluster_scheduling": 0,
        "programmatic": False,
        "cooperative": False,
        "parameters": parameters,
        "maps": (),
    }
    return report.Kernel.model_validate({**fields, **changes})


def seen(
    *nodes: report.AnyNode | list[report.AnyNode], inputs: Sequence[int] = INPUT
) -> list[Seen]:
    """A recording for each of the nodes."""
    return [
        Seen(
            report.Called(
                kind="call",
                index=i,
                nodes=tuple(node if isinstance(node, list) else [node]),
                status=0,
                left=0,
                strayed=0,
                refused="",
                error="",
            ),
            Addresses({"out": OUT[i], "input": inputs[i]}, (OUT[i], inputs[i])),
            {"table": TABLE[i]},
            PATTERNS[i],
        )
        for i, node in enumerate(nodes)
    ]


def packed(first: int, second: int, last: int) -> bytes:
    return b"".join(value.to_bytes(8, "little") for value in (first, second, last))


def test_words_that_follow_an_argument_or_a_variable_are_addresses() -> None:
    parameters = [packed(out + 16, table + 4, 7) for out, table in zip(OUT, TABLE, strict=True)]
    (node,) = relocate(seen(*map(launched, parameters)), BUFFERS, CUBIN, {})
    assert isinstance(node, KernelNode)
    assert node.relocations == (
        PointerRelocation(at=0, to=ArgumentAddress(name="out", offset=16)),
        PointerRelocation(at=8, to=VariableAddress(name="table", offset=4)),
    )
    assert node.parameters == packed(0, 0, 7) and node.undefined == ()


def test_the_end_of_an_argument_is_inside_and_the_byte_after_is_not() -> None:
    ends = [launched(packed(address + 256, 0, 0)) for address in INPUT]
    (node,) = relocate(seen(*ends), BUFFERS, CUBIN, {})
    assert isinstance(node, KernelNode)
    assert node.relocations == (
        PointerRelocation(at=0, to=ArgumentAddress(name="input", offset=256)),
    )
    outside = [launched(packed(address + 257, 0, 0)) for address in INPUT]
    with pytest.raises(Unrepeatable, match="parameter 1 of kernel k depends on the addresses"):
        relocate(seen(*outside), BUFFERS, CUBIN, {})


def test_a_kernels_pointer_may_lie_before_its_argument() -> None:
    """It may lie as far before it as no other stand-in can lie, and before an argument only."""
    for before in (1, 192, BEFORE_BYTES):
        nodes = [launched(packed(address - before, 0, 0)) for address in FAR]
        (node,) = relocate(seen(*nodes, inputs=FAR), BUFFERS, CUBIN, {})
        assert isinstance(node, KernelNode)
        assert node.relocations == (
            PointerRelocation(at=0, to=ArgumentAddress(name="input", offset=-before)),
        )
    refused = [
        [address - BEFORE_BYTES - 1 for address in FAR],
        [address - 16 for address in TABLE],
        [address - 16 * i for i, address in enumerate(FAR)],
        [address - 16 for address in (*OUT[:2], *FAR[2:])],
    ]
    for values in refused:
        nodes = [launched(packed(value % 2**64, 0, 0)) for value in values]
        with pytest.raises(Unrepeatable, match="parameter 1 of kernel k"):
            relocate(seen(*nodes, inputs=FAR), BUFFERS, CUBIN, {})


def test_an_address_in_an_argument_is_not_taken_for_one_before_another() -> None:
    """Views keep their distance: 32 bytes into `out` is also 32 bytes before `tail`."""
    views = Buffers(
        buffers=(Buffer(128), Buffer(256)),
        arguments=(Argument("out", 64, 0), Argument("tail", 64, 0, 64), Argument("input", 256, 1)),
    )
    found = {}
    for offset in (-8, 32, 64):
        recordings = seen(*[launched(packed(out + offset, 0, 0)) for out in OUT])
        for recording in recordings:
            recording.addresses.arguments["tail"] = recording.addresses.arguments["out"] + 64  # type: ignore[index]
        (node,) = relocate(recordings, views, CUBIN, {})
        assert isinstance(node, KernelNode)
        (relocation,) = node.relocations
        assert isinstance(relocation, PointerRelocation)
        found[offset] = (relocation.to.name, relocation.to.offset)
    assert found == {-8: ("out", -8), 32: ("out", 32), 64: ("tail", 0)}


def test_bytes_that_follow_the_stack_are_undefined() -> None:
    held = [bytes([pattern & 0xFF] * 4) for pattern in PATTERNS]
    nodes = [launched(packed(3, 0, 0)[:12] + padding + bytes(8)) for padding in held]
    (node,) = relocate(seen(*nodes), BUFFERS, CUBIN, {})
    assert isinstance(node, KernelNode)
    assert node.undefined == ((12, 4),) and node.parameters == packed(3, 0, 0)


def test_bytes_that_no_kernel_reads_are_undefined_whatever_they_hold() -> None:
    nodes = [launched(packed(1, i << 32, 0)) for i in range(4)]
    with pytest.raises(Unrepeatable, match="parameter 2"):
        relocate(seen(*nodes), BUFFERS, CUBIN, {})
    (node,) = relocate(seen(*nodes), BUFFERS, CUBIN, {"k": ((12, 4),)})
    assert isinstance(node, KernelNode) and node.undefined == ((12, 4),)


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ([out - i for out, i in zip(OUT, INPUT, strict=True)], "a difference"),
        ([i >> 4 for i in INPUT], "a shifted address"),
        ([i << 8 for i in INPUT], "an address at another byte"),
        ([i & 0xFFFF for i in INPUT], "half an address"),
        ([i ^ out for out, i in zip(OUT, INPUT, strict=True)], "a hash"),
    ],
)
def test_what_is_made_from_addresses_is_refused(values: list[int], what: str) -> None:
    nodes = [launched(packed(0, 0, value % 2**64)) for value in values]
    with pytest.raises(Unrepeatable, match="parameter 2 of kernel k depends on the addresses"):
        relocate(seen(*nodes), BUFFERS, CUBIN, {})


def test_what_differs_with_equal_addresses_depends_on_earlier_calls() -> None:
    nodes = [launched(packed(0, 0, 1 + (i == 1))) for i in range(4)]
    with pytest.raises(Unrepeatable, match="parameter 2 of kernel k differs between two calls"):
        relocate(seen(*nodes), BUFFERS, CUBIN, {})
    grids = [launched(bytes(24), grid=(1 + (i == 1), 1, 1)) for i in range(4)]
    with pytest.raises(Unrepeatable, match="its grid differs between two calls"):
        relocate(seen(*grids), BUFFERS, CUBIN, {})


def test_a_grid_or_a_number_of_launches_from_an_address_is_refused() -> None:
    grids = [launched(bytes(24), grid=(1 + i // 2, 1, 1)) for i in range(4)]
    with pytest.raises(Unrepeatable, match="its grid depends on the addresses"):
        relocate(seen(*grids), BUFFERS, CUBIN, {})
    counts: list[list[report.AnyNode]] = [[launched(bytes(24))] * (1 + i // 2) for i in range(4)]
    with pytest.raises(Unrepeatable, match="the number of launches depends on the addresses"):
        relocate(seen(*counts), BUFFERS, CUBIN, {})


def test_memsets_go_to_arguments_and_variables_only() -> None:
    def fill(target: int) -> report.Memset:
        return report.Memset(
            kind="memset", target=target, value=1, width_bytes=8, height=1, pitch_bytes=0
        )

    (node,) = relocate(seen(*[fill(out + 8) for out in OUT]), BUFFERS, CUBIN, {})
    assert node == MemsetNode(target=ArgumentAddress(name="out", offset=8), value=1, width_bytes=8)
    for targets in ([4096] * 4, [out - 8 for out in OUT]):
        with pytest.raises(Unrepeatable, match="the target of a memset"):
            relocate(seen(*map(fill, targets)), BUFFERS, CUBIN, {})


def test_of_two_views_the_one_that_holds_the_address_counts() -> None:
    views = Buffers(
        buffers=(Buffer(64), Buffer(256)),
        arguments=(
            Argument("out", 16, 0),
            Argument("tail", 16, 0, offset=16),
            Argument("input", 8, 1),
        ),
    )
    recordings = seen(*[launched(packed(out + 16, out + 32, 0)) for out in OUT])
    for recording in recordings:
        recording.addresses.arguments["tail"] = recording.addresses.arguments["out"] + 16  # type: ignore[index]
    (node,) = relocate(recordings, views, CUBIN, {})
    assert isinstance(node, KernelNode)
    assert [r.to for r in node.relocations if isinstance(r, PointerRelocation)] == [
        ArgumentAddress(name="tail", offset=0),
        ArgumentAddress(name="tail", offset=16),
    ]


def test_the_rest_of_a_pointer_in_padding_is_none() -> None:
    """A byte that the kernel reads, and seven that it does not, left from an address."""
    held = [launched(packed(7, (out & ~0xFF) | 0x29, 0)) for out in OUT]
    (node,) = relocate(seen(*held), BUFFERS, CUBIN, {"k": ((9, 7),)})
    assert isinstance(node, KernelNode) and node.relocations == ()
    assert node.parameters == packed(7, 0x29, 0) and node.undefined == ((9, 7),)


def test_part_of_a_pointer_that_a_kernel_reads_is_one() -> None:
    """Bytes 1 and 2 of its eight, which differ between recordings."""
    held = [launched(packed(7, out, 0)) for out in OUT]
    (node,) = relocate(seen(*held), BUFFERS, CUBIN, {"k": ((8, 1), (11, 5))})
    assert isinstance(node, KernelNode)
    assert node.relocations == (PointerRelocation(at=8, to=ArgumentAddress(name="out", offset=0)),)
