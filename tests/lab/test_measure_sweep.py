"""Seconds of a sweep: on a GPU, and refused elsewhere."""

from __future__ import annotations

import re

import pytest

from lab import measure_sweep


def test_a_virtual_gpu_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        measure_sweep.main(["silu_and_mul", "--device", "virtual"])
    assert end.value.code == 2
    assert capsys.readouterr().err == "astra-chat: a sweep needs a GPU: --device cuda\n"


@pytest.mark.gpu
def test_a_right_kernel_is_swept(capsys: pytest.CaptureFixture[str]) -> None:
    measure_sweep.main(["rmsnorm", "--repeats", "1"])
    line = capsys.readouterr().out
    found = re.match(r"rmsnorm: (\d+) cases, (\d+) for the oracle; [0-9.]+ s each", line)
    assert found is not None, line
    assert int(found[1]) > 900 and int(found[2]) < int(found[1]) // 4
