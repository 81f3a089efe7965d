"""From the settings to a recorder at work in this process."""

from __future__ import annotations

import atexit
import functools
import json
import os
import platform
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from astra_recorder.journal import Journal
from astra_recorder.wrapping import ImportHook, wrap_function, wrap_graphs, wrap_torch_ops

if TYPE_CHECKING:
    from astra_recorder.recording import CallRecorder


def start(settings: str) -> None:
    """Record the operators that the settings name, in this process and in those that it forks."""
    Process(json.loads(Path(settings).read_text())).begin()


class Process:
    """One process of a captured program. torch is loaded when the program does so."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._folder = Path(settings["journal"])
        self._contents = Path(settings["contents"]) if settings["contents"] else None
        self._functions: list[str] = settings["functions"]
        self._torch_ops: list[str] = settings["torch_ops"]
        self._journal: Journal
        self._recorder: CallRecorder | None = None
        self._replays = 0
        self._numbers: dict[str, int] = {}

    def begin(self) -> None:
        """Wrap what is named, at once or when it is imported."""
        self._open()
        os.register_at_fork(after_in_child=self._forked)
        weakref.finalize(self, int)  # it registers its own end, which ours is to come before:
        atexit.register(self._end)  # torch.library takes operators away there
        hook = ImportHook()
        sys.meta_path.insert(0, hook)
        for name in self._functions:
            module, _, path = name.partition(":")
            hook.when_imported(module, functools.partial(self._wrap, name, path))
        hook.when_imported("multiprocessing.util", self._end_with_worker)
        if self._torch_ops:
            hook.when_imported(
                "torch._ops", functools.partial(wrap_torch_ops, called=self._torch_op)
            )
        hook.when_imported(
            "torch.cuda.graphs", functools.partial(wrap_graphs, replayed=self._replayed)
        )

    def _open(self) -> None:
        self._journal = Journal(self._folder)
        self._journal.line("start", python=platform.python_version(), argv=sys.orig_argv)

    def _end_with_worker(self, module: ModuleType) -> None:
        """A worker of multiprocessing that was forked ends without atexit."""

        def finalized(process: Process) -> None:
            module.Finalize(process, process._end, exitpriority=0)

        module.register_after_fork(self, finalized)

    def _forked(self) -> None:
        """A forked process begins with nothing: what it copied is the other's."""
        self._open()
        if self._recorder is not None:
            self._recorder.begin_again(self._journal)

    def _recording(self) -> CallRecorder:
        if self._recorder is None:
            from astra_recorder.recording import CallRecorder

            self._recorder = CallRecorder(self._journal, self._contents)
        return self._recorder

    def _wrap(self, name: str, path: str, module: ModuleType) -> None:
        try:
            wrap_function(module, path, functools.partial(self._wrapped, name))
        except AttributeError:
            why = f"{module.__name__} does not define {path}, or defines it only after the import"
            self._journal.line("missing", name=name, why=why)
        except TypeError as error:
            self._journal.line("missing", name=name, why=str(error))

    def _wrapped(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, recorded. torch.compile sees the function alone, and says that it came."""
        import torch
        from astra_recorder.recording import positional_names

        recorder = self._recording()
        names, declared = positional_names(function)
        operator = recorder.operator(name, declared, names)
        number, traced = operator.number, recorder.traced

        def came(number: int) -> None:
            traced(number)

        came._dynamo_marked_constant = True  # type: ignore[attr-defined] # run while it traces

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():
                came(number)
                return function(*args, **kwargs)
            return recorder.call(operator, function, args, kwargs)

        return call

    def _torch_op(self, op: Any) -> Callable[..., Any] | None:
        """How calls of an operator of torch.ops are recorded; None where they are not."""
        name = getattr(op, "_qualified_op_name", None) or op._schema.name
        full = name if hasattr(op, "_qualified_op_name") else op.name()
        wanted = next((one for one in self._torch_ops if one in (name, full)), None)
        if wanted is None:
            return None
        overload = getattr(op, op.overloads()[0]) if hasattr(op, "overloads") else op
        schema = overload._schema
        names = [argument.name for argument in schema.arguments if not argument.kwarg_only]
        recorder = self._recording()
        operator = recorder.operator(wanted, str(schema), names)
        return functools.partial(recorder.call, operator)

    def _replayed(self) -> None:
        self._replays += 1

    def _end(self) -> None:
        if "torch" in sys.modules:
            self._note_unregistered()
            version = getattr(sys.modules["torch"], "__version__", "")
            self._journal.line("torch", version=version, replays=self._replays)
        if self._recorder is not None:
            self._recorder.end()
        else:
            self._journal.line("end")

    def _note_unregistered(self) -> None:
        """Operators of torch.ops that are not there at the end."""
        torch_ops = sys.modules["torch"].ops
        for name in self._torch_ops:
            space, _, rest = name.partition("::")
            if not hasattr(getattr(torch_ops, space), rest.partition(".")[0]):
                self._journal.line("missing", name=name, why="no such operator is registered")
