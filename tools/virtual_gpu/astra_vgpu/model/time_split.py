"""What an estimated time is made of: parts that add up to it.

The model overlaps its terms by p-norms. Each term's part of a norm is its derivative times the term
(Euler's theorem on homogeneous functions), so the parts add up, and a term that hides behind others
has a small one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from astra_vgpu.model.constants import Constants

PARTS: dict[str, str] = {
    "fixed": "starting the launch and its first access to memory",
    "block_start": "starting blocks",
    "waits": "waiting for loads and atomics",
    "instructions": "executing instructions, results that wait for each other included",
    "bytes": "moving bytes through L1, L2 and DRAM",
}
"""Parts of an estimated time by name, with what each is."""


@dataclass(frozen=True, kw_only=True)
class Span:
    """A time of warps, in us."""

    waits: float
    """Time for which the warps wait for loads."""
    chain: float
    """Time of results that wait for each other, and of the block's start."""

    @property
    def us(self) -> float:
        return self.waits + self.chain


def parts_of_norm(power: float, terms: Mapping[str, float]) -> dict[str, float]:
    """Parts of the p-norm of these terms, by the same names; they add up to it."""
    largest = max(terms.values())
    if not largest:
        return dict.fromkeys(terms, 0.0)
    powers = {name: (term / largest) ** power for name, term in terms.items()}
    total = sum(powers.values())
    norm = float(largest * total ** (1 / power))
    return {name: norm * one / total for name, one in powers.items()}


def time_split(
    *,
    fixed_us: float,
    first: Span,
    warp: Span,
    start_share: float,
    units: Mapping[str, float],
    overlapping: Mapping[str, float],
    constants: Constants,
) -> dict[str, float]:
    """us by the names of PARTS.

    first: what nothing hides. warp: of the warps that follow each other on an SM, `start_share` of
    its chain being the block's start. units: us of the SM's shared units. overlapping: us of "sm",
    "dram", "l2", "atomics" and "dispatch".
    """
    overlapped = parts_of_norm(constants.overlap, overlapping)
    unit = max(units, key=lambda name: units[name])
    on_sm = parts_of_norm(constants.hiding, {"warp": warp.us, "unit": units[unit]})
    scale = overlapped["sm"] / (sum(on_sm.values()) or 1.0)
    of_warps, of_unit = scale * on_sm["warp"], scale * on_sm["unit"]
    waiting = warp.waits / (warp.us or 1.0)
    chain = first.chain + of_warps * (1 - waiting)
    moves = unit == "lsu"
    return {
        "fixed": fixed_us,
        "block_start": overlapped["dispatch"] + chain * start_share,
        "waits": first.waits + of_warps * waiting + overlapped["atomics"],
        "instructions": chain * (1 - start_share) + (0.0 if moves else of_unit),
        "bytes": overlapped["dram"] + overlapped["l2"] + (of_unit if moves else 0.0),
    }
