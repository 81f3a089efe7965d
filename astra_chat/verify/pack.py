"""Makes a bundle of a run: transcript, task, sources, machine code, launch plans, samples,
environment and licence.

Machine code and plans are made again here, without a GPU, and packed where their hash is the
recorded one. Machine code of the same nvcc with other bytes is packed apart.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from astra_chat.tools.build.nvcc import Build, build_all
from astra_chat.tools.entropy import Seed
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.plan.record import record
from astra_chat.tools.recordings.reading import read_recorded
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.trust import acting_files, require_trust
from astra_chat.tools.types import Case, Device
from astra_chat.tools.wording import counted
from astra_chat.transcript.archive import sha256_of_bytes, write_zip
from astra_chat.transcript.reader import Transcript
from astra_chat.transcript.recorded_cases import require_bounded_cases
from astra_chat.transcript.recorded_task import baseline_text, require_hashes
from astra_chat.transcript.run_folder import TRANSCRIPT
from astra_chat.verify.bundle import MANIFEST, SIGNATURE, Manifest
from astra_chat.verify.bundle_claims import samples, source_file
from astra_chat.verify.recorded import Run, opened
from astra_chat.version import __version__
from astra_vgpu.ground.gpu_specs import spec
from astra_vgpu.ground.toolkit import host_tool_versions

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

README = """\
A recorded Astra run, packed by `astra-chat pack`. To check its claims:

    pip install astra-vgpu astra-chat
    astra-chat verify {name}

