"""Runs attacks and honest kernels through the judge's gates, each gate by itself.

`python tests/attacks/suite.py` writes docs/research/attacks.md from attacks.toml,
limits.md and what was recorded; `--record virtual` (or cuda) runs everything first, or what
`--only` names, of which several GPUs may each do a part at once. `--record sanitizers` runs the
honest kernels through what a winner has to pass before it is confirmed: its launcher beside its
plans, Compute Sanitizer, the virtual GPU's sanitizer.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import lzma
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.system.files import write_whole
from astra_chat.tools.types import Device
from lab.attack_kernels import kernels
from lab.commands import one_line_errors
from lab.judging_processes import judging_processes
from tests.attacks.bench import (
    CLEAN,
    HERE,
    Attack,
    Bench,
    attacks,
    caught,
    honest,
    honest_words,
    outcome_words,
    task_of,
)

DOCUMENT = HERE.parents[1] / "docs" / "research" / "attacks.md"
A_SHARE = 12
"""Most honest kernels, and most gates of attacks, for which a process prepares its task once."""
LIMITS, RECORD = (HERE / name for name in ("limits.md", "recorded.json.xz"))


def record(kind: str, workers: int, only: str = "") -> None:
    """Run attacks and honest kernels, those whose id or file matches `only`; keep what was seen.

    Several processes at once, each with some of a task; those that are timed last and fewer at
    once, as the GPU lock lets one of them measure at a time, and those that end by a time limit one
    by one.
    """
    if not only:
        device = pick_device(kind)
        _keep(device, said={"device": device.name, "attacks": {}, "honest": {}})
    wanted = [a for a in attacks() if re.fullmatch(only or ".*", a.id)]
    right = [pair for pair in honest() if re.fullmatch(only or ".*", pair[1])]
    todo = [(a, g) for a in wanted for g in a.gates_on(kind) if a.runs_on(kind)]
    endless = [(a, g) for a, g in todo if a.endless]
    late = [(a, g) for a, g in todo if not a.endless and g in ("time", "confirm")]
    early = [pair for pair in todo if pair not in [*late, *endless]]
    rounds = ((workers, right, early), (max(1, workers // 4), [], late), (1, [], endless))
    for processes, files, pairs in rounds:
        shares = list(_shares(files, pairs))
        if shares:
            with judging_processes(processes) as pool:
                list(pool.map(_record_share, repeat(kind), shares))


@dataclass(frozen=True)
class _Share:
    """What one process runs of a task, one after the other."""

    task: str
    files: tuple[str, ...]
    """Files of honest kernels."""
    gates: tuple[tuple[Attack, str], ...]


def _shares(
    right: Sequence[tuple[str, str]], todo: Sequence[tuple[Attack, str]]
) -> Iterator[_Share]:
    """Tasks, those with much to do in several shares."""
    for task in sorted({task for task, _ in right} | {attack.task for attack, _ in todo}):
        files = tuple(file for of, file in right if of == task)
        gates = tuple(pair for pair in todo if pair[0].task == task)
        for at in range(0, max(len(files), len(gates)), A_SHARE):
            yield _Share(task, files[at : at + A_SHARE], gates[at : at + A_SHARE])


def _record_share(kind: str, share: _Share) -> None:
    with Bench(task_of(share.task), pick_device(kind)) as bench:
        sources = [attack.source for attack, _ in share.gates if not attack.endless]
        bench.prepare([*sources, *(kernels("honest")[file] for file in share.files)])
        for file in share.files:
            _note_honest(bench, file)
        for attack, gate in share.gates:
            _note(bench, attack, gate)


def record_sanitizers(workers: int, only: str = "") -> None:
    """What honest kernels would have to pass as winners, those whose file matches `only`."""
    right = [pair for pair in honest() if re.fullmatch(only or ".*", pair[1])]
    with judging_processes(workers) as pool:
        list(pool.map(_sanitize_share, _shares(right, [])))


def _sanitize_share(share: _Share) -> None:
    with Bench(task_of(share.task), pick_device("cuda")) as bench:
        bench.prepare([kernels("honest")[file] for file in share.files])
        for file in share.files:
            said = outcome_words(bench.confirmable(kernels("honest")[file]))
            _keep(bench.device, "sanitized", file, said=said[:400])
            _say(f"{file} {said}")


def _note(bench: Bench, attack: Attack, gate: str) -> None:
    found = caught(bench, attack, gate)
    _keep(bench.device, "attacks", attack.id, gate, said=found.model_dump())
    _say(f"{attack.id} {gate} {'caught' if found.caught else f'MISSED: {found.words}'}")


def _note_honest(bench: Bench, file: str) -> None:
    said = honest_words(bench, kernels("honest")[file])
    _keep(bench.device, "honest", file, said=said)
    _say(f"{file} {said}")


def _say(line: str) -> None:
    """In one piece, beside other processes."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _keep(device: Device, *place: str, said: object) -> None:
    """At once, beside what others write: a run that is stopped leaves what it has seen."""
    folder = os.open(HERE, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        known = json.loads(lzma.decompress(RECORD.read_bytes())) if RECORD.is_file() else {}
        recorded_as = device.spec if device.kind == "cuda" else "virtual"
        known.setdefault(recorded_as, {"device": device.name, "attacks": {}, "honest": {}})
        at, last = known, recorded_as
        for name in place:
            at, last = at.setdefault(last, {}), name
        at[last] = said
        text = json.dumps(known, indent=1, sort_keys=True) + "\n"
        write_whole(RECORD, lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    finally:
        os.close(folder)


def document() -> str:
    """docs/research/attacks.md."""
    known = json.loads(lzma.decompress(RECORD.read_bytes()))
    on = sorted(known, key=lambda name: (name != "virtual", name != "h200", name))
    lines = [
        "# Attacks",
        "",
        "This page lists ways to look fast without being fast, and the judge's step that catches"
        " each. T, S and H come from published catalogues (timing, semantics, harness); X are our"
        " own."
        " `python tests/attacks/suite.py` writes this page from `tests/attacks/attacks.toml` and"
        " from what `--record` recorded; a test runs the same table. Where several steps are"
        " named, each was also tried without the earlier ones.",
        "",
        *(_summary(name, known[name]) for name in on),
        "",
        "| id | attack | gates | caught on | evidence |",
        "|---|---|---|---|---|",
        *(_row(attack, on, known) for attack in attacks()),
        "",
        "The attacks that earlier versions of the judge missed, and the fix for each, are in"
        " [tests/attacks/found.md](../../tests/attacks/found.md).",
        "",
        LIMITS.read_text(),
    ]
    return "\n".join(lines)


def _summary(name: str, seen: dict[str, Any]) -> str:
    gates = [s for found in seen["attacks"].values() for s in found.values()]
    whole = [all(s["caught"] for s in found.values()) for found in seen["attacks"].values()]
    states = list(seen["honest"].values())
    lacking = sum(state.startswith("unsupported") for state in states)
    good = sum(state.startswith("correct") for state in states)
    watched = list(seen.get("sanitized", {}).values())
    clean = f"; sanitizers find nothing in {watched.count(CLEAN.kind)} of {len(watched)}"
    return (
        f"- `{name}` ({seen['device']}): {sum(whole)} of {len(whole)} attacks caught"
        f" ({sum(s['caught'] for s in gates)} of {len(gates)} gates, each on its own);"
        f" {good} of {len(states) - lacking} honest kernels accepted"
        f"{f', {lacking} more need instructions that it does not support' if lacking else ''}"
        f"{clean if watched else ''}."
    )


def _row(attack: Attack, on: list[str], known: dict[str, Any]) -> str:
    if attack.test:
        return f"| {attack.id} | {attack.name} | impossible | - | `{attack.test}` |"
    tried = {name: seen for name in on if (seen := known[name]["attacks"].get(attack.id))}
    shown, gates = attack.how, dict.fromkeys((*attack.gates, *attack.cuda_gates))
    if tried and not shown:
        words = next(iter(next(iter(tried.values())).values()))["words"]
        shown = " ".join(words.replace("|", "\\|").split())
        shown = shown if len(shown) <= 70 else f"{shown[:67]}..."
    cells = (attack.id, attack.name, ", ".join(gates), _caught_on(tried, len(on)), shown)
    return f"| {' | '.join(cells)} |"


def _caught_on(tried: dict[str, Any], devices: int) -> str:
    """The devices on which all gates caught an attack; where it was not run stays out."""
    caught = [name for name, seen in tried.items() if all(s["caught"] for s in seen.values())]
    missed = [f"**missed on {name}**" for name in tried if name not in caught]
    return "all" if len(caught) == devices else ", ".join(caught + missed) or "not run"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", choices=("virtual", "cuda", "sanitizers"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="", help="pattern of ids and of honest kernels' files")
    options = parser.parse_args()
    with one_line_errors():
        if options.record == "sanitizers":
            record_sanitizers(options.workers, options.only)
        elif options.record:
            record(options.record, options.workers, options.only)
    DOCUMENT.write_text(document())


if __name__ == "__main__":
    main()
