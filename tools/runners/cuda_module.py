"""Times a PyTorch module beside a candidate on a GPU: eager, and from several compilations.

Each way of the module (module_calls.py) takes the baseline's place in the timing loop
(cuda_timing.py): the same buffers, blocks by turns, cold and warm replays of CUDA graphs, single
launches between events. What the candidate wrote in timed launches is compared with eager's
results, and what differs goes to the oracle. The module's own results are in memory that PyTorch
allocates, as a program's are; each set's stays there while others are computed, so that the cost
of writing them does not depend on the L2.

All compilation is done before the candidate's code is loaded: no program is started after that.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence

import torch

from astra_chat.tools.run.protocol import CallRequest, CaseReport, ModuleReport, ModuleRequest
from astra_chat.tools.runners.arguments import limit_files_and_cores
from astra_chat.tools.runners.cuda import opened
from astra_chat.tools.runners.cuda_plans import Enqueue, Kernels
from astra_chat.tools.runners.cuda_poison import Poison
from astra_chat.tools.runners.cuda_state import ModuleVariables
from astra_chat.tools.runners.cuda_timing import Replay, Side, TimedCall
from astra_chat.tools.runners.module_calls import (
    EAGER,
    BoundModule,
    NotRun,
    Way,
    allow_tf32,
    bound,
    compiled,
    drawn,
    eager,
    in_memory,
    module_of,
    strict,
)
from astra_chat.tools.runners.modules import ModuleFunction, why
from astra_chat.tools.sandbox.seccomp import lock
from astra_chat.tools.system.reporter import Reporter
from astra_chat.tools.task.folder import Arg, Task, load_task

DEVICE = "cuda"
Ways = list[tuple[str, Way | NotRun]]
"""Ways by name; why one cannot be taken."""


def main() -> None:
    reporter = Reporter(opened)
    limit_files_and_cores()
    request = ModuleRequest.model_validate(reporter.request)
    task = load_task(request.task)
    dirt = opened(request.index)
    # Compilers ask for it; the user's own is out of reach.
    os.environ["HOME"] = tempfile.gettempdir()
    torch.set_grad_enabled(False)
    try:
        function = module_of(task)
        allow_tf32(task.tensor_float32)  # after the file, which may have said otherwise
        ways = [_ways(task, function, call, request) for call in request.calls]
    except Exception as error:  # the task's own file
        failed = ModuleReport(way="", not_run=why(error))
        reporter.send("ways", **failed.model_dump(mode="json"))
        return
    strict()
    lock(reporter.pipe)
    kernels = Kernels(request.cubin)
    side = Side(kernels, ModuleVariables(kernels.variables))
    for index, call in enumerate(request.calls):
        for name, way in ways[index]:
            try:
                found = _timed(task, function, call, side, request, dirt, name, way)
            except RuntimeError as error:  # a CUDA error may stay: then it is each later way's
                found = ModuleReport(way=name, not_run=why(error))
            found = found.model_copy(update={"index": index})
            reporter.send("way", **found.model_dump(mode="json"))
            if found.report and (found.report.status or found.report.changed):
                return


def _ways(task: Task, function: ModuleFunction, call: CallRequest, request: ModuleRequest) -> Ways:
    """Each way after its first call on this case."""
    first = bound(function, drawn(task, call.case, DEVICE), DEVICE)
    return list(_warmed_up(first, call, request))


def _warmed_up(
    first: BoundModule, call: CallRequest, request: ModuleRequest
) -> Iterator[tuple[str, Way | NotRun]]:
    try:
        first.call(eager)
        yield EAGER, eager
    except Exception as error:  # what the module raises is why there is no time
        yield EAGER, NotRun(why(error))
    for number in range(request.caches):
        try:
            way: Way | NotRun = compiled(call.turn * request.caches + number, request.how, first)
        except NotRun as error:
            way = error
        yield f"compile {number + 1}", way
    torch.cuda.synchronize()


def _timed(
    task: Task,
    function: ModuleFunction,
    call: CallRequest,
    side: Side,
    request: ModuleRequest,
    dirt: Poison,
    name: str,
    way: Way | NotRun,
) -> ModuleReport:
    if isinstance(way, NotRun):
        return ModuleReport(way=name, not_run=str(way))
    after = ModuleReport(way=name).beside(call.after)
    own = call.model_copy(update={"after": after, "baseline_plan": call.plan})
    torch.cuda.empty_cache()
    report = _BesideModule(task, function, way, own, side, request, dirt).run()
    if changed := side.state.changed():
        report = CaseReport(changed=changed[0])
    return ModuleReport(way=name, report=report)


class _BesideModule(TimedCall):
    """A way of a module as the baseline of a candidate."""

    def __init__(
        self,
        task: Task,
        function: ModuleFunction,
        way: Way,
        call: CallRequest,
        side: Side,
        request: ModuleRequest,
        dirt: Poison,
    ) -> None:
        super().__init__(task, call, (side, side), request, dirt)
        self._way = way
        args = [arg for arg in task.args if arg.read]
        self._modules = [
            bound(function, self._tensors(which, args), DEVICE) for which in range(self._sets.count)
        ]
        self._results: dict[int, list[torch.Tensor]] = {}
        """What the module last made of each set."""

    def _launch(self, side: int, which: int) -> Enqueue:
        if side == 1:
            return super()._launch(side, which)
        module = self._modules[which]

        def enqueue(_: int) -> None:
            self._results[which] = module.call(self._way)

        return enqueue

    def _tensors(self, which: int, args: Sequence[Arg]) -> dict[str, torch.Tensor]:
        """Arguments of a set of buffers, by name."""
        case = self._call.case
        return {
            arg.name: in_memory(
                self._sets.memory(which, self._task.args.index(arg)),
                getattr(torch, arg.dtype_of(case)),
                arg.shape_of(case),
            )
            for arg in args
        }

    def _expect(self, baseline: Replay) -> None:
        """Eager's results in the place of the candidate's."""
        self._results.clear()
        self._sets.refill()
        for which in self._sets.order:
            written = self._tensors(which, [arg for arg in self._task.args if arg.written])
            found = self._modules[which].call(eager)
            for into, one in zip(written.values(), found, strict=True):
                into.copy_(one.reshape(into.shape))
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