transcript.jsonl   every turn and every evaluation, as JSON lines
task/              the task as it was judged
sources/           each candidate's source
cubins/            machine code, by its sha256
rebuilt/           machine code that the packer built with the same nvcc, where its bytes differ
plans/             what each launcher launches for a case, by its sha256
samples/           all samples behind each measured time
environment.json   versions, device, GPU, options
"""


def pack(
    transcript: Transcript,
    out: Path,
    *,
    key: Path | None = None,
    license: str = "",
    build: bool = True,
    trust: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> Manifest:
    """Write the bundle of a run, whole or not at all. `key`: an Ed25519 private key to sign with;
    `build`: make machine code and launch plans again; `trust`: also where they cannot be isolated;
    `tell` hears what is done.

    Raises BadInput where a text is not the one that its hash names or `out` cannot be written, and
    MissingDependency without a compiler.
    """
    require_hashes(transcript)
    signer = _signer(key) if key else None
    left_out: list[str] = []
    with opened(transcript) as run:
        members = _members(run, out.name)
        if build:
            members |= _code(run, trust, left_out, tell)
        else:
            left_out.append("machine code and launch plans: not requested")
    manifest = Manifest(
        run=transcript.records[0].run,
        astra=__version__,
        license=license,
        files={name: sha256_of_bytes(content) for name, content in sorted(members.items())},
        public_key=signer.public_key().public_bytes_raw().hex() if signer else "",
        left_out=tuple(left_out),
    )
    text = (manifest.model_dump_json(indent=1) + "\n").encode()
    members[MANIFEST] = text
    if signer is not None:
        members[SIGNATURE] = signer.sign(text)
    write_zip(out, members)
    return manifest


def _signer(path: Path) -> Ed25519PrivateKey:
    from astra_chat.verify.signature import private_key  # needs an extra

    return private_key(path)


def _members(run: Run, name: str) -> dict[str, bytes]:
    """Returns all members but machine code and plans, by name."""
    transcript = run.transcript
    whole = read_recorded(transcript.path)[: transcript.size]
    found = {
        TRANSCRIPT: whole,
        "README.md": README.format(name=name).encode(),
        "LICENSE": _license().encode(),
        "environment.json": _environment(run).encode(),
    }
    if run.task is not None:  # its files' names stay in their folder
        for file, sha in transcript.header.task.files.items():
            found[f"task/{file}"] = run.texts[sha].encode()
    for candidate, source in run.state.sources.items():
        found[source_file(candidate, source)] = source.encode()
    return found | {file: text.encode() for file, text, _ in samples(run)}


def _environment(run: Run) -> str:
    header = run.transcript.header
    gpu = next((e.evidence.gpu for _, e in run.evaluations if e.evidence and e.evidence.gpu), {})
    said = {
        "versions": header.versions,
        "device": header.device.model_dump(),
        "git": header.git.model_dump() if header.git else None,
        "gpu": gpu,
        "options": run.transcript.options.model_dump(mode="json"),
    }
    return json.dumps(said, indent=1)


def _license() -> str:
    """Returns the licence of Astra and the tasks that come with it."""
    checkout = Path(__file__).resolve().parents[2] / "LICENSE"
    if checkout.is_file():
        return checkout.read_text()
    return metadata.distribution("astra-chat").read_text("licenses/LICENSE") or "Apache-2.0\n"


def _code(
    run: Run, trust: bool, left_out: list[str], tell: Callable[[str], None]
) -> dict[str, bytes]:
    """Returns machine code and plans of everything that was launched, where they are what was
    recorded."""
    transcript, task = run.transcript, run.task
    judged = _launched(run.evaluations)
    if task is None or not judged:
        left_out.append(f"machine code and launch plans: {run.broken_task or 'none is recorded'}")
        return {}
    require_bounded_cases(transcript, task, transcript.header.device.kind, trust)
    baseline = baseline_text(transcript)
    sources = {**run.state.sources, run.evaluations[0][1].candidate: baseline}
    require_trust(trust, *acting_files(task), *sources.values())
    device = judged[0].device
    names = list(dict.fromkeys(one.candidate for one in judged))
    tell(f"building {counted(len(names) + 1, 'kernel')} again with nvcc")
    builds = build_all(task, [baseline, *(sources[name] for name in names)], device)
    built = dict(zip(["", *names], builds, strict=True))
    found: dict[str, bytes] = {}
    other: list[str] = []
    for name, one in built.items():
        hashes, plans = _wanted(judged, name)
        if not isinstance(one, Build):
            left_out.append(f"machine code of {name or 'the baseline'}: it does not build here")
            continue
        code = one.cubin.read_bytes()
        if sha256_of_bytes(code) in hashes:
            found[f"cubins/{sha256_of_bytes(code)}.cubin"] = code
        else:
            other.append(name or "the baseline")
            if _same_compiler(run):
                found[f"rebuilt/{name or 'baseline'}.cubin"] = code
        tell(f"recording what {name or 'the baseline'} launches")
        found |= {
            f"plans/{plan.sha256}.json": plan.model_dump_json().encode()
            for plan in _recorded(one, task, device, list(plans.values()))
            if plan.sha256 in plans
        }
    if other:
        left_out.append(f"machine code of {', '.join(other)}: {_other_code(run)}")
    return found


def _same_compiler(run: Run) -> bool:
    return run.transcript.header.versions.get("nvcc") == host_tool_versions().get("nvcc")


def _other_code(run: Run) -> str:
    """Why code that is built here is not the recorded one, and whether it is packed anyway."""
    then, now = run.transcript.header.versions, host_tool_versions()
    if not _same_compiler(run):
        here = now.get("nvcc", "none")
        return f"it was recorded with nvcc {then.get('nvcc', 'unknown')}, but here nvcc is {here}"
    return (
        "its bytes differ from the recorded ones although nvcc is the same, because"
        " internal names depend on the folder and on the machine's headers; the code"
        " built here is in rebuilt/"
    )


def _launched(evaluations: Sequence[tuple[int, Evaluation]]) -> list[Evaluation]:
    return [one for _, one in evaluations if one.evidence is not None]


def _wanted(judged: Sequence[Evaluation], name: str) -> tuple[set[str], dict[str, Case]]:
    """Recorded hashes of a candidate's machine code, "" for the baseline, and the cases whose plans
    are named, by the hashes of these."""
    hashes: set[str] = set()
    cases: dict[str, Case] = {}
    for one in judged:
        if one.evidence is None or name not in ("", one.candidate):
            continue
        hashes.add(one.evidence.cubin_sha256 if name else one.evidence.baseline_cubin_sha256)
        for plan in one.evidence.plans:
            cases[plan.plan_sha256 if name else plan.baseline_plan_sha256] = plan.case
    cases.pop("", None)
    return hashes - {""}, cases


def _recorded(built: Build, task: Task, device: Device, cases: list[Case]) -> list[LaunchPlan]:
    """What the launcher launches, recorded in an isolated process without a GPU."""
    if not cases:
        return []
    plans = record(built, task, cases, spec(device.spec), Seed("pack").random())
    return list(plans) if isinstance(plans, tuple) else []
