"""What a gate found, in the formats that CI systems read: JUnit's XML, and SARIF."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

from astra_chat.judging.gate import GateReport
from astra_chat.tools.descriptions import describe
from astra_chat.tools.text import plain
from astra_chat.tools.timing.regression import ALL_CASES
from astra_chat.tools.types import Refused, Timed
from astra_chat.version import __version__

SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
RULES = {
    "not-correct": "The kernel is not correct, or could not be judged.",
    "slower": "The kernel is slower than before the change.",
}


def junit(report: GateReport, file: str) -> bytes:
    """A test for correctness, one for the mean over all cases, one for each timed case."""
    timed = report.evaluation.outcome
    names = ["correct"]
    if isinstance(timed, Timed):
        names += [ALL_CASES, *(one.case.label for one in timed.cases)]
    wrong = {loss.where: loss.words for loss in report.losses}
    if not isinstance(timed, Timed):
        wrong["correct"] = describe(timed)
    suite = ElementTree.Element(
        "testsuite",
        name=f"astra-chat gate {report.task}",
        tests=str(len(names)),
        failures=str(len(wrong)),
        errors="0",
    )
    for name in names:
        test = ElementTree.SubElement(suite, "testcase", classname=file, name=plain(name))
        if name in wrong:
            kind = "not-correct" if name == "correct" else "slower"
            first = plain(wrong[name].partition("\n")[0])
            failure = ElementTree.SubElement(test, "failure", message=first, type=kind)
            failure.text = "\n".join(plain(line) for line in wrong[name].splitlines())
    out = ElementTree.SubElement(suite, "system-out")
    out.text = plain(f"{report.verdict}: {report.why}".replace("\n", "; "))
    written: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    return written


def sarif(report: GateReport, file: str) -> bytes:
    """A result for each finding, at its line where it has one."""
    driver = {
        "name": "astra-chat gate",
        "version": __version__,
        "rules": [{"id": name, "shortDescription": {"text": text}} for name, text in RULES.items()],
    }
    run = {"tool": {"driver": driver}, "results": list(_results(report, file))}
    found = {"$schema": SARIF, "version": "2.1.0", "runs": [run]}
    return (json.dumps(found, indent=2) + "\n").encode()


def _results(report: GateReport, file: str) -> Iterator[dict[str, Any]]:
    outcome = report.evaluation.outcome
    if isinstance(outcome, Refused):
        for one in outcome.findings:
            yield _result("not-correct", one.what, file, max(1, one.line))
    elif not isinstance(outcome, Timed):
        yield _result("not-correct", describe(outcome), file, 1)
    for loss in report.losses:
        yield _result("slower", loss.words, file, 1)


def _result(rule: str, words: str, file: str, line: int) -> dict[str, Any]:
    place = {"artifactLocation": {"uri": file}, "region": {"startLine": line}}
    return {
        "ruleId": rule,
        "level": "error",
        "message": {"text": words},
        "locations": [{"physicalLocation": place}],
    }
