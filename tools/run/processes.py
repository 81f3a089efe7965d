"""Runner processes, and those under NVIDIA's tools: started before they are needed where that takes
long, and ended with their folders."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from astra_chat.tools.run.early_contexts import EarlyContexts
from astra_chat.tools.run.protocol import Mode
from astra_chat.tools.sandbox.policy import SandboxPolicy
from astra_chat.tools.system.fork_servers import server_of
from astra_chat.tools.system.subprocesses import Begun, Worker

LOG = "log"


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
        _remove(*filter(None, (self.scratch, self.builds)))


@dataclass(frozen=True)
class ToolProcess:
    """A tool of NVIDIA's round one of our modules, which waits for its request."""

    program: Begun
    scratch: Path
    """Holds the tool's log and what calls leave."""
    builds: Path
    """Where it finds what it is to load."""

    @classmethod
    def begin(
        cls, command: Sequence[str], module: str, sandbox: Callable[[Path, Path], SandboxPolicy]
    ) -> ToolProcess:
        """Start a tool. `command`: its full path and options. `sandbox` gets the folder of builds
        and the scratch folder. Raises MissingDependency without the tool."""
        scratch, builds = (Path(tempfile.mkdtemp(prefix="astra-tool-")) for _ in range(2))
        argv = [*command, "--log-file", str(scratch / LOG), sys.executable, "-m", module]
        try:
            begun = Begun(argv, cwd=scratch, sandbox=sandbox(builds, scratch))
        except BaseException:
            _remove(scratch, builds)
            raise
        return cls(begun, scratch, builds)

    def log(self) -> str | None:
        """Returns what the tool wrote to its log, if anything."""
        file = self.scratch / LOG
        return file.read_text(errors="replace") if file.is_file() else None

    def close(self) -> None:
        self.program.close()
        _remove(self.scratch, self.builds)


@dataclass
class ProcessPool:
    """Processes of runs to come."""

    _waiting: dict[tuple[str, Mode], list[RunnerProcess]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _tools: dict[tuple[str, ...], list[ToolProcess]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """Tools that wait for their request, by command and module."""
    contexts: EarlyContexts | None = None
    """Opens the GPU in processes that wait."""

    def prepare(
        self, module: str, mode: Mode, count: int, sandbox: Callable[[Path, Path], SandboxPolicy]
    ) -> None:
        """Start processes of this module of tools/runners/ until `count` wait with their
        libraries loaded. `sandbox` gets the folder of builds and the scratch folder of each."""
        waiting = self._waiting[module, mode]
        while len(waiting) < count:
            scratch, builds = (Path(tempfile.mkdtemp(prefix="astra-run-")) for _ in range(2))
            policy = sandbox(builds, scratch)
            worker = Worker(module, sandbox=policy, server=server_of(module))
            waiting.append(RunnerProcess(worker, scratch, builds))
            if self.contexts:
                self.contexts.open(worker)

    def take(
        self, module: str, mode: Mode, sandbox: Callable[[Path], SandboxPolicy]
    ) -> RunnerProcess:
        """Returns the process that was prepared first, or a new one; `sandbox` gets the scratch
        folder of a new one. Those that were started last may not have loaded their libraries
        yet."""
        waiting = self._waiting[module, mode]
        while waiting:
            process = waiting.pop(0)
            if self.contexts is None or self.contexts.claim(process.worker):
                return process
            process.close()
        scratch = Path(tempfile.mkdtemp(prefix="astra-run-"))
        worker = Worker(module, sandbox=sandbox(scratch), server=server_of(module))
        return RunnerProcess(worker, scratch)

    def prepare_tool(
        self,
        command: Sequence[str],
        module: str,
        count: int,
        sandbox: Callable[[Path, Path], SandboxPolicy],
    ) -> None:
        """Start tools round this module until `count` wait."""
        waiting = self._tools[*command, module]
        while len(waiting) < count:
            waiting.append(ToolProcess.begin(command, module, sandbox))

    def take_tool(
        self, command: Sequence[str], module: str, sandbox: Callable[[Path, Path], SandboxPolicy]
    ) -> ToolProcess:
        """Returns the tool that was prepared first, or a new one."""
        if waiting := self._tools[*command, module]:
            return waiting.pop(0)
        return ToolProcess.begin(command, module, sandbox)

    def dismiss(self) -> None:
        """End the processes that were not used."""
        for processes in self._waiting.values():
            while processes:
                process = processes.pop()
                if self.contexts:
                    self.contexts.claim(process.worker)
                process.close()
        for tools in self._tools.values():
            while tools:
                tools.pop().close()


def _remove(*folders: Path) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
