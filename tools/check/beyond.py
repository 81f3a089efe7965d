"""What a check does beyond the calls that the oracle judges: calls sought for kernels that none of
those launches, and far calls. Neither depends on what the calls leave behind, so where a machine
has cores for it both are begun beside them; what was assumed then is looked at again, and done
again where it was otherwise. So a verdict is the same on any machine, and comes in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from astra_chat.tools.check.kernels import CheckedKernels, Launching
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.system.background import Ahead
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.types import Case, Wrong

FarFault = Wrong | Failure | None
Kernels = tuple[tuple[Case, ...], CheckedKernels]
"""Calls that are executed and compared, and what is known of their kernels, with calls sought for
the others."""


class BeyondOracle:
    """One check's, of one candidate."""

    def __init__(
        self,
        kernels: Callable[[Stop], CheckedKernels],
        far: Callable[[Stop, Sequence[Launching]], FarFault],
        stop: Stop,
    ) -> None:
        """`kernels` makes an empty record of the candidate's kernels; `far` makes far calls beside
        these ones. Both raise Cancelled once their stop, or this one, is set."""
        self._new, self._far, self._stop = kernels, far, Stop(beside=stop)
        self._kernels: Ahead[Kernels] | None = None
        self._fault: Ahead[tuple[list[Launching], FarFault]] | None = None

    def begin(self, cases: Callable[[], Sequence[Case]]) -> None:
        """Begin, where there are cores for it. `cases`: what will be executed and compared."""
        self._kernels = kernels = Ahead(lambda stop: self._sought(cases(), stop), self._stop)
        self._fault = Ahead(lambda stop: self._far_ahead(kernels, stop), self._stop)

    def kernels(self, cases: Sequence[Case]) -> CheckedKernels:
        """What is known once these were executed and compared. Raises Cancelled."""
        if self._kernels is not None and self._kernels.begun:
            assumed, kernels = self._kernels.result()
            if assumed == tuple(cases):
                return kernels
        return self._sought(cases, self._stop)[1]

    def far_fault(self, ran: Sequence[Launching]) -> FarFault:
        """What is wrong with far calls beside these. Raises Cancelled."""
        if self._fault is not None and self._fault.begun:
            assumed, fault = self._fault.result()
            if assumed == list(ran):
                return fault
        return self._far(self._stop, ran)

    def end(self) -> None:
        """Stop what nobody waits for any more."""
        self._stop.set()
        for ahead in (self._kernels, self._fault):
            if ahead is not None:
                ahead.end()

    def _sought(self, cases: Sequence[Case], stop: Stop) -> Kernels:
        kernels = self._new(stop)
        kernels.seek(cases)
        return tuple(cases), kernels

    def _far_ahead(self, kernels: Ahead[Kernels], stop: Stop) -> tuple[list[Launching], FarFault]:
        """Far calls beside those that will have run, where the sought ones can all be judged."""
        ran = kernels.result()[1].would_have_run()
        return ran, self._far(stop, ran)
