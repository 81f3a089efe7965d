"""A changed kernel beside the old one, and what CI systems read of it."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from astra_chat.cli.main import app
from astra_chat.judging.gate import GateReport, _report, gate, junit, sarif
from astra_chat.tools.timing.regression import losses
from astra_chat.tools.types import Finding, Outcome, Refused
from astra_vgpu.ground.errors import BadInput
from tests.chat_samples import BROKEN, SCALAR, VECTOR, WRONG_OUTCOME, evaluation, timed


def report(outcome: Outcome) -> GateReport:
    judged = evaluation(VECTOR, outcome)
    return _report("doubled", judged, losses(judged, lambda: judged))


@pytest.mark.parametrize(
    ("outcome", "verdict", "failed"),
    [
        (timed(1.3), "faster", []),
        (timed(1.01, "tie"), "no difference", []),
        (timed(0.8, "slower"), "slower", ["all cases", "4x64 float32"]),
        (WRONG_OUTCOME, "failed", ["correct"]),
        (
            Refused(gate="guard", findings=(Finding(line=7, what="asm <is> refused"),)),
            "failed",
            ["correct"],
        ),
    ],
)
def test_what_was_found_is_in_both_files(outcome: Outcome, verdict: str, failed: list[str]) -> None:
    found = report(outcome)
    assert (found.verdict, found.passed) == (verdict, not failed)
    suite = ElementTree.fromstring(junit(found, "kernels/new.cu"))
    wrong = [test.get("name") for test in suite if test.find("failure") is not None]
    assert wrong == failed and suite.get("failures") == str(len(failed))
    assert len(suite.findall("testcase")) == int(suite.get("tests", ""))
    (run,) = json.loads(sarif(found, "kernels/new.cu"))["runs"]
    results = run["results"]
    assert len(results) == len(failed)
    rules = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    for one in results:
        assert one["ruleId"] in rules
        place = one["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] == "kernels/new.cu"
        assert place["region"]["startLine"] == (7 if isinstance(outcome, Refused) else 1)


@pytest.mark.second_tier
def test_the_old_kernel_is_the_baseline(task_folder: Path, tmp_path: Path) -> None:
    """From a fast kernel back to a slow one, judged on the virtual GPU: twice the same result."""
    old, new, xml = tmp_path / "old.cu", tmp_path / "new.cu", tmp_path / "gate.xml"
    old.write_text(VECTOR)
    new.write_text(SCALAR)
    words = ["gate", str(task_folder), str(old), str(new), "--device", "virtual", "--trust"]
    first = CliRunner().invoke(app, [*words, "--junit", str(xml)])
    assert first.exit_code == 1 and first.stdout.startswith("slower: all cases: estimated 0.")
    assert b'type="slower"' in xml.read_bytes()
    second = CliRunner().invoke(app, [*words, "--json"])
    again = json.loads(second.stdout)
    assert again["verdict"] == "slower" and again["losses"][0]["where"] == "all cases"
    assert f"{again['losses'][0]['ratio']:.3f}x" in first.stdout


@pytest.mark.second_tier
def test_what_is_off_with_the_old_kernel_is_said_of_it(task_folder: Path) -> None:
    with pytest.raises(BadInput, match=r"^the old kernel does not build: line \d"):
        gate(task_folder, BROKEN, VECTOR, device="virtual", trust=True)
