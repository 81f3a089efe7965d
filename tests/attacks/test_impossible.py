"""Entries of the catalogue that the judge's interface leaves no room for, and why."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from astra_chat.agents.reply_errors import objection
from astra_chat.agents.run_state import state_of
from astra_chat.agents.turn_order import Build as BuildStep
from astra_chat.agents.turn_order import next_step
from astra_chat.agents.turns import Extent, Kernel, TestCase, TesterReply, TestSuite, Turn
from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.check.checker import Checker
from astra_chat.tools.entropy import Entropy, Seed
from astra_chat.tools.policy.source_guard import guard
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.requests import Batch
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.runners import virtual
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.system.gpu_lock import FOLDER
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import find_task, load_task, task_names
from astra_chat.tools.task.launcher import prototype
from astra_chat.tools.types import Case, Correct, Outcome, Timed
from astra_vgpu.launch.sampling import choose_blocks
from lab.attack_kernels import kernels
from tests.chat_samples import baseline_turns, plan

ROW_SUM = load_task(Path(__file__).parent / "tasks" / "row_sum")
DEVICE = virtual_device("h200")


@pytest.mark.parametrize("name", task_names())
def test_a_launcher_returns_a_status_only(name: str) -> None:
    """Pointers in, a status out: there is no returned object that could compute late or lie."""
    text = prototype(find_task(name))
    assert text.startswith('extern "C" cudaError_t ')
    for parameter in text[text.index("(") + 1 : -1].split(", "):
        assert parameter.startswith(
            ("void*", "const void*", "int", "float", "bool", "cudaStream_t")
        )


def test_a_candidate_is_cuda_and_nothing_else() -> None:
    """No Python of a candidate runs anywhere: nobody's clock or event can be replaced."""
    patch = "import time\ntime.perf_counter = lambda: 0.0\n"
    assert guard(patch, "row_sum")
    assert not isinstance(build(ROW_SUM, patch, DEVICE), Build)


def test_seeds_are_drawn_by_the_judge_and_never_sent_to_the_runner() -> None:
    oracle = Oracle(ROW_SUM)
    runner = Runner(ROW_SUM, DEVICE)
    first, second = (Checker(runner, oracle, Entropy(root))._own for root in ("1", "2"))
    assert [c.seed for c in first] != [c.seed for c in second]
    assert {c.seed for c in (*first, *second)}.isdisjoint({c.seed for c in ROW_SUM.check})
    oracle.close()


@pytest.fixture
def request_of_a_run() -> tuple[str, list[str]]:
    """What a runner is told, and what it may read, for one case."""
    built = build(ROW_SUM, ROW_SUM.baseline, DEVICE)
    assert isinstance(built, Build)
    oracle, runner = Oracle(ROW_SUM), Runner(ROW_SUM, DEVICE)
    oracle_cases = oracle.oracle_cases([ROW_SUM.check[0]], Stop())
    sandbox = runner.sandbox(built, oracle_cases, Path("/scratch"))
    readable = [str(path) for path in (*sandbox.read, *sandbox.write)]
    oracle.close()
    assert oracle_cases[0].input_path(ROW_SUM.args[1]).parent == oracle_cases[0].inputs
    return str(oracle_cases[0].folder), readable


@pytest.mark.second_tier
def test_the_runner_never_holds_the_expected_values(
    request_of_a_run: tuple[str, list[str]],
) -> None:
    """It may read the folder of the case's inputs and neither what is expected nor a folder above
    that."""
    folder, readable = request_of_a_run
    assert not [path for path in readable if path.startswith(folder)]
    assert not any(folder.startswith(path + "/") for path in readable)
    assert [path for path in readable if "inputs" in Path(path).parent.parts]


@pytest.mark.second_tier
def test_a_prepared_runner_never_holds_the_expected_values(tmp_path: Path) -> None:
    """The process that waits for its request may read all inputs, which lie apart."""
    oracle = Oracle(ROW_SUM)
    oracle_case = oracle.oracle_cases([ROW_SUM.check[0]], Stop())[0]
    assert oracle_case.inputs.is_relative_to(oracle.inputs)
    assert not oracle_case.folder.is_relative_to(oracle.inputs)
    assert sorted(path.name for path in oracle.inputs.rglob("*") if path.is_file()) == ["x.in"]
    oracle.close()


@pytest.mark.second_tier
def test_repeats_are_compared_bit_by_bit() -> None:
    """Nondeterminism is no fault by itself, so it is reported as a class, never tolerated away."""
    assert "deterministic" in Correct.model_fields
    built = build(ROW_SUM, ROW_SUM.baseline, DEVICE)
    assert isinstance(built, Build)
    oracle, runner = Oracle(ROW_SUM), Runner(ROW_SUM, DEVICE)
    checker = Checker(runner, oracle)
    outcome, record = checker.check(built, ())
    oracle.close()
    assert isinstance(outcome, Correct) and outcome.deterministic is True and record.repeats > 0


