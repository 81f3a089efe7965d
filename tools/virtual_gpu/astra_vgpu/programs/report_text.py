"""The report of a program's run, for people."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from astra_vgpu.programs.run_program import ProgramRun
from astra_vgpu.programs.suppressions import Sorted


def describe(run: ProgramRun, gpu: str, *, profile: bool, findings: Sorted | None = None) -> str:
    """What was wrong, with `profile` a line for each kernel, and a summary line. `findings`: those
    of the run behind the suppressions."""
    found = findings or Sorted.of(run.findings, ())
    lines = [f"refused: {run.refused}"] if run.refused else []
    for finding in found.reported:
        level = "warning: " if finding.level == "warning" else ""
        lines.append(f"sanitizer: {level}{finding.message}")
    lines += [f"unused suppression: {suppression}" for suppression in found.unused]
    if run.ended:
        lines.append(f"the program was {run.ended}")
    if run.answered:
        calls = ", ".join(f"{count} {name}" for name, count in run.answered.items())
        lines.append(f"answered on the host, without an estimate: {calls}")
    total = sum(launch["estimated_us"] for launch in run.launches)
    lines += _profile(run) if profile else []
    stopped = sum(run.stopped.values())
    counts = f"{len(run.launches) + stopped} launches"
    counts += f", {stopped} of them stopped" if stopped else ""
    return "\n".join(
        [
            *lines,
            f"virtual {gpu}: {counts}, estimated {total:.1f} us,"
            f" {_verdict(found, bool(run.refused))}; the program's exit code {run.code}",
        ]
    )


def _verdict(found: Sorted, refused: bool) -> str:
    errors = sum(f.level == "error" for f in found.reported)
    counts = (
        (errors, "error"),
        (len(found.reported) - errors, "warning"),
        (len(found.suppressed), "suppressed finding"),
    )
    words = [f"{n} {word}{'s' * (n != 1)}" for n, word in counts if n]
    if not errors:
        words.insert(0, "not all of it ran" if refused else "no fault found")
    return ", ".join(words)


def _profile(run: ProgramRun) -> list[str]:
    kernels: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for launch in run.launches:
        kernels[launch["kernel"]].append(launch)
    lines = []
    for kernel, launches in kernels.items():
        longest = max(launches, key=lambda launch: float(launch["estimated_us"]))
        c = longest["counters"]
        us = sum(launch["estimated_us"] for launch in launches)
        lines += [
            f"{kernel}: {len(launches)} launches, estimated {us:.2f} us; the longest, grid"
            f" {longest['grid']} block {longest['block']}: {longest['why']}",
            f"  {sum(c['warp_instructions'].values())} warp instructions,"
            f" {c['global_load_sectors']} sectors loaded, {c['global_store_sectors']} stored,"
            f" {c['shared_wavefronts']} shared wavefronts, {c['divergent_branches']} divergent"
            f" branches, {c['barriers']} barriers" + _local(c),
            *_machine(c),
        ]
    return lines


def _machine(counters: Mapping[str, Any]) -> list[str]:
    """Line with the machine instructions by unit, the busiest first; none where the machine code is
    not known."""
    units = sorted(counters["machine_instructions"].items(), key=lambda item: -item[1])
    if not units:
        return []
    words = ", ".join(f"{count} {unit}" for unit, count in units)
    return [f"  {sum(count for _, count in units)} machine instructions: {words}"]


def _local(counters: Mapping[str, int]) -> str:
    loads, stores = counters["local_load_sectors"], counters["local_store_sectors"]
    return f", local memory: {loads} sectors loaded, {stores} stored" if loads or stores else ""
