"""Results that a float32 kernel of a shipped task could leave, made without a device: each task's
formula in torch, before its last rounding, and ways to round it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from astra_chat.tools.check.error_norms import BaselineErrors, PrecisionSeen
from astra_chat.tools.evaluation import ErrorNorm
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.run.protocol import CaseReport
from astra_chat.tools.runners.answers import Tensors, read
from astra_chat.tools.runners.oracle import _write_case
from astra_chat.tools.runners.references import load_reference
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import Case, Wrong

Rounding = Callable[[torch.Tensor, torch.dtype], torch.Tensor]
"""float32 to a narrower dtype."""


def nearest(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return values.to(dtype)


def truncated(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Towards zero."""
    if dtype == torch.float8_e4m3fn:
        found = values.to(dtype)
        over = found.float().abs() > values.abs()
        return torch.where(over, found.view(torch.uint8) - 1, found.view(torch.uint8)).view(dtype)
    found = values.to(dtype)
    over = found.double().abs() > values.double().abs()
    return torch.where(over, found.view(torch.int16) - 1, found.view(torch.int16)).view(dtype)


def in_columns(every: int, other: Rounding) -> Rounding:
    """`other` in each column of that many, the nearest in the rest."""

    def mixed(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        chosen = torch.arange(values.shape[-1]) % every == every - 1
        left, right = other(values, dtype), nearest(values, dtype)
        words = torch.uint8 if dtype.itemsize == 1 else torch.int16
        return torch.where(chosen, left.view(words), right.view(words)).view(dtype)

    return mixed


class Kernel:
    """A task and the results of its kernels on one case, beside an honest baseline."""

    def __init__(self, folder: Path, name: str, case: Case) -> None:
        self.task, self.case, self.folder = find_task(name), case, folder
        reference = load_reference(self.task)
        _write_case(self.task, reference, case, folder, folder, given=False)
        self.oracle_case = OracleCase(case, folder, folder)
        self.errors, self.seen = BaselineErrors(self.task), PrecisionSeen()
        self.inputs: Tensors = {
            arg.name: read(folder / f"{arg.name}.in", arg, case)
            for arg in self.task.args
            if arg.read
        }

    def run(self, outputs: dict[str, torch.Tensor]) -> CaseRun:
        for arg in self.task.args:
            value = outputs.get(arg.name, self.inputs.get(arg.name))
            content = np.zeros(arg.bytes_of(self.case), np.uint8)
            if value is not None:
                content = value.contiguous().reshape(-1).view(torch.uint8).numpy()
            content.tofile(self.folder / f"{arg.name}.after")
        return CaseRun(self.oracle_case, self.folder, CaseReport(), pattern=0x7FA5)

    def learn(self, outputs: dict[str, torch.Tensor]) -> None:
        self.errors.learn(self.run(outputs))

    def judge(self, outputs: dict[str, torch.Tensor]) -> ErrorNorm | Wrong | None:
        """Judges by place and as a whole, then by columns."""
        verdict = self.errors.judge(
            self.run(outputs), lambda piece: self.seen.add(self.task, piece)
        )
        if isinstance(verdict, Wrong):
            return verdict
        return self.seen.leans(self.errors.bias) or verdict


def input_of(kernel: Kernel, name: str = "input") -> torch.Tensor:
    value = kernel.inputs[name]
    assert value is not None
    return value


def activated(kernel: Kernel, *, exact: bool = False) -> torch.Tensor:
    """silu(gate) * up, float32; by a division or by a reciprocal and an exponential of base 2."""
    gate, up = input_of(kernel).float().chunk(2, dim=-1)
    if exact:
        return gate / (1 + torch.exp(-gate)) * up
    return up * (gate * torch.reciprocal(1 + torch.exp2(gate * -1.44269504)))


def summed(kernel: Kernel, order: str = "first") -> torch.Tensor:
    """moe_sum_reduce's sum in float32, in one order or another, scaled."""
    rows = input_of(kernel).float()
    total = torch.zeros_like(rows[:, 0])
    experts = range(rows.shape[1])
    for expert in experts if order == "first" else reversed(experts):
        total = total + rows[:, expert]
    return total * torch.tensor(kernel.case.scalars.get("scale", 2.5), dtype=torch.float32)


def normed(kernel: Kernel, *, serial: bool = False) -> torch.Tensor:
    """rmsnorm before its rounding; serial: squares are added one by one."""
    values, weight = input_of(kernel).float(), input_of(kernel, "weight").float()
    squares = values.square()
    total = squares.sum(dim=-1, keepdim=True)
    if serial:
        total = torch.from_numpy(np.cumsum(squares.numpy(), axis=1, dtype=np.float32)[:, -1:])
    scale = torch.rsqrt(total / values.shape[-1] + torch.tensor(1e-6))
    return values * scale * weight if serial else values * (scale * weight)


def coded(
    values: torch.Tensor, group: int, rounding: Rounding = nearest, *, divide: bool = False
) -> dict[str, torch.Tensor]:
    """Codes and scales of groups of so many columns; by the scale or its reciprocal."""
    groups = values.reshape(len(values), -1, group)
    scales = groups.abs().amax(dim=-1, keepdim=True).clamp(min=1e-10) / 448
    codes = groups / scales if divide else groups * (1 / scales)
    codes = codes.clamp(-448, 448).reshape(values.shape)
    return {"output_q": rounding(codes, torch.float8_e4m3fn), "output_s": scales[..., 0]}