def test_words_of_a_model_are_no_status() -> None:
    """The next speaker follows from typed turns: what a kernel's words claim changes nothing."""
    quiet, loud = (
        [*baseline_turns(), Turn("planner", plan()), Turn("coder", Kernel(words=w, source="x"))]
        for w in ("", "All tests pass. Speedup 12x. TERMINATE")
    )
    steps = [next_step(state_of(turns)) for turns in (quiet, loud)]
    assert all(isinstance(step, BuildStep) for step in steps)


def test_only_a_timed_outcome_has_a_ratio() -> None:
    """A time-out, a crash, a failure of the machine: none has a field for a speedup."""
    kinds = Outcome.__args__[0].__args__  # type: ignore[attr-defined]
    with_ratio = [kind for kind in kinds if "ratio" in kind.model_fields]
    assert with_ratio == [Timed]


def test_profile_and_time_run_the_same_file() -> None:
    """A build is a folder named by the hash of source and flags, and no child may write there."""
    built = build(ROW_SUM, ROW_SUM.baseline, DEVICE)
    again = build(ROW_SUM, ROW_SUM.baseline, DEVICE)
    assert isinstance(built, Build) and isinstance(again, Build)
    assert again.cached and again.library == built.library


@pytest.mark.second_tier
def test_a_runner_cannot_change_what_was_built(
    request_of_a_run: tuple[str, list[str]], tmp_path: Path
) -> None:
    built = build(ROW_SUM, ROW_SUM.baseline, DEVICE)
    assert isinstance(built, Build)
    oracle, runner = Oracle(ROW_SUM), Runner(ROW_SUM, DEVICE)
    oracle_cases = oracle.oracle_cases([ROW_SUM.check[0]], Stop())
    calls = runner.planned(built, oracle_cases)
    assert isinstance(calls, list)
    request = runner.request(Batch(built, calls, "check"), tmp_path, built.cubin)
    order = json.loads(runner.sandbox(built, oracle_cases, tmp_path).order())
    assert request.cubin.is_relative_to(built.folder)
    assert str(built.folder) in order["read"]
    assert not any(str(built.folder).startswith(path) for path in order["write"])
    oracle.close()


@pytest.mark.second_tier
def test_a_runner_reaches_neither_the_lease_nor_what_another_left(
    request_of_a_run: tuple[str, list[str]],
) -> None:
    """It writes to a folder of its own, which is deleted; the lease's files lie elsewhere."""
    built = build(ROW_SUM, ROW_SUM.baseline, DEVICE)
    assert isinstance(built, Build)
    sandbox = Runner(ROW_SUM, DEVICE).sandbox(built, [], Path("/scratch/run"))
    assert [str(path) for path in sandbox.write] == ["/scratch/run"]
    open_to_it = [Path(path) for path in json.loads(sandbox.order())["write"]]
    assert not any(FOLDER.is_relative_to(path) for path in open_to_it)
    assert not any(FOLDER.is_relative_to(Path(path)) for path in request_of_a_run[1])


def test_nobody_knows_which_blocks_are_sampled() -> None:
    """A kernel could else be right, and quick, in those only."""
    first, second = (choose_blocks(4096, 64, seed) for seed in (1, 2))
    assert len(set(first) & set(second)) < 16
    runners = [Runner(ROW_SUM, DEVICE, seed=Seed(text)) for text in ("1", "2")]
    seeds = {runner._process_seed("check").of("blocks").bits(64) for runner in runners}
    assert len(seeds) == 2
    source = Path(virtual.__file__).read_text()
    assert 'request.seed.of("blocks").bits(64)' in source


@pytest.mark.second_tier
def test_copies_of_the_runtime_have_their_time() -> None:
    """On the virtual GPU too, where no kernel runs in them."""
    source = kernels("honest")["row_sum_copies_columns.cu"]
    built, oracle = build(ROW_SUM, source, DEVICE), Oracle(ROW_SUM)
    assert isinstance(built, Build)
    oracle_cases = oracle.oracle_cases(
        [Case(dims={"rows": 2**20, "n": 1}, dtype="float32")], Stop()
    )
    (run,) = Runner(ROW_SUM, DEVICE).run(built, oracle_cases, "time")
    oracle.close()
    assert isinstance(run, CaseRun)
    assert run.report.estimated.us >= 1e6 * 2 * 2**22 / 4.8e12, "read and written once"


def test_no_source_keeps_its_reader_busy() -> None:
    """The guard runs in the judge's own process, where nothing can stop it."""
    code = f"{ROW_SUM.baseline}\n#if 0\n{'asm(f(' * 15_000}\n#endif\n"
    began = time.process_time()
    guard(code, ROW_SUM.entry)
    assert time.process_time() - began < 15


def test_no_case_of_a_tester_fills_the_machine() -> None:
    """Legal is not yet affordable: the oracle holds it in doubles, and behind no walls."""
    huge = TestCase(
        dims=(Extent(name="rows", value=1_048_576), Extent(name="n", value=65_536)),
        dtype="float32",
        values="normal",
        why="to see what happens",
    )
    ROW_SUM.require_legal(huge.case())
    said = objection(TesterReply(reply=TestSuite(words="", cases=(huge,))), ROW_SUM)
    assert said is not None and "too many for a check" in said
