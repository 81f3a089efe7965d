"""Chooses the engine of a launch: NumPy starts at once, C is 20 times as fast once compiled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

from astra_vgpu import c_engine, numpy_engine
from astra_vgpu.c_engine.build import (
    StartCompiler,
    ensure_library,
    start_plainly,
)
from astra_vgpu.ground.errors import MissingDependency
from astra_vgpu.launch.background_compile import Compiling, run_meanwhile
from astra_vgpu.launch.sampled_launches import Parts
from astra_vgpu.launch.sampling import Run, run_sampled
from astra_vgpu.launch.waiting_blocks import WaitingBlocks
from astra_vgpu.memory.block_races import BlockRaces, block_races_of
from astra_vgpu.memory.buffers import Memory
from astra_vgpu.memory.bulk_stores import NDPieces, unfinished_stores
from astra_vgpu.memory.proxy_fences import ProxyFences, proxy_fences_of
from astra_vgpu.numpy_engine.batch import MIN_LANES
from astra_vgpu.ptx.parser import Module, PtxSyntaxError, parse
from astra_vgpu.sass.counters import MachineCode
from astra_vgpu.types import Engine, Launch, LaunchReport, PtxUnsupported

C_WORTH_INSTRUCTIONS = 50_000_000
"""Thread instructions from which on a launch is worth the second that the host compiler takes."""
C_COMPILER, C_COMPILER_EACH = 4_000_000, 100_000
"""What NumPy runs while the host compiler starts, and while it takes one PTX instruction more: who
launches a kernel once may launch it again, so half the time that both would need."""
C_READY_INSTRUCTIONS = 1_000_000
"""Thread instructions from which on a launch without counters runs on C where its kernel is
compiled already."""
C_WORTH_THREADS = 8192
"""Threads from which on a cooperative launch, which runs whole at once, is worth the compiler."""
C_SPEEDUP = 20
"""Ratio of the instructions affordable on the C engine to those affordable on NumPy."""
C_LARGEST_KERNEL = 1000
"""PTX instructions: beyond, compiling takes so long that NumPy continues in the meantime."""
NOT_COMPILED = "it was not compiled for the C engine"
GRID_SYNC = "%envreg"
"""Names the registers that tell a kernel where the blocks of a cooperative launch meet."""


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """A launch that is to be run."""

    module: Module
    launch: Launch
    memory: Memory
    addresses: Mapping[str, int]
    """Addresses of the module's variables, by name."""
    counters: bool

    @property
    def reference(self) -> numpy_engine.Program:
        """The kernel on the NumPy engine, translated once a module."""
        cooperative = bool(self.launch.meeting_place)
        return numpy_engine.translate(self.module, self.launch.kernel, cooperative=cooperative)


@dataclass(frozen=True, kw_only=True)
class _Blocks:
    """An ordinary launch of which either engine runs some blocks. Both watch the same memory for
    races between blocks."""

    asked: _Asked
    block_races: BlockRaces | None
    unfinished: Mapping[int, NDPieces]
    proxy_fences: ProxyFences | None
    prints: bool
    endless_instructions: int
    in_order: bool

    def on_numpy(self, blocks: Sequence[int] | None, counting: bool) -> LaunchReport:
        return numpy_engine.run(
            self.asked.reference,
            self.asked.launch,
            self.asked.memory,
            blocks=blocks,
            module_globals=self.asked.addresses,
            counters=counting,
            prints=self.prints,
            block_races=self.block_races,
            unfinished=self.unfinished,
            proxy_fences=self.proxy_fences,
            instruction_budget=self.endless_instructions,
            in_order=self.in_order,
        )

    def on_c(
        self, program: c_engine.Program, blocks: Sequence[int] | None, counting: bool
    ) -> LaunchReport:
        return c_engine.run(
            program,
            self.asked.launch,
            self.asked.memory,
            blocks=blocks,
            module_globals=self.asked.addresses,
            counters=counting,
            prints=self.prints,
            block_races=self.block_races,
            unfinished=self.unfinished,
        )


