"""What the virtual GPU counts of a kernel: of one that it ran, and of one that a real GPU runs.

No hardware counter has the chain of results of a warp, its rounds of loads, or what each line of
the source costs: beside what a GPU measured, these say what its times are made of.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.build.preprocessed import SOURCE
from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.profiling import metrics as m
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.launch_plans import Recorded
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.run.protocol import CaseReport
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.cores import cores
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.system.subprocesses import Cancelled, Stop
from astra_chat.tools.types import Metric, Profile, SourceLine, place_text
from astra_chat.tools.virtual_gpu.adapter import INLINED, UNITS, WAITED, Estimate
from astra_vgpu.ground.errors import AstraError

COUNTING_S = 20.0
"""Time for all cases of a profile; a case that is not done then has no counts."""
BESIDE_MEASURED = (
    m.LOAD_ROUNDS,
    m.MACHINE_PATH,
    m.CHAIN,
    m.CHAIN_BEFORE_LOAD,
    *m.CHAIN_BY_UNIT.values(),
    m.CONSTANT_WORDS,
)
"""Counts that stand beside what Nsight Compute measured: it has none of them."""
WORDS = "counted on the virtual GPU: "
_IN_SOURCE = f"{SOURCE}:"
NO_LINE = "code that nvcc adds, such as a 64-bit division"
"""Text of a line where the machine code names line 0."""
LONGEST_LINE = 120
"""Most characters of a line's text."""
_Row = tuple[str, float, str, str]
"""Name, value, unit and words of a metric."""


def counted_reports(
    runner: Runner,
    candidate: Build,
    oracle_cases: Sequence[OracleCase],
    limit_s: float = COUNTING_S,
    unwanted: Stop | None = None,
) -> list[CaseReport | None]:
    """What the virtual GPU counts of a candidate of `runner` on each case; None where it cannot, or
    not in time, or once that is `unwanted`. It runs the launches that are recorded already: no code
    of the launcher runs. Raises Cancelled."""
    late = unwanted or Stop(beside=runner.stop)
    timer = threading.Timer(limit_s, late.set)
    plans = runner.record(candidate, [one.case for one in oracle_cases])
    device = virtual_device(runner.device.spec)
    other = Runner(runner.task, device, late, runner.engine, seed=runner.seed)
    other.keep_plans(candidate, [plan for plan in plans if isinstance(plan, LaunchPlan)])

    def counted(oracle_case: OracleCase, plan: Recorded) -> CaseReport | None:
        if not isinstance(plan, LaunchPlan):
            return None
        try:
            run = next(other.run(candidate, [oracle_case], "time"), None)
        except (AstraError, Cancelled):
            runner.stop.check()
            return None
        return run.report if isinstance(run, CaseRun) else None

    timer.start()
    try:
        with ThreadPoolExecutor(cores()) as pool:
            return list(pool.map(counted, oracle_cases, plans))
    finally:
        timer.cancel()


def with_counts(
    profiles: Sequence[Profile], reports: Sequence[CaseReport | None], source: str
) -> list[Profile]:
    """Measured profiles with the counts of the same cases, which say whose they are."""
    return [
        profile.model_copy(
            update={
                "metrics": (
                    *profile.metrics,
                    *_marked(one for one in counter_metrics(report) if one.name in BESIDE_MEASURED),
                ),
                "lines": source_lines(report.estimated, source),
            }
        )
        if report
        else profile
        for profile, report in zip(profiles, reports, strict=True)
    ]


def _marked(metrics: Iterable[Metric]) -> tuple[Metric, ...]:
    return tuple(one.model_copy(update={"words": WORDS + one.words}) for one in metrics)


def source_lines(estimate: Estimate, source: str) -> tuple[SourceLine, ...]:
    """What each line of `source` costs the longest warp, in the order of what calls them; nothing
    where the machine code is unknown."""
    texts, waits = source.split("\n"), _waits(estimate)
    found = {
        place: calls
        for place in (*estimate.chain_lines, *waits)
        if (calls := _calls(place, len(texts)))
    }
    return tuple(
        SourceLine(
            line=calls[0],
            calls=tuple(calls[1:]),
            text=texts[calls[0] - 1].strip()[:LONGEST_LINE] if calls[0] else NO_LINE,
            chain_cycles=estimate.chain_lines.get(place, 0.0),
            load_rounds=sum(waits.get(place, {}).values()),
            waited_at=_waited_at(waits.get(place, {}), len(texts)),
        )
        for place, calls in sorted(found.items(), key=lambda item: item[1][::-1])
    )


