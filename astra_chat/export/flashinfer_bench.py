"""Runs as a data set of flashinfer-bench 0.1: a Definition for each dtype of a task, a Solution for
each candidate, a Trace for each measured case.

What its schema cannot say: an argument that is read and written (its result is `<name>_out`,
which the binding fills by a copy first), row strides (rows lie without gaps), extents such as 2*d
(an axis of its own and a constraint), value families (inputs are random), tolerances. Its traces
hold latencies, so estimates give none. `reference_latency_ms` is that of Astra's baseline, which
the trace's log says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from astra_chat.analysis.recorded_run import RecordedRun
from astra_chat.analysis.rows import CaseRow, EvaluationRow
from astra_chat.export.filters import Filter
from astra_chat.tools.build.tvm_ffi_binding import binding_source
from astra_chat.tools.task.folder import Arg, Task
from astra_chat.tools.triton.translated import cuda_source
from astra_chat.tools.types import Case, sha256_of
from astra_chat.transcript.recorded_task import task_of
from astra_vgpu.ground.errors import BadInput

ENTRY = "run"
COPY = """\
void copy(const TensorView& to, const TensorView& from) {
  const DLDevice device = from.device();
  DeviceScope scope(device.device_id);
  void* stream = TVMFFIEnvGetStream(device.device_type, device.device_id);
  int64_t bytes = (from.dtype().bits * from.dtype().lanes + 7) / 8;
  for (int32_t axis = 0; axis < from.ndim(); ++axis) bytes *= from.size(axis);
  const cudaError_t error = cudaMemcpyAsync(to.data_ptr(), from.data_ptr(), bytes,
                                            cudaMemcpyDeviceToDevice,
                                            static_cast<cudaStream_t>(stream));
  if (error != cudaSuccess) TVM_FFI_THROW(RuntimeError) << cudaGetErrorString(error);
}"""


def output_name(task: Task, name: str) -> str:
    """Returns the output's name of a written argument: names of inputs and outputs may not be the
    same."""
    both = next(arg for arg in task.args if arg.name == name).access == "readwrite"
    return f"{name}_out" if both else name


def source(task: Task) -> str:
    """C++ of the binding and of ENTRY. Raises BadInput where the task's binding cannot be made."""
    inputs = [arg.name for arg in task.args if arg.read]
    outputs = [output_name(task, arg.name) for arg in task.args if arg.written]
    scalars = [(scalar.type, scalar.name) for scalar in task.scalars]
    parameters = [
        *(f"TensorView {name}" for name in inputs),
        *(f"{'double' if kind == 'float' else 'int64_t'} {name}" for kind, name in scalars),
        *(f"TensorView {name}" for name in outputs),
    ]
    changed = [arg.name for arg in task.args if arg.access == "readwrite"]
    called = [output_name(task, arg.name) if arg.written else arg.name for arg in task.args]
    return "\n".join(
        [
            binding_source(task),
            "namespace {",
            *([COPY] if changed else []),
            f"void {ENTRY}_({', '.join(parameters)}) {{",
            *(f"  copy({output_name(task, name)}, {name});" for name in changed),
            f"  call({', '.join([*called, *(name for _, name in scalars)])});",
            "}",
            "}  // namespace",
            f"TVM_FFI_DLL_EXPORT_TYPED_FUNC({ENTRY}, {ENTRY}_);",
            "",
        ]
    )


OP_TYPE, AUTHOR = "astra", "astra-chat"
STATUS = {
    "timed": "PASSED",
    "build_failed": "COMPILE_ERROR",
    "refused": "COMPILE_ERROR",
    "wrong": "INCORRECT_NUMERICAL",
    "timed_out": "TIMEOUT",
}
"""A trace's status by the outcome's kind; RUNTIME_ERROR for kinds that are not named."""
SCALARS = {"float": "float32", "int64_t": "int64", "bool": "bool"}
Json = dict[str, Any]