class Engines:
    """The engines as one VirtualGpu uses them."""

    def __init__(
        self,
        engine: Engine,
        compiled: Mapping[str, Path] | None,
        budget: int | None,
        *,
        prints: bool = False,
        adds_up: bool = False,
        endless_instructions: int = numpy_engine.INSTRUCTION_BUDGET,
    ) -> None:
        """`compiled` gives libraries by kernel, and then nothing is compiled here: a kernel without
        one runs on NumPy. `budget` is that of a launch on NumPy, see run_sampled. Without `prints`
        what kernels print is dropped. adds_up: when `auto` chooses, what NumPy ran of a kernel in
        earlier launches counts, and small kernels are worth the compiler sooner.
        endless_instructions: of single threads, after which a batch on NumPy counts as endless."""
        self._engine, self._compiled, self._budget = engine, compiled, budget
        self._prints, self._seed = prints, 0
        self._adds_up = adds_up
        self._endless_instructions = endless_instructions
        self._interpreted: Counter[tuple[int, str, bool]] = Counter()
        """Instructions of single threads that NumPy ran, or had time for, of a kernel so far."""
        self._compiling: dict[tuple[int, str, bool], Compiling] = {}
        self._each: dict[tuple[int, str, bool], float] = {}
        """Instructions that a thread of each kernel ran in its last launch, on average."""
        self._ordered: set[tuple[int, str, bool]] = set()
        """Kernels of which a block waited for an earlier one: whole launches keep their order."""
        self.notes: dict[str, str] = {}
        """Why a kernel ran on NumPy although C was asked for, by kernel."""

    def afford(self, budget: int | None, seed: int = 0) -> None:
        """From now on a launch on NumPy may cost so much; None: all blocks run. `seed` chooses."""
        self._budget, self._seed = budget, seed

    def run(
        self,
        module: Module,
        launch: Launch,
        memory: Memory,
        addresses: Mapping[str, int],
        *,
        counters: bool,
        parts: Parts | None = None,
        machine: MachineCode | None = None,
    ) -> LaunchReport:
        """Runs the launch, or a stated sample of it. Raises Fault and PtxUnsupported.

        parts: the launches before it of which only a sample ran. machine: of the module's kernels;
        without it counters of machine code are guessed.
        """
        asked = _Asked(
            module=module, launch=launch, memory=memory, addresses=addresses, counters=counters
        )

        def counted(report: LaunchReport) -> LaunchReport:
            return report if machine is None else machine.counted(report, asked.reference.outline)

        if launch.meeting_place:
            if parts is not None:
                parts.alone(launch)
            return counted(self._together(asked))
        run = self._runner(asked)

        def of(blocks: Sequence[int] | None) -> LaunchReport:
            return counted(run(blocks))

        if parts is None:
            return of(None)
        return parts.after(of(parts.before(launch)), of)

    def _runner(self, asked: _Asked) -> Callable[[Sequence[int] | None], LaunchReport]:
        """Runs these blocks of an ordinary launch, or, given None, as many as can be afforded."""
        reference, memory = asked.reference, asked.memory
        may_wait = WaitingBlocks(asked.module, asked.launch, memory, asked.addresses)

        def of(blocks: Sequence[int] | None) -> LaunchReport:
            once = partial(self._once, asked, blocks)
            if not reference.in_order:
                return once(False)
            if self._budget is None:
                key = _key(asked.module, asked.launch)
                if memory.descending and key not in self._ordered and may_wait.need_order(blocks):
                    self._ordered.add(key)
                return once(not memory.descending or key in self._ordered)
            return may_wait.sampled(once, blocks, self._seed)

        return of

    def _once(self, asked: _Asked, only: Sequence[int] | None, in_order: bool) -> LaunchReport:
        """Runs these blocks, or, given None, as many as can be afforded. in_order: one after the
        other, from the first; see run_sampled."""
        module, launch, reference = asked.module, asked.launch, asked.reference
        blocks = _Blocks(
            asked=asked,
            block_races=block_races_of(reference.reach, launch, asked.memory, asked.addresses),
            unfinished=unfinished_stores(reference.reach, launch, asked.memory, asked.addresses),
            proxy_fences=proxy_fences_of(reference.reach, launch, asked.memory, asked.addresses),
            prints=self._prints,
            endless_instructions=self._endless_instructions,
            in_order=in_order,
        )
        sampled = partial(run_sampled, launch, in_order=in_order, only=only, seed=self._seed)
        of_c = self._engine == "c" or self._is_ready(asked)
        if of_c and (program := self._program(module, launch)):
            return sampled(partial(blocks.on_c, program), self._c_budget, asked.counters)
        if self._engine == "auto" and self._worth_compiling(module, launch, reference):
            run, budget = self._for_the_rest(blocks, C_WORTH_INSTRUCTIONS)
            return sampled(run, budget, asked.counters)
        then = partial(self._for_the_rest, blocks) if self._engine == "auto" else None
        return self._added(module, sampled(blocks.on_numpy, self._budget, asked.counters, then))

    def _is_compiled(self, asked: _Asked) -> bool:
        """Whether the C engine has the kernel already, and may run it where nothing is counted."""
        name = _library(asked.launch.kernel, bool(asked.launch.meeting_place))
        return self._engine == "auto" and not asked.counters and name in (self._compiled or ())

    def _is_ready(self, asked: _Asked) -> bool:
        """Whether C has the kernel, and the launch is large enough by what was run of it before.
        Kernels that may read unset registers begin on NumPy: C does not look at those."""
        launch = asked.launch
        if asked.reference.twins:
            return False
        each = self._each.get(_key(asked.module, launch), 0.0)
        large = launch.grid.count * launch.block.count * each >= C_READY_INSTRUCTIONS
        return large and self._is_compiled(asked)

    def _for_the_rest(self, blocks: _Blocks, instructions: int) -> tuple[Run, int | None]:
        """What runs a launch of so many instructions beyond its first part, and its budget."""
        asked = blocks.asked
        module, launch, reference = asked.module, asked.launch, asked.reference
        ready = self._is_compiled(asked)
        if instructions < (C_READY_INSTRUCTIONS if ready else self._c_worth(reference)):
            return blocks.on_numpy, self._budget
        small = numpy_engine.count(reference) <= C_LARGEST_KERNEL
        if small and (program := self._program(module, launch)):
            return partial(blocks.on_c, program), self._c_budget
        if not small and self._compiled is None:
            key = _key(module, launch)
            compiling = self._compiling.get(key) or Compiling(lambda: self._program(module, launch))
            self._compiling[key] = compiling
            meanwhile = partial(run_meanwhile, launch, blocks.on_numpy, blocks.on_c, compiling)
            return meanwhile, self._c_budget
        return blocks.on_numpy, self._budget

    def _together(self, asked: _Asked) -> LaunchReport:
        """A cooperative launch: whatever it costs, all its blocks run, and all at once."""
        module, launch, reference = asked.module, asked.launch, asked.reference
        large = launch.grid.count * launch.block.count >= C_WORTH_THREADS
        worth = numpy_engine.count(reference) <= C_LARGEST_KERNEL and (
            large or self._worth_compiling(module, launch, reference)
        )
        if self._engine == "c" or (self._engine == "auto" and worth):
            program = self._program(module, launch)
            if program is not None:
                return c_engine.run(
                    program,
                    launch,
                    asked.memory,
                    module_globals=asked.addresses,
                    counters=asked.counters,
                    prints=self._prints,
                )
        report = numpy_engine.run(
            reference,
            launch,
            asked.memory,
            module_globals=asked.addresses,
            counters=asked.counters,
            prints=self._prints,
            instruction_budget=self._endless_instructions,
        )
        return self._added(module, report)

    def _c_worth(self, reference: numpy_engine.Program) -> int:
        """The instructions of single threads from which on C is faster, its compiler included."""
        if not self._adds_up:
            return C_WORTH_INSTRUCTIONS
        compiler = C_COMPILER + C_COMPILER_EACH * numpy_engine.count(reference)
        return min(compiler, C_WORTH_INSTRUCTIONS)

    def _worth_compiling(
        self, module: Module, launch: Launch, reference: numpy_engine.Program
    ) -> bool:
        """Whether the launches so far would have paid for the compiler."""
        worth = self._interpreted[_key(module, launch)] >= self._c_worth(reference)
        return worth and launch.kernel not in self.notes

    def _added(self, module: Module, report: LaunchReport) -> LaunchReport:
        """A small launch costs NumPy as much as one of some thousand threads."""
        threads = max(1, report.blocks_run * report.launch.block.count)
        key = _key(module, report.launch)
        self._each[key] = report.counters.lane_instructions / threads
        if self._adds_up:
            least = report.counters.critical_path_instructions * MIN_LANES
            cost = max(report.counters.lane_instructions, least)
            self._interpreted[key] += cost
        return report

    @property
    def _c_budget(self) -> int | None:
        return None if self._budget is None else C_SPEEDUP * self._budget

    def _program(self, module: Module, launch: Launch) -> c_engine.Program | None:
        """The kernel on the C engine, ready to run; None, with a note, where that cannot be."""
        try:
            cooperative = bool(launch.meeting_place)
            program = c_engine.translate(module, launch.kernel, cooperative=cooperative)
            if self._compiled is None:
                program.library()
                return program
            if library := self._compiled.get(_library(launch.kernel, cooperative)):
                program.use(library)
                return program
            self.notes[launch.kernel] = NOT_COMPILED
        except (PtxUnsupported, MissingDependency, OSError) as error:
            self.notes[launch.kernel] = str(error)
        return None


