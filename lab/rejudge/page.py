"""The tables of docs/research/field.md, from rows of `python -m lab.rejudge`.

    python -m lab.rejudge.page [ROWS.jsonl...] [--into docs/research/field.md]

What is between the page's two marks is written again; without --into it is printed. A set or a
problem without a row is said to be not measured yet. Rows of `python -m lab.kernelbench`, with
"over" added by hand from `astra-chat torch` (times faster than each baseline), fill the last table.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from astra_chat.tools.walled.findings import FINDINGS
from astra_chat.tools.walled.processes import NOT_FINISHED
from astra_vgpu.ground.errors import BadInput
from lab.commands import one_line_errors
from lab.rejudge.table import NOT_JUDGED, OVER, REFUSED
from lab.result_tables import table_row

SETS = {"cuda-l1": 82, "robust-kbench": 13, "kernelbench.com": 20}
"""Candidates of each set: kernels of robust-kbench are 12, one of them in two versions."""
MARKS = "<!-- python -m lab.rejudge.page -->", "<!-- end -->"
MISSING = "not measured yet"
PROBLEMS = "1_78 1_80 1_11 1_89 1_53 1_21 2_71 2_26 2_25 2_22 3_1 3_23".split()
"""What seed 51 draws of KernelBench at 423217d: python -m lab.kernelbench."""
MOST_WORDS = 160
NO_KERNEL = f"{FINDINGS['no_kernel'][1]}: "
"""What the outcome says already."""
LATE = NOT_FINISHED, "its turn did not come"
"""What a reason says of a pair that was not judged for lack of time."""

Row = Mapping[str, Any]


def tables(rows: Iterable[Row]) -> str:
    """Markdown between the marks. Raises BadInput where a row is none of these commands'."""
    try:
        every = list(rows)
        own = {one["name"].removeprefix("kb_"): one for one in every if "file" in one}
        sets = {name: _latest(one for one in every if one.get("set") == name) for name in SETS}
        parts = [_sums(sets), _refused(sets), _every(sets), _by_astra(own)]
        return "\n\n".join("\n".join(part) for part in parts)
    except (KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"a row is none of lab.rejudge or lab.kernelbench: {error!r}") from None


def _latest(rows: Iterable[Row]) -> list[Row]:
    """A row for each pair, in the order of their names; a verdict rather than none."""
    found: dict[str, Row] = {}
    for one in sorted(rows, key=lambda one: one["outcome"] != NOT_JUDGED):
        found[one["name"]] = one
    return [found[name] for name in sorted(found)]


def _table(*rows: Sequence[str]) -> Iterator[str]:
    yield table_row(*rows[0])
    yield table_row(*["---"] * len(rows[0]))
    yield from (table_row(*one) for one in rows[1:])


def _sums(sets: Mapping[str, Sequence[Row]]) -> Iterator[str]:
    yield "### Summary"
    yield ""
    heads = ["set", "candidates", "correct", *REFUSED, NOT_JUDGED]
    heads += [f"over {base}" for base in OVER]
    lines = [heads]
    for name, rows in sets.items():
        count = Counter(one["outcome"] for one in rows)
        missing = max(0, SETS[name] - len(rows))
        judged = [str(count[kind]) for kind in ("correct", *REFUSED, NOT_JUDGED)]
        line = [name, str(SETS[name]), *(judged if rows else [MISSING] * len(judged))]
        if late := sum(_late(one) for one in rows):
            line[-1] += f" ({late} for lack of time)"
        if rows and missing:
            line[-1] += f", {missing} {MISSING}"
        lines.append([*line, *(_over(rows, base) for base in OVER)])
    yield from _table(*lines)
    yield ""
    yield "The last columns give the median ratio of correct candidates and how many are faster."


def _late(one: Row) -> bool:
    return one["outcome"] == NOT_JUDGED and any(said in one["reason"] for said in LATE)


def _over(rows: Sequence[Row], base: str) -> str:
    """The median of correct candidates that were timed, and how many are faster."""
    found = [
        one["times_faster"][base]
        for one in rows
        if one["outcome"] == "correct" and base in one["times_faster"]
    ]
    if not found:
        return MISSING
    return f"{median(found):.2f}, {sum(x > 1 for x in found)} of {len(found)}"