def _waits(estimate: Estimate) -> dict[str, dict[str, float]]:
    """Rounds by the place of the load, then by that of what waits for it."""
    waits: dict[str, dict[str, float]] = {}
    for places, rounds in estimate.load_lines.items():
        load, _, waiting = places.partition(WAITED)
        waits.setdefault(load, {})[waiting] = rounds
    return waits


def _calls(place: str, lines: int) -> list[int]:
    """The line of a place, and those that it is inlined at; none outside of the source."""
    parts = [at for at in place.split(INLINED) if at.startswith(_IN_SOURCE)]
    calls = [int(at.removeprefix(_IN_SOURCE)) for at in parts]
    return calls if calls and max(calls) <= lines else []


def _waited_at(rounds: Mapping[str, float], lines: int) -> str:
    """The place in the source with most of these rounds; "" where it is not known."""
    known = [(often, calls) for at, often in rounds.items() if (calls := _calls(at, lines))]
    _, calls = max(known, default=(0.0, [0]))
    return place_text(*calls) if calls[0] else ""


def _chain_parts(estimate: Estimate) -> list[_Row]:
    """What the longest chain of results is made of; nothing where the machine code is unknown."""
    if not estimate.chain_units:
        return []
    parts = sorted(estimate.chain_units.items(), key=lambda item: -item[1])
    before = "part of the chain before the warp first waits for global memory"
    return [
        (m.CHAIN_BEFORE_LOAD, estimate.chain_before_load, "cycle", before),
        *(
            (m.CHAIN_BY_UNIT[unit], cycles, "cycle", f"part of the chain: {UNITS[unit]}")
            for unit, cycles in parts
            if unit in UNITS
        ),
    ]


def _constant_words(counts: Mapping[str, float]) -> list[_Row]:
    """Metric of the words that each load of constants takes; nothing where its lanes want one
    word."""
    loads, words = (counts.get(f"constant_load_{what}", 0.0) for what in ("requests", "words"))
    if words <= loads:
        return []
    each = "different words per load of constants or parameters, served one after the other"
    return [(m.CONSTANT_WORDS, words / loads, "", each)]


def counter_metrics(report: CaseReport) -> list[Metric]:
    """Counters of all launches of the call, scaled to whole grids where a sample ran.

    Nsight Compute's names where the same thing is counted, else our own.
    """
    totals = _totals(report)
    rows = [
        *_time_rows(report.estimated),
        *_longest_warp_rows(report.estimated),
        *_instruction_rows(totals),
        *_global_memory_rows(totals.counts),
        *_on_chip_rows(totals.counts),
    ]
    return [Metric(name=n, value=float(v), unit=u, words=w) for n, v, u, w in rows]


@dataclass(frozen=True, kw_only=True)
class _Totals:
    """Counts of all launches of a call, as if all blocks had run."""

    counts: Mapping[str, float]
    """Events by the name of their field in Counters."""
    instructions: float
    """PTX instructions."""
    machine: float
    """Machine instructions; PTX instructions where the machine code is not known."""
    units: Mapping[str, float]
    """Machine instructions by unit, where the machine code is known."""


def _totals(report: CaseReport) -> _Totals:
    counts: dict[str, float] = {}
    units: dict[str, float] = {}
    instructions = machine = 0.0
    for launch in report.launches:
        scale, counters = launch.scale, vars(launch.counters)
        instructions += scale * sum(counters["warp_instructions"].values())
        known = counters.get("machine_instructions") or {}
        machine += scale * sum((known or counters["warp_instructions"]).values())
        for unit, count in known.items():
            units[unit] = units.get(unit, 0.0) + scale * count
        for name, value in counters.items():
            if isinstance(value, int):
                counts[name] = counts.get(name, 0.0) + scale * value
    return _Totals(counts=counts, instructions=instructions, machine=machine, units=units)


