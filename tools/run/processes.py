"""Runner processes: started before they are needed where that takes long, and ended with their
folders."""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from astra_chat.tools.run.protocol import Mode
from astra_chat.tools.sandbox.policy import SandboxPolicy
from astra_chat.tools.system.subprocesses import Worker


@dataclass(frozen=True)
class RunnerProcess:
    """A runner process that waits for its request, and the folder that it may write to."""

    worker: Worker
    scratch: Path
    builds: Path | None = None
    """Where it finds what it is to load, if it started before that was built."""

    def put(self, library: Path) -> Path:
        """Where it finds this library."""
        if self.builds is None:
            return library
        return Path(shutil.copy(library, tempfile.mkdtemp(dir=self.builds)))

    def close(self) -> None:
        self.worker.__exit__()
        for folder in filter(None, (self.scratch, self.builds)):
            shutil.rmtree(folder, ignore_errors=True)


@dataclass
class ProcessPool:
    """Processes of runs to come."""

    _waiting: dict[tuple[str, Mode], list[RunnerProcess]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def prepare(
        self, module: str, mode: Mode, count: int, sandbox: Callable[[Path, Path], SandboxPolicy]
    ) -> None:
        """Start processes of this module of tools/children/ until `count` wait with their
        libraries loaded. `sandbox` gets the folder of builds and the scratch folder of each."""
        waiting = self._waiting[module, mode]
        while len(waiting) < count:
            scratch, builds = (Path(tempfile.mkdtemp(prefix="astra-run-")) for _ in range(2))
            worker = Worker(module, sandbox=sandbox(builds, scratch))
            waiting.append(RunnerProcess(worker, scratch, builds))

    def take(
        self, module: str, mode: Mode, sandbox: Callable[[Path], SandboxPolicy]
    ) -> RunnerProcess:
        """One that was prepared, or a new one; `sandbox` gets the scratch folder of a new one."""
        if waiting := self._waiting[module, mode]:
            return waiting.pop()
        scratch = Path(tempfile.mkdtemp(prefix="astra-run-"))
        return RunnerProcess(Worker(module, sandbox=sandbox(scratch)), scratch)

    def dismiss(self) -> None:
        """End those that were not used."""
        for processes in self._waiting.values():
            while processes:
                processes.pop().close()
