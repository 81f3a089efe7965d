"""Ranges of a tensor's values, and whether a call changed it."""

from __future__ import annotations

from typing import Any

import torch

MOST_BYTES = 2**28
"""Larger tensors are neither looked at nor copied."""


def values_of(tensor: torch.Tensor) -> dict[str, Any] | None:
    """Least and greatest value; of integers their order, of floats what is not finite. None where
    there is nothing to look at, or too much."""
    size = tensor.numel() * tensor.element_size()
    if not size or size > MOST_BYTES or tensor.is_complex() or tensor.dtype.itemsize > 8:
        return None
    tensor = tensor.detach()
    return _reals(tensor) if tensor.is_floating_point() else _integers(tensor)


def _integers(tensor: torch.Tensor) -> dict[str, Any]:
    wide = tensor.long()
    rows = wide.reshape(-1, wide.shape[-1]) if wide.dim() else wide.reshape(1, 1)
    entries = rows[rows >= 0].sort().values
    ordered = rows.sort(dim=-1).values
    counted = ordered[:, :1] + torch.arange(rows.shape[1], device=rows.device)
    return {
        "least": int(wide.min()),
        "greatest": int(wide.max()),
        "sorted": torch.equal(rows, ordered),
        "unique": not bool((entries[1:] == entries[:-1]).any()),
        "permutation": torch.equal(ordered, counted) and bool((ordered == ordered[:1]).all()),
        "negative_share": float((rows < 0).double().mean()),
    }


def _reals(tensor: torch.Tensor) -> dict[str, Any]:
    wide = tensor.float() if tensor.element_size() == 1 else tensor
    least, greatest = torch.aminmax(wide)
    finite = wide
    if not (least.isfinite() and greatest.isfinite()):  # else no copy is made
        finite = wide[wide.isfinite()]
    return {
        "least": float(finite.min()) if finite.numel() else None,
        "greatest": float(finite.max()) if finite.numel() else None,
        "nan": bool(least.isnan()),
        "infinity": finite is not wide and bool((wide == float("inf")).any()),
        "minus_infinity": finite is not wide and bool((wide == float("-inf")).any()),
    }


EITHER = ("nan", "infinity", "minus_infinity")


def merged(old: dict[str, Any] | None, new: dict[str, Any] | None) -> dict[str, Any] | None:
    """What holds of the values of both calls."""
    if old is None or new is None:
        return old or new
    both: dict[str, Any] = {}
    for name, one in new.items():
        pair = [value for value in (old[name], one) if value is not None]
        if name == "least":
            both[name] = min(pair, default=None)
        elif name in ("greatest", "negative_share"):
            both[name] = max(pair, default=None)
        else:
            both[name] = any(pair) if name in EITHER else all(pair)
    return both


def version_of(tensor: torch.Tensor) -> int | None:
    """How many writes torch knows of; an inference tensor does not count them."""
    return None if tensor.is_inference() else tensor._version


def copy_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """A copy to compare with; None of what is too large."""
    size = tensor.numel() * tensor.element_size()
    return tensor.detach().clone() if size <= MOST_BYTES else None


def changed(tensor: torch.Tensor, version: int | None, before: torch.Tensor | None) -> bool | None:
    """Whether the call wrote to it: torch counted it, or bits differ. None: nobody knows."""
    if version is not None and tensor._version != version:
        return True
    if before is None:
        return None
    same = torch.equal(_bits(tensor.detach().contiguous()), _bits(before.contiguous()))
    return not same


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1).view(torch.uint8)
