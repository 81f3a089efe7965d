"""A new kernel beside the old one: may the change go in? One rule for the command line, Python and
a CI job."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Unpack
from xml.etree import ElementTree

from pydantic import ConfigDict, Field

from astra_chat.judging.evaluating import open_judge
from astra_chat.options import JudgeOptions
from astra_chat.tools.descriptions import describe
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.progress import Progress
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import TRANSCRIPTS, find_task
from astra_chat.tools.task.tiers import TIER_FILES
from astra_chat.tools.text import plain
from astra_chat.tools.timing.regression import ALL_CASES, Loss, losses
from astra_chat.tools.types import Refused, Timed, Value, sha256_of
from astra_chat.version import __version__
from astra_vgpu.ground.errors import BadInput

TIER = "sglang"


class GateReport(Value):
    """What a gate found."""

    model_config = ConfigDict(serialize_by_alias=True)

    schema_name: Literal["astra-chat/gate/1"] = Field("astra-chat/gate/1", alias="schema")
    task: str
    passed: bool
    verdict: Literal["faster", "no difference", "slower", "failed"]
    """failed: it is not correct, or could not be judged."""
    why: str
    losses: tuple[Loss, ...]
    """Where it is slower; after a second measurement, where both say so."""
    evaluation: Evaluation
    """The first evaluation of the new kernel, with the old one as its baseline."""


def gate(
    task: str | Path,
    old: str,
    new: str,
    on_progress: Callable[[Progress], None] = lambda _: None,
    **options: Unpack[JudgeOptions],
) -> GateReport:
    """Judge the source `new` with the source `old` as its baseline.

    On the virtual GPU nothing is left to chance: without a seed, one of both texts is taken. Raises
    BadInput, for an old kernel too that is not correct, and MissingDependency.
    """
    options["baseline"] = TIER
    device = pick_device(options.get("device", "auto"), options.get("gpu"))
    if device.kind == "virtual" and not options.get("seed"):
        options["seed"] = sha256_of(f"{old}\0{new}")[:32]
    with (
        _with_baseline(task, old) as folder,
        _named_as_the_user_does(folder.name),
        open_judge(folder, on_progress=on_progress, **options) as judge,
    ):
        first = judge.evaluate(new)
        found = losses(first, lambda: judge.evaluate(new, fresh_seeds=True))
        name = judge.task.name
    return _report(name, first, found)


def _report(task: str, first: Evaluation, found: tuple[Loss, ...]) -> GateReport:
    timed = first.outcome
    if not isinstance(timed, Timed):
        verdict, why = "failed", describe(timed)
    elif found:
        verdict, why = "slower", "; ".join(loss.words for loss in found)
    else:
        verdict = "faster" if timed.verdict == "accepted" else "no difference"
        why = f"{timed.basis} {timed.ratio:.3f}x the old kernel's speed: {timed.why}"
    return GateReport(
        schema="astra-chat/gate/1",
        task=task,
        passed=verdict in ("faster", "no difference"),
        verdict=verdict,
        why=why,
        losses=found,
        evaluation=first,
    )


@contextmanager
def _with_baseline(task: str | Path, old: str) -> Iterator[Path]:
    """A copy of the task's folder whose baseline is another kernel."""
    folder = find_task(str(task)).folder
    with tempfile.TemporaryDirectory(prefix="astra-gate-") as name:
        copy = Path(name) / folder.name
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(*TRANSCRIPTS, "__pycache__"))
        (copy / TIER_FILES[TIER]).write_text(old)
        yield copy


@contextmanager
def _named_as_the_user_does(task: str) -> Iterator[None]:
    """What is off with the baseline is off with the old kernel."""
    try:
        yield
    except BadInput as error:
        said = re.sub(
            rf"the ({TIER} )?baseline of {re.escape(task)}\b", "the old kernel", str(error)
        )
        raise BadInput(said) from None


# What a gate found, in the formats that CI systems read: JUnit's XML, and SARIF.

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
