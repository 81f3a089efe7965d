"""SGLang's trace of fused operators, in the form of its records."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from astra_chat.tools.capture.fused_op_trace import read_any
from astra_chat.tools.capture.refresh import refresh
from astra_chat.tools.task.folder import BUILTIN, load_task
from astra_vgpu.ground.errors import BadInput

RECORD = {
    "op": "activation.silu_and_mul",
    "backend": "jit",
    "tensor_args": ["torch.bfloat16[16, 8192]", "torch.bfloat16[16, 4096]"],
}
OTHER = {"op": "layernorm.rmsnorm", "backend": "aot", "tensor_args": ["torch.float16[3]"]}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([RECORD, OTHER, RECORD]),
        "\n".join(map(json.dumps, (RECORD, OTHER, RECORD))) + "\n",
    ],
)
def test_equal_records_are_one_call(tmp_path: Path, text: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text)
    calls = read_any(path)
    assert [one.name for one in calls.operators] == [RECORD["op"], OTHER["op"]]
    (call,) = calls.operators[0].calls
    assert call.count == 2
    assert call.tensors["arg1"].shape == (16, 4096) and call.tensors["arg1"].strides == (4096, 1)
    assert call.tensors["arg0"].dtype == "bfloat16"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "has no records"),
        (json.dumps([{**OTHER, "tensor_args": ["half[3]"]}]), "'half[3]' is not a tensor"),
        ('{"schema": "astra-chat/calls/2"}', "schema: it must be astra-chat/calls/1"),
        ("what", "is not a capture file"),
    ],
)
def test_another_file_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text)
    with pytest.raises(BadInput) as error:
        read_any(path)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_a_trace_gives_a_bench_list(tmp_path: Path) -> None:
    path, folder = tmp_path / "trace.json", tmp_path / "silu"
    record = {**RECORD, "tensor_args": RECORD["tensor_args"][:1]}
    path.write_text(json.dumps([record, record]))
    shutil.copytree(BUILTIN / "silu_and_mul", folder, ignore=shutil.ignore_patterns("*.xz"))
    refresh(folder, read_any(path))
    ((case, weight),) = load_task(folder).bench
    assert (case.dims, weight) == ({"tokens": 16, "d": 4096}, 2)
