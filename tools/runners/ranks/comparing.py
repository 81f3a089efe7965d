"""One rank's results of one call compared with float64, by the judge's rules for each kind."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from astra_chat.tools.run.rank_messages import WrongCall
from astra_chat.tools.task.contract import Arg
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.precision import FLUSHED
from astra_chat.tools.types import Case

Tensors = dict[str, torch.Tensor]
NARROW = (torch.bfloat16, torch.float16)


class Compared(NamedTuple):
    """What was found of one call."""

    wrong: WrongCall | None
    worst: float
    """Largest error over what is allowed."""
    elements: int


class Comparing:
    """Compares the calls of one task."""

    def __init__(self, task: Task, reference: Any) -> None:
        self._task, self._reference = task, reference

    def compared(self, number: int, case: Case, inputs: Tensors, results: Tensors) -> Compared:
        """Compares a call's results.

        Args:
            number: Of the call.
            case: As this rank has it.
            inputs: Of all ranks, with scalars' names free.
            results: By argument, as the kernel left them.

        Returns:
            The first wrong element, if any, and the largest error.
        """
        given = {**inputs, **{s.name: s.value_in(case) for s in self._task.scalars}}
        expected, terms = self._reference.reference(given), self._reference.terms(given)
        worst, elements = 0.0, 0
        for arg in self._task.args:
            if not arg.written:
                continue
            got, want = results[arg.name], expected[arg.name]
            elements += got.numel()
            if arg.judged and arg.judged.by == "quantized":
                bad, share = _codes(arg, got, want * self._scale(arg, expected, results))
            else:
                bad, share = self._close(arg, case, got, want)
                worst = max(worst, share)
            reason = "value"
            if not bool(bad.any()) and got.dtype in NARROW:
                bad = self._imprecise(case, got, want, terms[arg.name])
                reason = "precision"
            if bool(bad.any()):
                note = f"{share:.2%} of the codes are one step off" if arg.judged else ""
                return Compared(_wrong(number, case, arg, reason, got, want, bad, note), worst, 0)
        return Compared(None, worst, elements)

    def _scale(self, arg: Arg, expected: Tensors, results: Tensors) -> torch.Tensor:
        """What exact units are multiplied by to be in those of the kernel's own scales."""
        assert arg.judged is not None and arg.judged.scale is not None
        exact, own = expected[arg.judged.scale], results[arg.judged.scale].double()
        return torch.where(own > 0, exact / own, torch.zeros_like(exact))

    def _close(
        self, arg: Arg, case: Case, got: torch.Tensor, want: torch.Tensor
    ) -> tuple[torch.Tensor, float]:
        allowed = self._task.tolerance_of(arg, case)
        share = (got.double() - want).abs() / (allowed.atol + allowed.rtol * want.abs() + 1e-300)
        bad = ~(share <= 1)
        return bad, float(share.max()) if not bool(bad.any()) else float("inf")

    def _imprecise(
        self, case: Case, got: torch.Tensor, want: torch.Tensor, terms: torch.Tensor
    ) -> torch.Tensor:
        """Where a result of 16 bits is not the nearest value, and none of two that are as near as
        float32 can tell ([precision])."""
        nearest = want.to(got.dtype)
        middle = (got.double() + nearest.double()) / 2
        band = self._task.band_factor(case) * terms + FLUSHED
        return (got != nearest) & ~((want - middle).abs() <= band)


def _codes(arg: Arg, got: torch.Tensor, want: torch.Tensor) -> tuple[torch.Tensor, float]:
    """Codes that are wrong, and the share that is a step off: none may be two, and few one."""
    assert arg.judged is not None
    most = torch.finfo(got.dtype).max
    nearest = want.clamp(-most, most).float().to(got.dtype)
    steps = (_place(got) - _place(nearest)).abs()
    share = float((steps == 1).double().mean())
    bad = steps > (1 if share <= arg.judged.off_by_one else 0)
    return bad | got.float().isnan(), share


def _place(codes: torch.Tensor) -> torch.Tensor:
    """Codes of 8 bits as numbers in the order of their values, one apart; both zeros are 0."""
    bits = codes.view(torch.uint8).int()
    return torch.where(bits >= 128, 128 - bits, bits)


def _wrong(
    number: int,
    case: Case,
    arg: Arg,
    reason: Any,
    got: torch.Tensor,
    want: torch.Tensor,
    bad: torch.Tensor,
    note: str,
) -> WrongCall:
    at = tuple(int(i) for i in bad.nonzero()[0])
    return WrongCall(
        call=number,
        case=case,
        argument=arg.name,
        reason=reason,
        index=at,
        expected=float(want[at]),
        got=float(got[at].float()),
        bad=int(bad.sum()),
        total=bad.numel(),
        note=note,
    )