def _time_rows(estimate: Estimate) -> list[_Row]:
    """The estimated time, and how much of the GPU is in use."""
    return [
        (m.TIME, 1e3 * estimate.us, "ns", "estimated device time of the call"),
        (m.OCCUPANCY_LIMIT, 100 * estimate.occupancy, "%", m.WORDS[m.OCCUPANCY_LIMIT]),
        (m.WAVES, estimate.waves, "", "waves of blocks"),
    ]


def _longest_warp_rows(estimate: Estimate) -> list[_Row]:
    """What the longest warp does, and how many warps an SM has."""
    machine = round(estimate.machine_instructions)
    chain = "longest dependency chain of that warp"
    return [
        (m.LOAD_ROUNDS, estimate.load_rounds, "", "rounds of loads that a warp waits for"),
        (m.MACHINE_PATH, machine, "inst", "machine instructions of the longest warp"),
        (m.PTX_PATH, estimate.warp_instructions, "inst", "PTX instructions of the longest warp"),
        (m.CHAIN, estimate.chain_cycles, "cycle", chain),
        *_chain_parts(estimate),
        (m.WARPS_HELD, estimate.warps_held, "warp", "warps that the busiest SM runs at once"),
        (
            m.TURNS,
            estimate.turns,
            "",
            "blocks that one slot of the busiest SM runs one after the other",
        ),
    ]


def _instruction_rows(totals: _Totals) -> list[_Row]:
    """Instructions of the machine by unit, and how many lanes take part."""
    lanes = 100 * totals.counts["lane_instructions"] / max(1.0, 32 * totals.instructions)
    by_unit = sorted(totals.units.items(), key=lambda item: -item[1])
    return [
        (m.INSTRUCTIONS, totals.machine, "inst", m.WORDS[m.INSTRUCTIONS]),
        *((m.BY_UNIT[unit], n, "inst", f"of these: {UNITS[unit]}") for unit, n in by_unit),
        (m.LANES, lanes, "%", m.WORDS[m.LANES]),
    ]


def _global_memory_rows(counts: Mapping[str, float]) -> list[_Row]:
    """Requests, their sectors, and what DRAM has to move."""
    loads = max(1.0, counts["global_load_requests"])
    stores = max(1.0, counts["global_store_requests"])
    load_bytes = counts["global_load_bytes"] / loads
    load_sectors = counts["global_load_sectors"] / loads
    store_sectors = counts["global_store_sectors"] / stores
    read, written = (32 * counts[f"unique_{way}_sectors"] for way in ("load", "store"))
    fetched = "different sectors read, each of which a cold L2 has to fetch"
    return [
        (m.LOADS, counts["global_load_requests"], "", m.WORDS[m.LOADS]),
        (m.LOAD_BYTES, load_bytes, "byte", "bytes per request of a warp"),
        (m.LOAD_SECTORS, load_sectors, "sector", m.WORDS[m.LOAD_SECTORS]),
        (m.STORE_SECTORS, store_sectors, "sector", m.WORDS[m.STORE_SECTORS]),
        (m.DRAM_READ, read, "byte", fetched),
        (m.DRAM_WRITE, written, "byte", "different sectors written"),
    ]


def _on_chip_rows(counts: Mapping[str, float]) -> list[_Row]:
    """Shared memory, constants, barriers, and local memory where there is any."""
    wavefronts = counts["shared_wavefronts"]
    each = wavefronts / max(1.0, counts["shared_requests"])
    local = ((m.LOCAL_LOADS, "local_load_sectors"), (m.LOCAL_STORES, "local_store_sectors"))
    return [
        (m.SHARED_WAVEFRONTS, wavefronts, "", m.WORDS[m.SHARED_WAVEFRONTS]),
        (m.SHARED_WAVEFRONTS_EACH, each, "", "1 means no bank conflicts"),
        *_constant_words(counts),
        ("barriers", counts["barriers"], "", "block barriers, counted once per warp"),
        *(
            (name, counts[counter], "sector", m.WORDS[name])
            for name, counter in local
            if counts.get(counter)
        ),
    ]