def data_set(runs: Sequence[RecordedRun], wanted: Filter, license: str = "") -> dict[str, bytes]:
    """Files of the data set by their path in it. Raises BadInput for a task that the schema cannot
    say."""
    files: dict[str, bytes] = {}
    traces: dict[str, list[Json]] = {}
    for run in runs:
        arch = run.transcript.header.device.arch
        with task_of(run.transcript, None) as task:
            require_sayable(task)
            for dtype in task.dtypes:
                name = definition_name(task, dtype)
                files[f"definitions/{OP_TYPE}/{name}.json"] = _text(definition(task, dtype))
            for row in wanted.of(run.evaluations):
                for dtype in task.dtypes:
                    one = solution(task, row, dtype, license, arch)
                    path = f"solutions/{AUTHOR}/{OP_TYPE}/{one['definition']}/{one['name']}.json"
                    files[path] = _text(one)
                for trace in _traces(run, task, row):
                    traces.setdefault(trace["definition"], []).append(trace)
    for name, own in traces.items():
        lines = "".join(f"{json.dumps(trace)}\n" for trace in own)
        files[f"traces/{OP_TYPE}/{name}.jsonl"] = lines.encode()
        loads = {trace["workload"]["uuid"]: trace["workload"] for trace in own}
        bare = [{"definition": name, "workload": load} for load in loads.values()]
        text = "".join(f"{json.dumps(one)}\n" for one in bare)
        files[f"workloads/{OP_TYPE}/{name}.jsonl"] = text.encode()
    return files


def require_sayable(task: Task) -> None:
    """Raises BadInput for what would be said wrongly."""
    for arg in task.args:
        what = (
            "is a workspace"
            if arg.access == "workspace"
            else "may be absent"
            if arg.optional
            else "contains indices: all inputs of that format are random"
            if arg.index is not None
            else ""
        )
        if what:
            raise BadInput(f"{task.name}: flashinfer-bench cannot express that {arg.name} {what}")
    if len(task.variables) > 1:
        raise BadInput(f"{task.name}: several type variables are not exported to flashinfer-bench")


def definition_name(task: Task, dtype: str) -> str:
    return f"{task.name}_{dtype}"


def definition(task: Task, dtype: str) -> Json:
    """The contract and its reference for one dtype."""
    inputs: Json = {arg.name: _tensor(arg, dtype) for arg in task.args if arg.read}
    inputs |= {s.name: {"shape": None, "dtype": SCALARS[s.type]} for s in task.scalars}
    outputs = {output_name(task, arg.name): _tensor(arg, dtype) for arg in task.args if arg.written}
    extents = [extent for arg in task.args for extent in map(str, arg.shape)]
    axes = {_axis(extent): _axis_spec(extent) for extent in [*extents, *task.dims]}
    constraints = [
        f"{_axis(e)} == {e}" for e in dict.fromkeys(extents) if _axis(e) != e and not e.isdecimal()
    ]
    return {
        "name": definition_name(task, dtype),
        "op_type": OP_TYPE,
        "axes": axes,
        "inputs": inputs,
        "outputs": outputs,
        "reference": _reference(task),
        "constraints": constraints,
        "tags": [f"task:{task.id[:12]}"],
        "description": task.summary,
    }


def _tensor(arg: Arg, dtype: str) -> Json:
    named = dtype if arg.dtype[0].isupper() else arg.dtype
    return {"shape": [_axis(str(extent)) for extent in arg.shape], "dtype": named}


def _axis(extent: str) -> str:
    """The dim itself, or a name for an expression or a number."""
    return extent if extent.isidentifier() else "extent_" + re.sub(r"\W+", "_", extent).strip("_")


def _axis_spec(extent: str) -> Json:
    if extent.isdecimal():
        return {"type": "const", "value": int(extent)}
    return {"type": "var"} if extent.isidentifier() else {"type": "var", "description": extent}


def _reference(task: Task) -> str:
    """The task's reference.py, and `run` on top: float64 results in the dtype of the kernel's."""
    given = [arg.name for arg in task.args if arg.read] + [scalar.name for scalar in task.scalars]
    first = next(arg.name for arg in task.args if arg.read)
    results = ", ".join(
        f'found["{arg.name}"].to({arg.name if arg.read else first}.dtype)'
        for arg in task.args
        if arg.written
    )
    passed = ", ".join(f'"{name}": {name}' for name in given)
    if not task.reference_text:
        raise BadInput(f"{task.name} has no reference.py, which a Definition needs")
    return (
        f"{task.reference_text}\n\ndef run({', '.join(given)}):\n"
        f"    found = reference({{{passed}}})\n    return {results}\n"
    )


