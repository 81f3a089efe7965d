"""The recorder's report is hostile data."""

from __future__ import annotations

import json

import pytest

from astra_chat.tools.plan.report import ForgedReport, parse_report

CALL = {
    "kind": "call",
    "index": 0,
    "nodes": [],
    "status": 0,
    "left": 0,
    "strayed": 0,
    "refused": "",
    "error": "no error",
}
MEMSET = {
    "kind": "memset",
    "target": 4096,
    "value": 0,
    "width_bytes": 8,
    "height": 1,
    "pitch_bytes": 0,
}
KERNEL = {
    "kind": "kernel",
    "kernel": "k",
    "grid": [1, 1, 1],
    "block": [1, 1, 1],
    "maps": [],
    "dynamic_shared_bytes": 0,
    "shared_carveout": -1,
    "cluster_scheduling": 0,
    "programmatic": False,
    "cooperative": True,
    "parameters": "00ff",
}


def lines(*values: object) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def test_a_report_of_two_calls() -> None:
    report = parse_report(
        lines(
            {"kind": "ready"},
            {"kind": "start", "index": 0},
            {**CALL, "nodes": [MEMSET, KERNEL]},
            {"kind": "start", "index": 1},
            {**CALL, "index": 1, "status": 1},
            {"kind": "fact", "name": "cudaDevAttrMultiProcessorCount", "value": 132},
        ),
        [0, 1],
        whole=True,
    )
    assert report.ready and report.started == 1 and report.end is None
    memset, kernel = report.calls[0].nodes
    assert memset.kind == "memset" and kernel.kind == "kernel"
    assert kernel.parameters == b"\x00\xff" and kernel.cooperative and kernel.cluster is None
    assert report.calls[1].status == 1
    assert report.facts == {"cudaDevAttrMultiProcessorCount": 132}


def test_a_process_that_died_leaves_a_line_unfinished() -> None:
    content = lines({"kind": "start", "index": 4}) + b'{"kind":"call","index":4,"nodes":['
    end = lines({"kind": "touched", "name": "input", "offset": 12, "writes": False})
    report = parse_report(content + b"\n" + end, [4], whole=False)
    assert report.started == 4 and not report.calls
    assert report.end is not None and report.end.kind == "touched"


@pytest.mark.parametrize(
    "line",
    [
        b"[[[[",
        b"\xff\xfe",
        b"0" * 10_000,
        b"[" * 100_000,
        lines({**CALL, "surprise": 1}),
        lines({**CALL, "index": 1}),
        lines(CALL, CALL),
        lines({**CALL, "nodes": [MEMSET] * 300}),
        lines({**CALL, "nodes": [{**MEMSET, "target": 2**64}]}),
        lines({**CALL, "nodes": [{**MEMSET, "height": 0}]}),
        lines({**CALL, "nodes": [{**MEMSET, "width_bytes": 0}]}),
        lines({"kind": "fact", "name": "sms", "value": 2**64}),
        lines({**CALL, "nodes": [{**KERNEL, "grid": [1, 1]}]}),
        lines({**CALL, "nodes": [{**KERNEL, "block": [-1, 1, 1]}]}),
        lines({**CALL, "nodes": [{**KERNEL, "parameters": "0"}]}),
        lines({**CALL, "nodes": [{**KERNEL, "parameters": "00" * 40_000}]}),
        lines({**CALL, "nodes": [{**KERNEL, "kernel": "k" * 5_000}]}),
        lines({**CALL, "status": "0" * 10_000}),
        lines({"kind": "verdict", "accepted": True}),
    ],
)
def test_what_the_recorder_never_writes_is_forged(line: bytes) -> None:
    with pytest.raises(ForgedReport):
        parse_report(line, [0], whole=True)
