"""Counters of launches whose machine code is known to do so much."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from tests.sass.conftest import Run

from astra_vgpu.ground.gpu_specs import spec
from astra_vgpu.ptx.debug_lines import WAITED
from astra_vgpu.runtime.compile import Compiled, compile_file
from astra_vgpu.sass.counters import Executed, MachineCode, changed
from astra_vgpu.types import Counters, Engine

WARPS = 4


def test_loads_and_stores_are_the_requests_of_the_ptx(run: Run) -> None:
    counters = run("each", 1000).counters
    units = counters.machine_instructions
    assert units["global_load"] == counters.global_load_requests > 0
    assert units["global_store"] == counters.global_store_requests > 0
    assert units["fma"] == counters.warp_instructions["float"]
    assert counters.issue_tenths == 10 * units.total() > 0
    assert counters.alu_tenths == 10 * units["alu"]


@pytest.mark.parametrize("gpu", ["a100", "rtx4090"])
def test_machine_code_of_other_gpus(gpu: str, run: Run, tmp_path: Path) -> None:
    source = Path(__file__).parent / "data" / "known.cu"
    built = compile_file(source, tmp_path, spec(gpu))
    counters = run("each", 1000, built=built).counters
    assert counters.machine_instructions["global_load"] == counters.global_load_requests > 0
    assert run("turns", 37, built=built).counters.machine_instructions["fma"] == WARPS * (8 + 37)
    assert 20 <= run("chase", 20, built=built).counters.dependent_load_rounds <= 21


@pytest.mark.parametrize("trips", [0, 1, 3, 4, 15, 16, 37, 100])
def test_an_unrolled_loop_runs_its_turns(run: Run, trips: int) -> None:
    units = run("turns", trips).counters.machine_instructions
    assert units["fma"] == WARPS * (8 + trips)


def test_the_chain_is_told_by_unit_and_up_to_the_first_load(run: Run) -> None:
    each, chase = run("each", 1000).counters, run("chase", 20).counters
    for counters in (each, chase):
        assert abs(counters.critical_path_units.total() - counters.critical_path_cycles) <= len(
            counters.critical_path_units
        )
        assert 0 < counters.critical_path_before_load < counters.critical_path_cycles
    assert chase.critical_path_before_load < chase.critical_path_cycles / 2


def test_the_chain_is_told_by_source_line(run: Run) -> None:
    """Lines of data/known.cu; of `chase` those of its loop, which loads what it loaded."""
    text = (Path(__file__).parent / "data" / "known.cu").read_text().splitlines()
    chase = run("chase", 20).counters
    named = chase.critical_path_lines.total()
    assert 0.9 * chase.critical_path_cycles <= named <= chase.critical_path_cycles + 10
    waits = chase.critical_path_load_lines
    assert waits.total() == chase.dependent_load_rounds
    loads = {places.partition(WAITED)[0] for places in waits}
    (place,) = loads
    name, _, line = place.partition(":")
    assert name == "known.cu" and "[" in text[int(line) - 1]
    most = max(waits, key=lambda places: waits[places])
    assert most == f"{place}{WAITED}{place}", "the loaded index is used on the same line"


def test_the_slow_path_of_a_quotient_does_not_count(run: Run) -> None:
    """One reciprocal and one check of the operands; the slow path has more, and a call."""
    counters = run("quotients", 64).counters
    assert counters.machine_instructions["xu"] == 2 * WARPS
    assert counters.special_tenths == 20 * WARPS
    assert counters.machine_instructions["fma"] == 5 * WARPS


def test_loads_that_hang_on_each_other_are_rounds(run: Run) -> None:
    for steps in (1, 7, 20, 64):
        counters = run("chase", steps).counters
        assert steps <= counters.dependent_load_rounds <= steps + 1
        assert counters.global_load_requests == steps * WARPS
        assert counters.machine_instructions["global_load"] == steps * WARPS
    assert run("four", 0).counters.dependent_load_rounds == 1


def test_a_slow_path_of_parted_warps_does_not_count(run: Run) -> None:
    """Only the first warp of each block shuffles, five times."""
    units = run("sums", 0).counters.machine_instructions
    assert units["shuffle"] == 5 * WARPS / 2


def test_longer_chains_take_longer(run: Run) -> None:
    cycles = [run("turns", n).counters.critical_path_cycles for n in (16, 32, 64)]
    assert cycles[2] - cycles[1] == 2 * (cycles[1] - cycles[0])
    assert cycles[1] - cycles[0] >= 16 * 4  # the latency of an fma


def test_rounds_that_find_new_sectors_keep_their_share(run: Run, known: Compiled) -> None:
    report = run("chase", 20)
    counters = report.counters
    assert counters.fresh_load_rounds == 1
    assert counters.dependent_load_rounds >= 20


def test_a_round_that_finds_new_sectors_is_left_where_ptxas_makes_one_of_three() -> None:
    """One of three waits of the PTX is for new data: the one of the machine code is for it, too."""
    executed = Executed(Counter(), 100, 1, 50, Counter(), Counter(), Counter(), 0.0)
    waited = Counters(dependent_load_rounds=3, fresh_load_rounds=1)
    assert changed(waited, executed).fresh_load_rounds == 1
    none = Counters(dependent_load_rounds=3, fresh_load_rounds=0)
    assert changed(none, executed).fresh_load_rounds == 0


@pytest.mark.parametrize("kernel", ["each", "turns", "sums", "uneven"])
def test_engines_and_samples_agree(run: Run, kernel: str) -> None:
    whole = {engine: run(kernel, 50, engine=engine, blocks=40) for engine in _ENGINES}
    assert whole["numpy"].visits == whole["c"].visits
    assert whole["numpy"].counters == whole["c"].counters
    assert whole["numpy"].counters.machine_instructions
    # The first 32 blocks on NumPy, the rest as `auto` chooses: one report.
    assert run(kernel, 50, engine="auto", blocks=600, sample=10**9).visits == (
        run(kernel, 50, engine="c", blocks=600).visits
    )


_ENGINES: tuple[Engine, ...] = ("numpy", "c")


def test_the_longest_warp_is_the_first_of_those(run: Run) -> None:
    visits = run("uneven", 5, blocks=40).visits
    assert visits is not None and visits.block == 2
    assert sum(visits.longest) > 2 * sum(visits.total) / (40 * 2) / 2


def test_without_the_text_there_are_guesses(run: Run, known: Compiled, tmp_path: Path) -> None:
    ptx = tmp_path / "known.ptx"
    shutil.copy(known.ptx, ptx)
    guessed = run("each", 1000, built=replace(known, ptx=ptx)).counters
    assert guessed.machine_instructions == Counter()
    assert guessed.issue_tenths > 0 and guessed.dependent_load_rounds > 0
    for wrong in ("", "nonsense", ".text.other:\n", "\0" * 99):
        ptx.with_suffix(".sass").write_text(wrong)
        assert run("each", 1000, built=replace(known, ptx=ptx)).counters == guessed


def test_a_text_that_is_not_understood_costs_one_kernel_only(
    run: Run, known: Compiled, tmp_path: Path
) -> None:
    text = known.ptx.with_suffix(".sass").read_text()
    at = text.index("/* 0x", text.index("4eachPfPKfi:\n"))
    ptx = tmp_path / "known.ptx"
    shutil.copy(known.ptx, ptx)
    ptx.with_suffix(".sass").write_text(text[:at] + "/* 0y" + text[at + 5 :])
    built = replace(known, ptx=ptx)
    assert not run("each", 1000, built=built).counters.machine_instructions
    assert run("turns", 8, built=built).counters == run("turns", 8).counters


def test_a_report_without_counters_stays(tmp_path: Path, run: Run) -> None:
    report = replace(run("each", 100), visits=None)
    assert MachineCode(tmp_path / "none.sass").counted(report, ()) is report


def test_rounds_waited_for_at_mbarriers_come_once() -> None:
    """Rounds of bulk copies are added, which the machine code does not show; those of another warp
    are not added again."""
    executed = Executed(Counter(), 100, 8, 50, Counter(), Counter(), Counter(), 0.0)
    copies = Counters(dependent_load_rounds=10, mbarrier_rounds=2)
    assert changed(copies, executed).dependent_load_rounds == 10
    other_warp = Counters(dependent_load_rounds=8, mbarrier_rounds=8)
    assert changed(other_warp, executed).dependent_load_rounds == 8


def test_a_kernel_without_text_is_named_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    assert MachineCode(tmp_path / "none.sass").kernel("sums", ()) is None
    assert "counters of sums are guesses from its PTX: FileNotFoundError" in caplog.text
