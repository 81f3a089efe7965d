"""Programmatic launches of a plan, held against the kernels' PTX: every path to an access of an
argument's memory has to pass griddepcontrol.wait. It needs no GPU, and no case.

What happens thread by thread the virtual GPU sees while it runs a kernel.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from astra_chat.tools.plan.model import (
    POINTER_BYTES,
    TENSOR_MAP_BYTES,
    ArgumentAddress,
    KernelNode,
    LaunchPlan,
    PointerRelocation,
    Relocation,
)
from astra_chat.tools.types import Unsafe
from astra_chat.tools.virtual_gpu.adapter import (
    ALLOWED,
    WAIT,
    WHEN,
    EarlyAccesses,
    LaunchParameters,
    early_accesses,
)


@dataclass
class EarlyReads:
    """The kernels of one task's candidates that were looked at so far."""

    weights: Collection[str]
    """Arguments that hold the same in every call."""
    _kernels: dict[tuple[Path, str], EarlyAccesses | None] = field(default_factory=dict)

    def fault(self, ptx: Path, plan: LaunchPlan) -> Unsafe | None:
        """What a programmatic launch of the plan touches too early; None also for a kernel whose
        control flow is not known, which the virtual GPU refuses by name."""
        for node in plan.kernels:
            if not node.programmatic:
                continue
            accesses = self._of(ptx, node.kernel)
            if accesses is None:
                continue
            where = f"kernel {node.kernel}"
            if not accesses.waits:
                what = (
                    "launched with PDL, so it may start before the preceding work has ended, and it"
                    f" never waits for that ({WAIT})"
                )
                return Unsafe(case=plan.case, what=what, where=where)
            allowed = self._allowed(node)
            if (early := accesses.first(allowed, _parameters(node))) is not None:
                names = _names(node, set(accesses.arguments(early)) - allowed)
                what = f"race: some path skips {WAIT} and reaches {names}, {WHEN} ({ALLOWED})"
                line = f"{early.source}, " if early.source else ""
                where += f", {line}PTX line {early.line}: {early.text}"
                return Unsafe(case=plan.case, what=what, where=where)
        return None

    def _of(self, ptx: Path, kernel: str) -> EarlyAccesses | None:
        if (ptx, kernel) not in self._kernels:
            # Nothing here built the kernels of a plan that was captured.
            known = early_accesses(ptx, kernel) if ptx.is_file() else None
            self._kernels[ptx, kernel] = known
        return self._kernels[ptx, kernel]

    def _allowed(self, node: KernelNode) -> set[int]:
        """Offsets of the parameters through which a kernel may read before the wait: those that
        point to weights or variables of the file, and those that are no addresses at all, such as
        an extent by which a weight's place is computed, or that chooses between two weights."""
        places = [_place(r) for r in node.relocations if not _is_constant(r, self.weights)]
        forbidden = (range(at, at + size) for at, size in (*places, *node.undefined))
        return set(range(len(node.parameters))).difference(*forbidden)


def _is_constant(relocation: Relocation, weights: Collection[str]) -> bool:
    """Whether it points to what is the same in every call."""
    if not isinstance(relocation, PointerRelocation):
        return False
    to = relocation.to
    return not isinstance(to, ArgumentAddress) or to.name in weights


def _names(node: KernelNode, offsets: Collection[int]) -> str:
    """The arguments that these parameters point to."""
    names = [
        relocation.to.name
        for relocation in node.relocations
        if isinstance(relocation, PointerRelocation) and relocation.at in offsets
    ]
    return " or ".join(dict.fromkeys(names)) or "an argument's memory"


def _parameters(node: KernelNode) -> LaunchParameters:
    """What is known of a launch's parameters: not the addresses, nor what was left undefined."""
    addresses = map(_place, node.relocations)
    return LaunchParameters(node.parameters, (*addresses, *node.undefined))


def _place(relocation: Relocation) -> tuple[int, int]:
    """Where an address lies among the parameters, and its bytes there."""
    is_pointer = isinstance(relocation, PointerRelocation)
    return relocation.at, POINTER_BYTES if is_pointer else TENSOR_MAP_BYTES
