"""Programmatic launches of a plan, held against the kernels' PTX and machine code: every path to an
access of an argument's memory has to pass griddepcontrol.wait. It needs no GPU, and no case.

What happens thread by thread the virtual GPU sees while it runs a kernel.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from astra_chat.tools.build.disassembly import machine_code_of
from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.plan.model import (
    POINTER_BYTES,
    TENSOR_MAP_BYTES,
    ArgumentAddress,
    KernelNode,
    LaunchPlan,
    PointerRelocation,
    Relocation,
)
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.types import Unsafe, Unsupported
from astra_chat.tools.virtual_gpu.adapter import (
    ALLOWED,
    WAIT,
    WHEN,
    EarlyAccesses,
    LaunchParameters,
    early_accesses,
    early_loads,
)

INSTEAD = (
    "ptxas may do that with ld.global.nc, which says that nobody writes to the memory while the"
    " kernel runs: read it by a plain load, through a pointer that is not const __restrict__ and"
    " without __ldg, or by __ldcg"
)
"""Why the machine code loads before the wait, and what to write instead."""


@dataclass
class EarlyReads:
    """The kernels of one task's candidates that were looked at so far."""

    weights: Collection[str]
    """Arguments that hold the same in every call."""
    stop: Stop = field(default_factory=Stop)
    _kernels: dict[tuple[Path, str], EarlyAccesses | None] = field(default_factory=dict)
    _loads: dict[tuple[Path, str], tuple[int, ...] | None] = field(default_factory=dict)
    """PTX lines of what a kernel's machine code loads before its wait; None: it cannot be read."""

    def fault(self, build: Build, plan: LaunchPlan) -> Unsafe | Unsupported | None:
        """What a programmatic launch of the plan touches too early; None also for a kernel whose
        control flow is not known, which the virtual GPU refuses by name. Raises Cancelled, and
        MissingDependency without nvdisasm."""
        for node in plan.kernels:
            if not node.programmatic or (accesses := self._of(build.ptx, node.kernel)) is None:
                continue
            found = self._in_ptx(node, accesses) or self._in_machine_code(build, node, accesses)
            if isinstance(found, Unsupported):
                return found
            if found is not None:
                what, line = found
                where = f"kernel {node.kernel}" + (f", {line}" if line else "")
                return Unsafe(case=plan.case, what=what, where=where)
        return None

    def _in_ptx(self, node: KernelNode, accesses: EarlyAccesses) -> tuple[str, str] | None:
        """Returns what is wrong, and where in the kernel."""
        if not accesses.waits:
            what = (
                "launched with PDL, so it may start before the preceding work has ended, and it"
                f" never waits for that work ({WAIT})"
            )
            return what, ""
        allowed = self._allowed(node)
        if (early := accesses.first(allowed, _parameters(node))) is None:
            return None
        names = _names(node, set(accesses.arguments(early)) - allowed)
        what = f"race: some path skips {WAIT} and reaches {names}, {WHEN} ({ALLOWED})"
        return what, early.place

    def _in_machine_code(
        self, build: Build, node: KernelNode, accesses: EarlyAccesses
    ) -> tuple[str, str] | Unsupported | None:
        """Returns the same for what ptxas moved before the wait."""
        loads, allowed = self._loads_of(build, node.kernel), self._allowed(node)
        if loads is None:
            what = f"{WAIT} in a kernel whose machine code nvdisasm cannot read"
            return Unsupported(what=what, kernel=node.kernel, opcode=WAIT, line=0)
        if (moved := accesses.moved(loads, allowed, _parameters(node))) is None:
            return None
        names = _names(node, set(accesses.arguments(moved)) - allowed)
        what = f"race: the machine code loads {names} before {WAIT}, {WHEN} ({INSTEAD})"
        return what, moved.place

    def _of(self, ptx: Path, kernel: str) -> EarlyAccesses | None:
        if (ptx, kernel) not in self._kernels:
            # Nothing here built the kernels of a plan that was captured.
            known = early_accesses(ptx, kernel) if ptx.is_file() else None
            self._kernels[ptx, kernel] = known
        return self._kernels[ptx, kernel]

    def _loads_of(self, build: Build, kernel: str) -> tuple[int, ...] | None:
        if (build.ptx, kernel) not in self._loads:
            text = machine_code_of(build, self.stop)
            self._loads[build.ptx, kernel] = _early_loads(text, kernel) if text else None
        return self._loads[build.ptx, kernel]

    def _allowed(self, node: KernelNode) -> set[int]:
        """Offsets of the parameters through which a kernel may read before the wait: those that
        point to weights or variables of the file, and those that are no addresses at all, such as
        an extent by which a weight's place is computed, or that chooses between two weights."""
        places = [_place(r) for r in node.relocations if not _is_constant(r, self.weights)]
        forbidden = (range(at, at + size) for at, size in (*places, *node.undefined))
        return set(range(len(node.parameters))).difference(*forbidden)


def _early_loads(text: Path, kernel: str) -> tuple[int, ...] | None:
    try:
        return early_loads(text, kernel)
    except (OSError, ValueError, KeyError):
        return None


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
