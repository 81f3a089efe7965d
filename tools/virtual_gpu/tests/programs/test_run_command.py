"""`run` for continuous integration: exit codes, suppressions, JSON and SARIF."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from astra_vgpu.__main__ import main

PROGRAM = Path(__file__).with_name("faulty.cu")
TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
SARIF: dict[str, Any] = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {"type": "array", "items": {
            "type": "object",
            "required": ["tool"],
            "properties": {
                "tool": {"type": "object", "required": ["driver"], "properties": {"driver": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {"name": {"type": "string"}, "rules": {
                        "type": "array", "uniqueItems": True, "items": {
                            "type": "object", "required": ["id"], "additionalProperties": False,
                            "properties": {"id": {"type": "string"}, "shortDescription": TEXT},
                        },
                    }},
                    "additionalProperties": False,
                }}},
                "invocations": {"type": "array", "items": {
                    "type": "object",
                    "required": ["executionSuccessful"],
                    "properties": {
                        "executionSuccessful": {"type": "boolean"},
                        "exitCode": {"type": "integer"},
                        "toolExecutionNotifications": {"type": "array", "items": {
                            "type": "object", "required": ["message"],
                            "properties": {"message": TEXT, "level": LEVEL},
                        }},
                    },
                    "additionalProperties": False,
                }},
                "results": {"type": "array", "items": {
                    "type": "object",
                    "required": ["message"],
                    "properties": {
                        "ruleId": {"type": "string"},
                        "ruleIndex": {"type": "integer", "minimum": -1},
                        "level": LEVEL,
                        "message": TEXT,
                        "locations": {"type": "array", "items": {
                            "type": "object",
                            "properties": {
                                "physicalLocation": {"type": "object", "properties": {
                                    "artifactLocation": {"type": "object", "properties": {
                                        "uri": {"type": "string", "format": "uri-reference"}}},
                                    "region": {"type": "object", "properties": {
                                        "startLine": {"type": "integer", "minimum": 1}}},
                                }},
                                "logicalLocations": {"type": "array", "items": {
                                    "type": "object", "properties": {
                                        "name": {"type": "string"},
                                        "fullyQualifiedName": {"type": "string"},
                                        "kind": {"type": "string"}},
                                }},
                            },
                            "additionalProperties": False,
                        }},
                        "suppressions": {"type": "array", "items": {
                            "type": "object", "required": ["kind"],
                            "properties": {"kind": {"enum": ["inSource", "external"]}},
                        }},
                    },
                    "additionalProperties": False,
                }},
            },
            "additionalProperties": False,
        }},
    },
    "additionalProperties": False,
}  # fmt: skip
"""What is used here of OASIS' schema of SARIF 2.1.0; nothing else may be there."""


def line(bug: str) -> int:
    lines = PROGRAM.read_text().splitlines()
    return next(n for n, text in enumerate(lines, 1) if text.endswith(f"// BUG {bug}"))


def run(folder: Path, *options: str, suppressions: str = "") -> tuple[int, Any, Any]:
    """Exit code, JSON and SARIF."""
    if suppressions:
        (folder / "accepted.toml").write_text(suppressions)
        options = (*options, "--suppressions", str(folder / "accepted.toml"))
    json_file, sarif = folder / "report.json", folder / "report.sarif"
    code = main(["run", str(PROGRAM), "--json", str(json_file), "--sarif", str(sarif), *options])
    return code, json.loads(json_file.read_text()), json.loads(sarif.read_text())


@pytest.mark.second_tier
def test_a_fault_in_a_header_has_its_path_and_the_calls_that_led_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "include/row.cuh": "__device__ inline void put(int* to) {\n  to[threadIdx.x + 1] = 1;\n}\n",
        "src/app.cu": '#include "row.cuh"\n__global__ void k(int* to) { put(to); }\n'
        "int main() { int* to; cudaMalloc(&to, 128); k<<<1, 32>>>(to); }\n",
    }.items():
        Path(name).parent.mkdir()
        Path(name).write_text(text)
    assert main(["run", "src/app.cu", "-Iinclude", "--sarif", "out.sarif"]) == 1
    (result,) = json.loads(Path("out.sarif").read_text())["runs"][0]["results"][:1]
    assert "row.cuh:2, inlined at app.cu:2, block" in result["message"]["text"]
    (place,) = (location["physicalLocation"] for location in result["locations"])
    assert place["artifactLocation"] == {"uri": "include/row.cuh"}
    assert place["region"] == {"startLine": 2}


