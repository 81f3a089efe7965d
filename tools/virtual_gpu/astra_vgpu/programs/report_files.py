"""The report of a program's run for machines: JSON, and SARIF 2.1.0 for code hosts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from astra_vgpu.ground.errors import BadInput
from astra_vgpu.programs.findings import Finding
from astra_vgpu.programs.run_program import ProgramRun
from astra_vgpu.programs.suppressions import Sorted

FORMAT = 1
TOOL = "astra-vgpu"
SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)


def as_json(
    run: ProgramRun, gpu: str, found: Sorted, exit_code: int, folders: Sequence[Path]
) -> dict[str, Any]:
    """folders: where sources may lie that are no longer where they were built."""
    kernels: dict[str, dict[str, Any]] = {}
    for launch in run.launches:
        row = kernels.setdefault(launch["kernel"], _no_launch())
        row["launches"] += 1
        row["estimated_us"] += launch["estimated_us"]
    for kernel, stopped in run.stopped.items():
        row = kernels.setdefault(kernel, _no_launch())
        row["launches"] += stopped
        row["stopped"] = stopped
    return {
        "format": FORMAT,
        "gpu": gpu,
        "exit_code": exit_code,
        "program": {"exit_code": run.code, "ended": run.ended},
        "refused": run.refused,
        "findings": [
            *(_row(f, folders, suppressed=False) for f in found.reported),
            *(_row(f, folders, suppressed=True) for f in found.suppressed),
        ],
        "unused_suppressions": [str(s) for s in found.unused],
        "answered_on_host": dict(run.answered),
        "kernels": [{"kernel": name, **row} for name, row in kernels.items()],
    }


def _no_launch() -> dict[str, Any]:
    return {"launches": 0, "stopped": 0, "estimated_us": 0.0}


def _row(finding: Finding, folders: Sequence[Path], *, suppressed: bool) -> dict[str, Any]:
    return {
        "level": finding.level,
        "finding": finding.kind,
        "message": finding.message,
        "kernel": finding.kernel,
        "file": path_of(finding, folders),
        "line": finding.line,
        "suppressed": suppressed,
    }


def as_sarif(run: ProgramRun, found: Sorted, folders: Sequence[Path]) -> dict[str, Any]:
    """One run of one tool; what the virtual GPU lacks is a notification, not a result."""
    kinds = sorted({f.kind for f in (*found.reported, *found.suppressed)})
    invocation: dict[str, Any] = {
        "executionSuccessful": not run.refused and not run.ended,
        "exitCode": run.code,
    }
    if run.refused:
        invocation["toolExecutionNotifications"] = [
            {"level": "error", "message": {"text": run.refused}}
        ]
    rules = [{"id": kind, "shortDescription": {"text": kind.replace("_", " ")}} for kind in kinds]
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": TOOL, "rules": rules}},
                "invocations": [invocation],
                "results": [
                    *(_result(f, kinds, folders) for f in found.reported),
                    *(
                        {**_result(f, kinds, folders), "suppressions": [{"kind": "external"}]}
                        for f in found.suppressed
                    ),
                ],
            }
        ],
    }


def _result(finding: Finding, kinds: list[str], folders: Sequence[Path]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.kind,
        "ruleIndex": kinds.index(finding.kind),
        "level": finding.level,
        "message": {"text": finding.message},
    }
    location: dict[str, Any] = {}
    if finding.line:
        location["physicalLocation"] = {
            "artifactLocation": {"uri": path_of(finding, folders)},
            "region": {"startLine": finding.line},
        }
    if finding.kernel:
        name = {"name": finding.kernel_name, "fullyQualifiedName": finding.kernel}
        location["logicalLocations"] = [{**name, "kind": "function"}]
    return {**result, "locations": [location]} if location else result


def path_of(finding: Finding, folders: Sequence[Path]) -> str:
    """The finding's file from the working folder on, where it lies under it."""
    paths = [Path(finding.path)] if finding.path else []
    paths += [(folder / finding.file).absolute() for folder in folders if finding.file]
    for path in paths:
        if path.is_file():
            inside = path.is_relative_to(Path.cwd())
            return (path.relative_to(Path.cwd()) if inside else path).as_posix()
    return finding.file


def write_report(path: Path, content: dict[str, Any]) -> None:
    """Raises BadInput where it cannot be written."""
    try:
        path.write_text(json.dumps(content, indent=2) + "\n")
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}") from None