def solution(task: Task, row: EvaluationRow, dtype: str, license: str, arch: str) -> Json:
    """A candidate: its source, of a Triton candidate its CUDA text for `arch`; the task's headers
    and the binding. Raises BadInput for a Triton candidate without such a text, and
    MissingDependency without Triton."""
    text = cuda_source(row.source, task, arch)
    sources = {"kernel.cu": text, "binding.cpp": source(task), **task.header_texts()}
    made = "" if text == row.source else f"made by Triton for {arch}; "
    provenance = f"run {row.run}, round {row.round}, {row.role or 'baseline'}, Astra {row.astra}"
    return {
        "name": f"{task.name}_{row.candidate}_{dtype}",
        "definition": definition_name(task, dtype),
        "author": AUTHOR,
        "spec": {
            "language": "cuda",
            "target_hardware": ["cuda"],
            "binding": "tvm-ffi",
            "entry_point": f"binding.cpp::{ENTRY}",
            "destination_passing_style": True,
        },
        "sources": [{"path": path, "content": text} for path, text in sources.items()],
        "description": f"{row.plan_title or 'the baseline'} ({made}{provenance};"
        f" nvcc flags {' '.join(task.flags)}; licence {license or 'not stated'})",
    }


def _traces(run: RecordedRun, task: Task, row: EvaluationRow) -> Iterator[Json]:
    """Yields the traces of an evaluation on a real GPU: of a measured one, a trace for each case;
    of one that failed, a trace of the first timed case's shape."""
    if row.device_kind != "cuda":
        return
    for case in row.cases:
        yield _trace(run, task, row, Case.model_validate_json(case.case), case)
    if not row.cases:
        yield _trace(run, task, row, task.bench[0][0], None)


def _trace(
    run: RecordedRun, task: Task, row: EvaluationRow, case: Case, timed: CaseRow | None
) -> Json:
    axes = {
        _axis(str(extent)): arg.shape_of(case)[place]
        for arg in task.args
        for place, extent in enumerate(arg.shape)
        if not str(extent).isdecimal()
    }
    inputs: Json = {arg.name: {"type": "random"} for arg in task.args if arg.read}
    inputs |= {s.name: {"type": "scalar", "value": s.value_in(case)} for s in task.scalars}
    found: Json = {
        "status": STATUS.get(row.outcome, "RUNTIME_ERROR"),
        "timestamp": row.started,
        "environment": {
            "hardware": row.device.replace(" ", "_"),
            "libs": dict(run.transcript.header.versions),
        },
        "log": f"{row.reason}; the latency given for the reference is that of Astra's baseline",
    }
    if timed is not None or row.outcome == "wrong":
        found["correctness"] = {
            "max_relative_error": "NaN",
            "max_absolute_error": "NaN",
            "extra": {"share_of_tolerance": row.worst_error, "error_ratio": row.error_ratio},
        }
    if timed is not None:
        found["performance"] = {
            "latency_ms": timed.median_us / 1e3,
            "reference_latency_ms": timed.baseline_us / 1e3,
            "speedup_factor": timed.ratio,
        }
    return {
        "definition": definition_name(task, case.dtype),
        "workload": {"axes": axes, "inputs": inputs, "uuid": _uuid(task, case)},
        "solution": f"{task.name}_{row.candidate}_{case.dtype}",
        "evaluation": found,
    }


def _uuid(task: Task, case: Case) -> str:
    """Returns a workload's id: the same for the same call of the same task, whatever its seed."""
    text = case.model_copy(update={"seed": 0}).model_dump_json()
    return sha256_of(f"{task.id}\0{text}")[:32]


def _text(document: Json) -> bytes:
    return (json.dumps(document, indent=2) + "\n").encode()
