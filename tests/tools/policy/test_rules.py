"""The table of names: every rule has a reason, and none refuses what launchers need."""

from __future__ import annotations

import re

import pytest

from astra_chat.tools.policy import rules


def test_every_rule_says_why_in_one_clause() -> None:
    for rule in rules.RULES:
        assert rule.names.split()
        assert 10 < len(rule.reason) < 90
        assert not rule.reason.endswith(".")


def test_no_name_stands_twice() -> None:
    names = [name for rule in rules.RULES for name in rule.names.split()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    "name",
    [
        "cudaError_t",
        "cudaSuccess",
        "cudaErrorInvalidValue",
        "cudaStream_t",
        "cudaGetLastError",
        "cudaLaunchKernelEx",
        "cudaLaunchConfig_t",
        "cudaLaunchAttribute",
        "cudaFuncSetAttribute",
        "cudaLaunchAttributeProgrammaticStreamSerialization",
        "cudaDeviceGetAttribute",
        "cudaDevAttrMultiProcessorCount",
        "cudaFuncAttributeMaxDynamicSharedMemorySize",
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor",
        "cudaMemsetAsync",
        "cudaGetDevice",
        "cudaLaunchAttributeClusterDimension",
        "cudaLaunchCooperativeKernel",
        "cuda",
        "cub",
        "cudart",
        "customer",
        "systematic",
        "executor",
        "forklift",
        "socket_id",
    ],
)
def test_launchers_may_name(name: str) -> None:
    assert rules.refusal(name, called=True) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("cudaMallocManaged", "must not allocate memory"),
        ("cudaEventRecord", "the judge"),
        ("cudaStreamBeginCapture", "launch its work again"),
        ("cudaLaunchAttributeAccessPolicyWindow", "changes the state of the device"),
        ("cuModuleLoad", "driver API"),
        ("cudaMemcpy", "does not need this name"),
        ("cudaMemcpyToSymbol", "does not need this name"),
        ("__cudaPushCallConfiguration", "compiler's own"),
        ("vfork", "another program"),
        ("clock64", "being judged"),
        ("__globaltimer", "being judged"),
        ("__builtin_return_address", "must not depend on its caller"),
    ],
)
def test_refusals_give_the_better_reason(name: str, reason: str) -> None:
    assert reason in (rules.refusal(name, called=False) or "")


def test_ordinary_words_are_refused_as_calls_only() -> None:
    assert rules.refusal("time", called=False) is None
    assert rules.refusal("time", called=True)


@pytest.mark.parametrize(
    ("fragments", "name"),
    [
        ({"sys", "tem"}, "system"),
        ({"cudaG", "raphLaunch"}, "cudaGraph*"),
        ({"dl", "op", "en"}, "dlopen"),
        ({"m", "a", "p", "f", "o", "r", "k", "stream"}, None),
        ({"kernel_", "half", "x"}, None),
    ],
)
def test_pasting_is_seen_through(fragments: set[str], name: str | None) -> None:
    assert rules.pasted(frozenset(fragments)) == name


@pytest.mark.parametrize(
    ("header", "allowed"),
    [
        ("<cuda_fp16.h>", True),
        ("<cstdint>", True),
        ("<stdint.h>", True),
        ("<cuda/std/array>", True),
        ("<cub/warp/warp_reduce.cuh>", True),
        ("<cooperative_groups/memcpy_async.h>", True),
        ("<iostream>", False),
        ("<fstream>", False),
        ("<unistd.h>", False),
        ("<sys/mman.h>", False),
        ("<torch/extension.h>", False),
        ("<cub/../../x.h>", False),
        ("</etc/hosts>", False),
    ],
)
def test_headers(header: str, allowed: bool) -> None:
    assert bool(rules.HEADERS.fullmatch(header)) == allowed


def test_the_list_of_headers_in_words_names_allowed_ones_and_all_of_c_plus_plus() -> None:
    named = set(re.findall(r"<([a-z_]+)>", rules.HEADERS_TEXT))
    assert all(rules.HEADERS.fullmatch(f"<{name}>") for name in named)
    words = set(re.findall(r"[a-z_]+", rules.HEADERS.pattern.rsplit("| c?(", 1)[1]))
    assert words - {"h"} <= named | {name.removeprefix("c") for name in named}