def _refused(sets: Mapping[str, Sequence[Row]]) -> Iterator[str]:
    yield "### Refused or not judged, and why"
    yield ""
    found = defaultdict[tuple[str, str, str], list[str]](list)
    for name, rows in sets.items():
        for one in rows:
            if one["outcome"] != "correct" and not _late(one):
                found[name, one["outcome"], _reason(one)].append(one["name"])
    lines = [(*key, str(len(names)), ", ".join(names)) for key, names in sorted(found.items())]
    yield from _table(["set", "outcome", "reason", "how many", "candidates"], *lines)
    if not any(sets.values()):
        yield table_row("all", MISSING, "", "", "")


def _reason(one: Row) -> str:
    """A row's reason without what is its own alone: names and places in its text."""
    text = one["reason"].removeprefix(NO_KERNEL)
    text, _, _ = text.partition("; operators: ")
    text = re.sub(r"\S+(?::\d+:\d+:|\(\d+\):) ", "", text)
    quoted = "\u2018[^\u2019]*\u2019"
    return _short(re.sub(quoted, "...", re.sub(f"; did you mean {quoted}.", "", text)))


def _every(sets: Mapping[str, Sequence[Row]]) -> Iterator[str]:
    yield "### Correct candidates: times faster than each baseline"
    yield ""
    lines = [["candidate", *OVER, "its authors' claim", "findings; what was not measured"]]
    for rows in sets.values():
        for one in rows:
            if one["outcome"] == "correct":
                faster, claim = one["times_faster"], one["claim"]
                said = ", ".join(f"{k} {v:g}" for k, v in claim.items() if k != "source")
                lines.append(
                    [
                        one["name"],
                        *(f"{faster[base]:.2f}" if base in faster else "" for base in OVER),
                        said,
                        "; ".join([*sorted(f["name"] for f in one["findings"]), *_lacking(one)]),
                    ]
                )
    yield from _table(*lines)
    if len(lines) == 1:
        yield table_row(MISSING, *[""] * (len(OVER) + 2))


def _lacking(one: Row) -> list[str]:
    return [_short(note) for note in one["notes"] if NOT_FINISHED in note]


def _by_astra(own: Mapping[str, Row]) -> Iterator[str]:
    yield "### KernelBench by Astra: twelve problems"
    yield ""
    timed = any("over" in one for one in own.values())
    heads = ["level, number", "task created", "tasks check"]
    lines = [[*heads, "correct", *(f"over {b}" for b in OVER)] if timed else heads]
    for problem in (one for one in PROBLEMS if one in own):
        one = own[problem]
        line = [
            problem.replace("_", ", "),
            f"{'yes' if one['comes'] else 'no'}, {one['new_s']:.0f} s",
            f"{_short(one['check'])}, {one['check_s']:.0f} s" if "check" in one else MISSING,
        ]
        if timed:
            over = one.get("over", {})
            line.append({True: "yes", False: "no"}.get(one.get("correct", ""), MISSING))
            line += [f"{over[base]:.2f}" if base in over else MISSING for base in OVER]
        lines.append(line)
    if own:
        yield from _table(*lines)
        yield ""
    lacking = [one.replace("_", ", ") for one in PROBLEMS if one not in own]
    lacking += [] if timed else ["the kernels and times of all problems"]
    yield f"{MISSING.capitalize()} (level, number): {'; '.join(lacking) or 'none'}."


def _short(text: str) -> str:
    text = text.replace("|", "/").replace("\n", " ")
    return text if len(text) <= MOST_WORDS else f"{text[:MOST_WORDS]}..."


def written(page: str, made: str) -> str:
    """The page with what is between its marks made again. Raises BadInput."""
    before, first, rest = page.partition(MARKS[0])
    _, last, after = rest.partition(MARKS[1])
    if not first or not last:
        raise BadInput(f"the page has not both marks {MARKS[0]} and {MARKS[1]}")
    return f"{before}{first}\n\n{made}\n\n{last}{after}"


@one_line_errors()
def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rows", nargs="*", type=Path)
    parser.add_argument("--into", type=Path)
    asked = parser.parse_args()
    try:
        lines = [line for path in asked.rows for line in path.read_text().splitlines() if line]
        made = tables(map(json.loads, lines))
        if asked.into:
            asked.into.write_text(written(asked.into.read_text(), made))
        else:
            print(made)
    except (OSError, ValueError) as error:
        raise BadInput(f"{error}") from None


if __name__ == "__main__":
    main()
