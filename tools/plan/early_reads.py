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
            if (early := accesses.first(self._weights(node), _parameters(node))) is not None:
                names = _names(node, accesses.arguments(early))
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

    def _weights(self, node: KernelNode) -> set[int]:
        """Offsets of the parameters that point to weights, or to variables of the file."""
        return {
            relocation.at
            for relocation in node.relocations
            if isinstance(relocation, PointerRelocation)
            and (not isinstance(to := relocation.to, ArgumentAddress) or to.name in self.weights)
        }


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
    addresses = [
        (r.at, POINTER_BYTES if isinstance(r, PointerRelocation) else TENSOR_MAP_BYTES)
        for r in node.relocations
    ]
    return LaunchParameters(node.parameters, (*addresses, *node.undefined))
