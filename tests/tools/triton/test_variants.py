"""What is compiled of a launch: the values that its constants have over the contract's domain."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from astra_chat.tools.task.folder import load_task
from astra_chat.tools.task.shipped import task_folder
from astra_chat.tools.triton.candidate import TritonSource, read_source
from astra_chat.tools.triton.expressions import NotAllowed
from astra_chat.tools.triton.variants import Compiling, compilations
from tests.tools.triton.samples import edited

WHOLE = "    BLOCK = max(triton.next_power_of_2(h), 64)\n"
WARPS = "num_warps=4 if BLOCK <= 4096 else 16"


def asked(task: str, *edits: tuple[str, str]) -> Sequence[Compiling]:
    """The compilations of the only launch that can be reached of an edited candidate."""
    contract = load_task(task_folder(task))
    read = read_source(edited(task, edits), contract)
    assert isinstance(read, TritonSource), read
    (found,) = compilations(read.launcher, contract).values()
    return found


def chosen(found: Sequence[Compiling]) -> set[tuple[object, ...]]:
    return {(*one.constants.values(), one.variant.warps) for one in found}


def test_powers_of_two_over_the_domain_for_every_dtype() -> None:
    found = asked("rmsnorm")
    powers = [2**n for n in range(6, 16)]
    assert chosen(found) == {(n, 4 if n <= 4096 else 16) for n in powers}
    assert len(found) == 3 * len(powers)
    assert {one.variant.signature["out_ptr"] for one in found} == {"*fp16", "*bf16", "*fp32"}


def test_integers_are_as_wide_as_the_contract_s_domain() -> None:
    signature = asked("rmsnorm")[0].variant.signature
    assert (signature["h"], signature["out_stride"], signature["eps"]) == ("i32", "i64", "fp32")
    wide = asked("rmsnorm", ("  h,\n        out", "  h * tokens,\n        out"))[
        0
    ].variant.signature
    assert wide["h"] == "i64"


def test_a_condition_on_a_dim_narrows_the_powers_below_it() -> None:
    found = asked(
        "rmsnorm",
        (WHOLE, f"    if h > 256:\n        return\n{WHOLE}"),
    )
    assert {one.constants["BLOCK"] for one in found} == {64, 128, 256}


def test_assignments_on_several_ways_are_followed() -> None:
    steps = "    BLOCK = 1024\n    if h > 1024:\n        BLOCK = 4 * BLOCK\n"
    steps += "        if input.dtype == tl.float32:\n            BLOCK = 512\n"
    found = asked("rmsnorm", (WHOLE, steps), (WARPS, "num_warps=2"))
    by_dtype = {(one.types["T"], one.constants["BLOCK"]) for one in found}
    assert by_dtype == {
        *((dtype, 1024) for dtype in ("float16", "bfloat16", "float32")),
        ("float16", 4096),
        ("bfloat16", 4096),
        ("float32", 512),
    }


def test_a_dim_of_few_values_may_be_a_constant() -> None:
    loop = ("experts, hidden, scale, BLOCK: tl.constexpr", "hidden, scale, experts: tl.constexpr")
    body = ("BLOCK=BLOCK, num_warps=4", "experts=experts, num_warps=4")
    edits = (("BLOCK + tl.arange(0, BLOCK)", "64 + tl.arange(0, 64)"), ("[BLOCK]", "[64]"))
    call = ("input, output, experts, hidden", "input, output, hidden")
    with pytest.raises(NotAllowed, match="more than 128 kernels"):
        asked("moe_sum_reduce", loop, body, call, *edits)
    few = ("    BLOCK =", "    if experts > 9:\n        return\n    BLOCK =")
    found = asked("moe_sum_reduce", loop, body, call, few, *edits)
    assert {one.constants["experts"] for one in found} == set(range(1, 10))


def test_a_literal_one_and_none_are_constants_of_the_compilation() -> None:
    variant = asked("rmsnorm", ("  out_stride,\n        in", "  1,\n        in"))[0].variant
    assert variant.signature["out_stride"] == "constexpr" and variant.constants["out_stride"] == 1
    variant = asked("rmsnorm", ("  weight,\n        h", "  None,\n        h"))[0].variant
    assert variant.signature["weight_ptr"] == "constexpr"
    assert variant.constants["weight_ptr"] is None


def test_code_that_no_call_can_take_is_not_wanted() -> None:
    """Multiples of 16 where the contract has no others, and others where it has no multiples."""
    whole = "    BLOCK = triton.next_power_of_2(h)\n"
    seen = {one.constants["BLOCK"]: one.multiples["h"] for one in asked("rmsnorm", (WHOLE, whole))}
    assert (seen[8], seen[16]) == ({False}, {True, False})
    found = asked("moe_sum_reduce")[0]
    assert found.multiples["hidden"] == {True, False} and found.multiples["input_ptr"] == {True}
    strided = asked("rmsnorm")[0].multiples
    assert strided["out_stride"] == {True, False}
