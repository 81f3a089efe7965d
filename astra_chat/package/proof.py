"""The proof that winners run inside an engine: their kernels in the CUDA graphs that it replays.

It is made where an engine and a GPU are, by the user's own command that starts the engine with the
package on its path; and it is read by whoever packages the same winners.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import tempfile
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationError

from astra_chat.package.engine_file import Engine
from astra_chat.package.folder import Contents, StepRow, winners_document, write_plugin
from astra_chat.package.kernel_names import canonical
from astra_chat.tools.system.files import write_whole
from astra_chat.tools.types import Value
from astra_chat.tools.wording import invalid
from astra_vgpu.ground.errors import AstraError, BadInput

SCHEMA = "astra-chat/engine-proof/1"
STDERR = 2
"""The file descriptor."""


class NotProved(AstraError):
    """No proof says that an engine runs the winners: nothing is shipped to it."""

    exit_code = 1


class OperatorProof(Value):
    """One operator in the engine's processes."""

    candidate: str
    graphs: int
    """Replayed graphs that hold a kernel of it."""
    kernels: dict[str, int]
    """Launches of each of its kernels, by name, in all these graphs together."""
    took: int
    """Calls that it took, captures of graphs included: replays are no calls."""
    fell_back: dict[str, int]
    """Calls that the original took, by reason."""
    off: str = ""
    """Why it took none at all."""
    step: str = ""
    """What measured steps say of it."""
    steps: tuple[StepRow, ...] = ()
    """Steps in which it gains and others in which it loses; none: it takes every call."""


class Proof(Value):
    """What one start of an engine showed."""

    model_config = ConfigDict(serialize_by_alias=True)

    schema_name: Literal["astra-chat/engine-proof/1"] = Field(alias="schema")
    engine: Engine
    version: str
    gpu: str
    arch: str
    torch: str
    ranks: int
    command: str
    graphs: int
    operators: dict[str, OperatorProof]

    def shows(self, operator: str, candidate: str) -> bool:
        """Whether this candidate's kernels ran in a captured graph."""
        found = self.operators.get(operator)
        return found is not None and found.candidate == candidate and found.graphs > 0


def read_proof(path: Path) -> Proof:
    """A proof, or the one in a report of `astra-chat step`, without the winners that the report
    leaves out. Raises BadInput."""
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise BadInput(f"{path} is not a proof: it is not JSON") from None
    try:
        if isinstance(content, dict) and "proof" in content:
            return _StepReport.model_validate(content).shown()
        return Proof.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise BadInput(f"{path} is not a proof: {where}: {invalid(first)}") from None


class _Finding(Value):
    """What a step says of an operator."""

    model_config = ConfigDict(extra="ignore")

    finding: str
    why: str
    ships: bool


class _StepReport(Value):
    """What is read of a report of `astra-chat step`."""

    model_config = ConfigDict(extra="ignore")

    proof: Proof
    operators: dict[str, _Finding]

    def shown(self) -> Proof:
        """The proof, in which no graph counts of an operator that is left out."""
        operators = dict(self.proof.operators)
        for name, found in self.operators.items():
            if name in operators:
                text = f"{found.finding}: {found.why}"
                said = {"step": text} if found.ships else {"graphs": 0, "off": text}
                operators[name] = operators[name].model_copy(update=said)
        return self.proof.model_copy(update={"operators": operators})


def prove(contents: Contents, command: Sequence[str], out: Path, timeout_s: float) -> Proof:
    """Start an engine by its command with the package on its path, and write what its graphs hold.
    Raises BadInput where nothing was seen: the message says why."""
    with tempfile.TemporaryDirectory(prefix="astra-proof-") as name:
        folder = Path(name)
        wheel = write_plugin(contents, folder / "package")
        site, seen = folder / "site", folder / "seen"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
        ended = _run(command, site, seen, timeout_s)
        pages = [json.loads(path.read_text()) for path in sorted(seen.glob("*.json"))]
    if not pages:
        raise BadInput(f"{shlex.join(command)} did not replay any CUDA graph three times: {ended}")
    found = proof_of(pages, winners_document(contents), shlex.join(command))
    write_whole(out, (found.model_dump_json(indent=1) + "\n").encode())
    return found


def proof_of(
    pages: Sequence[Mapping[str, Any]], document: Mapping[str, Any], command: str
) -> Proof:
    """What the processes of one start saw, put together."""
    first = pages[0]
    graphs: list[dict[str, int]] = [graph for page in pages for graph in page["graphs"]]
    counts: Counter[tuple[str, str, str]] = Counter()
    for page in pages:
        for operator, what, reason, count in page["counts"]:
            counts[operator, what, reason] += count
    return Proof(
        schema=SCHEMA,
        **{key: first[key] for key in ("engine", "version", "gpu", "arch", "torch")},
        ranks=max(page["ranks"] for page in pages),
        command=command,
        graphs=len(graphs),
        operators={
            name: _operator(name, made, graphs, counts)
            for name, made in document["operators"].items()
        },
    )


def _operator(
    name: str,
    made: Mapping[str, Any],
    graphs: Sequence[Mapping[str, int]],
    counts: Mapping[tuple[str, str, str], int],
) -> OperatorProof:
    own = {canonical(kernel) for kernel in made["kernels"]}
    held = [{k: n for k, n in graph.items() if canonical(k) in own} for graph in graphs]
    kernels: Counter[str] = Counter()
    for one in held:
        kernels.update(one)
    mine = {(what, why): n for (operator, what, why), n in counts.items() if operator == name}
    return OperatorProof(
        candidate=made["candidate"],
        graphs=sum(map(bool, held)),
        kernels=dict(kernels),
        took=mine.get(("took", ""), 0),
        fell_back={why: n for (what, why), n in mine.items() if what == "fell back"},
        off=next((why for what, why in mine if what == "off"), ""),
    )


def _run(command: Sequence[str], site: Path, seen: Path, timeout_s: float) -> str:
    """Run the engine; how it ended."""
    ended = run_engine(command, [site], {"ASTRA_WINNERS_PROOF": str(seen)}, timeout_s)
    return ended if isinstance(ended, str) else f"it ended with exit code {ended}"


def run_engine(
    command: Sequence[str], paths: Sequence[Path], variables: Mapping[str, str], timeout_s: float
) -> int | str:
    """Run an engine's program, with these folders first on its Python path and its output on
    stderr. Returns its exit code, or why it has none. Raises BadInput where it cannot start."""
    found = [*map(str, paths), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(found), **variables}
    try:
        done = subprocess.run(
            command, env=env, stdout=STDERR, check=False, timeout=timeout_s or None
        )
    except subprocess.TimeoutExpired:
        return f"it did not finish within {timeout_s:g} s"
    except OSError as error:
        raise BadInput(f"cannot start {command[0]}: {error.strerror}") from None
    return done.returncode
