"""What a check does beyond the calls that the oracle judges: calls sought for kernels that none of
those launches, and far calls. Neither depends on what the calls leave behind, so where a machine
has cores for it both are begun beside them; what was assumed then is looked at again, and done
again where it was otherwise. So a verdict is the same on any machine, and comes in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from astra_chat.tools.check.kernels import CheckedKernels, Launching
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.system.cores import cores
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.types import Case, Wrong

LEAST_CORES = 4
"""On a machine of fewer these would take the cores of the calls, which find most faults."""
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
        self._pool: ThreadPoolExecutor | None = None
        self._kernels: Future[Kernels] | None = None
        self._fault: Future[tuple[list[Launching], FarFault]] | None = None

    def begin(self, cases: Callable[[], Sequence[Case]]) -> None:
        """Begin, where there are cores for it. `cases`: what will be executed and compared."""
        if cores() < LEAST_CORES:
            return
        self._pool = ThreadPoolExecutor(2, "astra-beyond")
        self._kernels = kernels = self._pool.submit(lambda: self._sought(cases()))
        self._fault = self._pool.submit(lambda: self._far_ahead(kernels.result()[1]))

    def kernels(self, cases: Sequence[Case]) -> CheckedKernels:
        """What is known once these were executed and compared. Raises Cancelled."""
        if self._kernels is not None:
            assumed, kernels = self._kernels.result()
            if assumed == tuple(cases):
                return kernels
        return self._sought(cases)[1]

    def far_fault(self, ran: Sequence[Launching]) -> FarFault:
        """What is wrong with far calls beside these. Raises Cancelled."""
        if self._fault is not None:
            assumed, fault = self._fault.result()
            if assumed == list(ran):
                return fault
        return self._far(self._stop, ran)

    def end(self) -> None:
        """Stop what nobody waits for any more."""
        self._stop.set()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _sought(self, cases: Sequence[Case]) -> Kernels:
        kernels = self._new(self._stop)
        kernels.seek(cases)
        return tuple(cases), kernels

    def _far_ahead(self, kernels: CheckedKernels) -> tuple[list[Launching], FarFault]:
        """Far calls beside those that will have run, where the sought ones can all be judged."""
        ran = kernels.would_have_run()
        return ran, self._far(self._stop, ran)