def _key(module: Module, launch: Launch) -> tuple[int, str, bool]:
    """The modules of a VirtualGpu live as long as it."""
    return id(module), launch.kernel, bool(launch.meeting_place)


def compile_kernels(ptx: Path, engine: Engine) -> dict[str, Path]:
    """Libraries of a file's kernels for the C engine, those left out that run on NumPy only.

    For a process that may not start a compiler; the cache keeps them. With `auto` also those that
    take long to compile, or cannot be compiled, are left out; else that raises MissingDependency.
    """
    return compile_sources(c_sources(ptx, engine), engine)


def c_sources(ptx: Path, engine: Engine, only: Collection[str] | None = None) -> dict[str, str]:
    """The C file of each kernel, or of these only, that the C engine should run, and of each that
    can wait for its whole grid a second one for cooperative launches; nothing is compiled."""
    text = ptx.read_text()
    try:
        module = parse(text)
    except PtxSyntaxError:
        return {}
    sources: dict[str, str] = {}
    ways = (False, True) if GRID_SYNC in text else (False,)
    kernels = [kernel for kernel in module.kernels if only is None or kernel in only]
    for kernel, cooperative in product(kernels, ways):
        try:
            program = c_engine.translate(module, kernel, cooperative=cooperative)
        except PtxUnsupported:
            continue
        if engine == "c" or numpy_engine.count(program.reference) <= C_LARGEST_KERNEL:
            sources[_library(kernel, cooperative)] = program.source
    return sources


def _library(kernel: str, cooperative: bool) -> str:
    """Name of a kernel's compiled form; mangled names have no spaces."""
    return f"{kernel} cooperative" if cooperative else kernel


def kernel_of(library: str) -> str:
    """The kernel of a name that `c_sources` gives."""
    return library.partition(" ")[0]


def compile_sources(
    sources: Mapping[str, str], engine: Engine, start: StartCompiler = start_plainly
) -> dict[str, Path]:
    """Libraries of `c_sources`; `start` says how the compiler process is started."""
    libraries: dict[str, Path] = {}
    for kernel, source in sources.items():
        try:
            libraries[kernel] = ensure_library(source, start)
        except MissingDependency:
            if engine == "c":
                raise
    return libraries
