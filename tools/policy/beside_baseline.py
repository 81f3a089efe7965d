"""What a candidate may contain: what any candidate may, and some of what its baseline has.

The file of a task with a [binding] is compiled unmodified and trusted as the task is: it is held to
the walls of the recorder and to launch plans. A candidate starts from it, so only what differs is
held to the policy. Of any other task's baseline, a candidate may keep the tests of macros that are
another platform's, and the functions that it exports beside the launcher.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from astra_chat.tools.build.extension_headers import HEADERS
from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.cpp_tokens import Code, tokens
from astra_chat.tools.policy import binary_audit, rules, source_guard
from astra_chat.tools.policy.misnamed import misnamed
from astra_chat.tools.policy.open_names import open_names
from astra_chat.tools.policy.source_guard import in_short
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Finding

_BESIDE = binary_audit.BESIDE_LAUNCHER
_FRAMEWORK = re.compile(rf"#include {HEADERS.pattern}: .*|TORCH_EXTENSION_NAME: .*")


def guard(
    source: str, task: Task, baseline: str, most_bytes: int = rules.SOURCE_BYTES
) -> tuple[Finding, ...]:
    """Findings of the source guard."""
    headers = task.header_texts()
    if task.binding is None:
        found = source_guard.all_findings(source, task.entry, headers, most_bytes)
        kept = {finding.what for finding in open_names(Code(tokens(baseline)), headers)}
        return in_short(finding for finding in found if finding.what not in kept)
    if source == baseline:
        return ()
    if missing := misnamed(task, source):
        return (Finding(line=1, what=missing),)
    own, known = (
        source_guard.all_findings(text, task.entry, headers) for text in (source, baseline)
    )
    return _new(own, known)


def audit(build: Build, task: Task, source: str, baseline: Build) -> tuple[Finding, ...]:
    """Findings of the audit of the built object."""
    most = max(binary_audit.PTX_BYTES, 2 * baseline.ptx.stat().st_size)
    own = binary_audit.all_findings(build, task, source, most)
    beside = any(_BESIDE in finding.what for finding in own)
    known = (
        binary_audit.all_findings(baseline, task, baseline.source, most)
        if beside or task.binding
        else []
    )
    if task.binding:
        return _new(own, known)
    kept = {finding.what for finding in known if _BESIDE in finding.what}
    return in_short(finding for finding in own if finding.what not in kept)


def _new(findings: Iterable[Finding], known: Iterable[Finding]) -> tuple[Finding, ...]:
    said = {finding.what for finding in known}
    return in_short(f for f in findings if f.what not in said and not _FRAMEWORK.fullmatch(f.what))