@pytest.mark.second_tier
def test_all_findings_with_their_places(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, report, sarif = run(tmp_path, "--keep-going")
    found = {(f["level"], f["finding"], f["line"]) for f in report["findings"]}
    assert found == {
        ("warning", "uninitialized_read", line("uninitialized")),
        ("error", "out_of_bounds", line("beyond")),
        ("error", "out_of_bounds", line("null")),
    }
    assert len(report["findings"]) == 3
    assert (code, report["exit_code"], report["program"]["exit_code"]) == (1, 1, 0)
    out, err = capfd.readouterr()
    assert out == "done\n"
    assert err.splitlines()[-1].endswith("2 errors, 1 warning; the program's exit code 0")
    jsonschema.validate(sarif, SARIF)
    (results,) = [run["results"] for run in sarif["runs"]]
    (beyond,) = [r for r in results if "cudaMalloc number 1" in r["message"]["text"]]
    (location,) = beyond["locations"]
    assert location["logicalLocations"][0]["name"] == "space::past_the_end"
    physical = location["physicalLocation"]
    assert physical["region"] == {"startLine": line("beyond")}
    assert Path(physical["artifactLocation"]["uri"]).absolute() == PROGRAM


@pytest.mark.second_tier
def test_without_keep_going_the_first_fault_ends_it(tmp_path: Path) -> None:
    code, report, _ = run(tmp_path)
    assert code == 1
    assert [f["line"] for f in report["findings"] if f["level"] == "error"] == [line("beyond")]


@pytest.mark.second_tier
def test_suppressed_findings_do_not_fail_and_unused_suppressions_are_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    accepted = (
        '[[suppress]]\nkernel = "space::*"\nfinding = "out_of_bounds"\nreason = "known"\n'
        f'[[suppress]]\nplace = "faulty.cu:{line("null")}"\n'
    )
    unused = '[[suppress]]\nfinding = "leak"\n'
    code, report, sarif = run(tmp_path, "--keep-going", suppressions=accepted + unused)
    assert code == 0 and report["unused_suppressions"] == ["finding = 'leak'"]
    assert [f["suppressed"] for f in report["findings"]] == [False, True, True]
    assert len([r for r in sarif["runs"][0]["results"] if "suppressions" in r]) == 2
    jsonschema.validate(sarif, SARIF)
    err = capfd.readouterr().err
    assert "unused suppression: finding = 'leak'" in err
    assert "no fault found, 1 warning, 2 suppressed findings" in err
    code, _, _ = run(tmp_path, "--keep-going", "--warnings-as-errors", suppressions=accepted)
    assert code == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("suppress = 3", "only [[suppress]] tables"),
        ("[[suppress]]\nreason = 'x'", "number 1 needs one of finding, kernel, place"),
        ("[[suppress]]\nkernel = 'k'\nline = 3", "no key 'line'"),
        ("[[suppress]]\nkernel = 3", "kernel is not a string"),
        ("[[", "accepted.toml: "),
    ],
)
def test_a_bad_file_of_suppressions_is_one_line(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "accepted.toml"
    file.write_text(text)
    assert main(["run", str(PROGRAM), "--suppressions", str(file)]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


@pytest.mark.second_tier
def test_what_is_refused_is_no_finding(tmp_path: Path) -> None:
    source = tmp_path / "lacking.cu"
    source.write_text("int main() { cudaArray_t a; return cudaFreeArray(a); }")
    sarif = tmp_path / "report.sarif"
    assert main(["run", str(source), "--sarif", str(sarif)]) == 3
    content = json.loads(sarif.read_text())
    jsonschema.validate(content, SARIF)
    (invocation,) = content["runs"][0]["invocations"]
    assert "cudaFreeArray" in invocation["toolExecutionNotifications"][0]["message"]["text"]
    assert content["runs"][0]["results"] == [] and not invocation["executionSuccessful"]
