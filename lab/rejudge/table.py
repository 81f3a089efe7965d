"""The table of a set that was judged again: a row for each pair, as values and as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from astra_chat.tools.types import candidate_id
from astra_chat.tools.walled.findings import FINDINGS, KINDS
from astra_chat.tools.walled.processes import Judging
from lab.rejudge.published import PublishedPair
from lab.result_tables import table_row

TRUST = "untrusted process: a weaker level than plans"
"""What every verdict says of its evidence."""
REFUSED = KINDS[: KINDS.index("mistake")]
NOT_JUDGED = "not judged"
LAST = "timing", "calls of other shapes"
"""How steps of tools/walled/inside/ours.py begin that come when a candidate's results are judged:
where one did not end, the row keeps what was measured, and says what is missing."""
OVER = {
    "eager": "candidate",
    "compile": "candidate",
    "eager graph": "candidate graph",
    "compile graph": "candidate graph",
}
"""What of the candidate is compared with each baseline."""


def row(pair: PublishedPair, found: Mapping[str, Any], how: Judging) -> dict[str, Any]:
    """The verdict on one pair, with its evidence."""
    times = found.get("times_us", {})
    findings = [
        {
            "name": name,
            "kind": FINDINGS[name][0],
            "text": f"{FINDINGS[name][1]}: {text}".rstrip(": "),
        }
        for name, text in found.get("findings", ())
        if name != "ended" or "unfinished" not in found
    ]
    findings.sort(key=_gravity(findings))
    outcome = "correct"
    reason = findings[0]["text"] if findings else "nothing found"
    unfinished = found.get("unfinished", "")
    if pair.left_out or ("problem" in found and not unfinished):
        outcome = NOT_JUDGED
        reason = pair.left_out or f"the problem itself: {found['problem']}"
    elif findings and findings[0]["kind"] in (*REFUSED, NOT_JUDGED):
        outcome = findings[0]["kind"]
    elif unfinished and not unfinished.startswith(LAST):
        outcome, reason = NOT_JUDGED, unfinished
    return {
        "name": pair.name,
        "candidate": candidate_id(pair.candidate),
        "trust": TRUST,
        "device": how.device,
        "outcome": outcome,
        "reason": reason,
        "builds": None if outcome == NOT_JUDGED else outcome != "not built",
        "kernels": found.get("kernels", []),
        "grades": found.get("grades", {}),
        "findings": findings,
        "times_us": times,
        "times_faster": faster(times),
        "claim": pair.claim,
        "notes": [*pair.notes, *found.get("notes", []), *([unfinished] if unfinished else ())],
    }


def faster(times_us: Mapping[str, float]) -> dict[str, float]:
    """Times faster than each baseline, where both were timed: calls than calls, graphs than
    graphs."""
    return {
        base: times_us[base] / times_us[mine]
        for base, mine in OVER.items()
        if base in times_us and times_us.get(mine)
    }


def _gravity(findings: Sequence[Mapping[str, Any]]) -> Callable[[Mapping[str, Any]], int]:
    """The order of these findings. An operator of the library's that works in place is no kernel,
    rather than a wrong one: its results are right."""
    library = any(one["kind"] == "no kernel" for one in findings)
    later = "mutates_inputs" if library else ""
    return lambda one: KINDS.index("mistake" if one["name"] == later else one["kind"])


def document(rows: Sequence[Mapping[str, Any]], how: Judging) -> str:
    """Markdown: what was judged and how, the counts, and a line for each pair."""
    return "\n".join(_lines(rows, how)) + "\n"


def _lines(rows: Sequence[Mapping[str, Any]], how: Judging) -> Iterator[str]:
    counts = Counter(one["outcome"] for one in rows)
    yield f"{len(rows)} pairs on `{how.device}`, seed {how.seed}. Trust: {TRUST}."
    yield "; ".join(f"{count} {name}" for name, count in counts.most_common()) + "."
    yield ""
    grades = ("set", "values", "shapes", "weights")
    heads = [
        "pair",
        "outcome",
        "own kernel",
        "builds",
        *grades,
        *OVER,
        "its claim",
        "reason",
    ]
    yield table_row(*heads)
    yield table_row(*["---"] * len(heads))
    for one in rows:
        claim = ", ".join(f"{k} {v:.2f}" for k, v in one["claim"].items() if k != "source")
        faster = one["times_faster"]
        yield table_row(
            one["name"],
            one["outcome"],
            "yes" if one["kernels"] else "no",
            {True: "yes", False: "no", None: ""}[one["builds"]],
            *(one["grades"].get(kind, "not tried") for kind in grades),
            *(f"{faster[base]:.2f}" if base in faster else "" for base in OVER),
            claim,
            one["reason"].replace("|", "/"),
        )
