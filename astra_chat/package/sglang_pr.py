"""The files of a change that brings a winner into SGLang's sources: kernel, entry module, test,
benchmark, and what is to be added to existing files. What a generator cannot know stands in
PULL_REQUEST.md as a question to the author.
The entry module asks a predicate made from the contract whether a call may go to the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from astra_chat.display.notes import note
from astra_chat.package.engine_file import Upstream
from astra_chat.package.winners import Winner
from astra_chat.session.export_example import input_lines
from astra_chat.tools.build.bound_launcher import needs_launcher
from astra_chat.tools.build.tvm_ffi_binding import binding_source, dim_sources, parameter_names
from astra_chat.tools.language import is_triton
from astra_chat.tools.task.folder import Arg, Dim, Task
from astra_chat.tools.triton.translated import cuda_source
from astra_chat.tools.types import is_float
from astra_vgpu.ground.errors import BadInput
from astra_vgpu.ground.gpu_specs import spec

KERNELS = "python/sglang/kernels"
KDA = f"{KERNELS}/kda_kernels"
TESTS = "test/registered/kernels"
ARCH = spec("h200").arch
"""What Triton's machine code is made for, as the registration says."""
EXPORT = re.compile(r"^TVM_FFI_DLL_EXPORT_TYPED_FUNC\(.*\);$", re.MULTILINE)
SCALARS = {"float": "float", "int64_t": "int", "bool": "bool"}


def write_pull_request(found: Sequence[Winner], folder: Path) -> None:
    """Write the files of every winner that has a place there, and print which it is. Raises
    BadInput where none has."""
    written = []
    for winner in found:
        name = winner.task.name
        file = winner.engine_file()
        if file is None:
            continue
        if needs_launcher(winner.task, winner.source):
            note(f"{name} is left out: its file does not define the launcher; use --for files")
            continue
        if file.upstream is None:
            note(f"{name} is left out: its engine.toml names no operator of SGLang")
            continue
        for path, text in pull_request_files(winner, file.upstream).items():
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("a") as stream:
                stream.write(text)
        print(f"{name}: {winner.words}")
        written.append(name)
    if not written:
        raise BadInput("none of these winners has a place in SGLang's sources")


def pull_request_files(winner: Winner, upstream: Upstream) -> dict[str, str]:
    """Each file by its path in SGLang's repository. Text of one path from several winners is put
    one behind the other: files to add to, and the words of the pull request."""
    task, group = winner.task, upstream.group
    files = {
        f"{KDA}/csrc/{group}/{task.name}.cuh": _cuda(winner),
        f"{KDA}/{task.name}_jit.py": _entry(task, group),
        f"{TESTS}/ops/{group}/test_{task.name}_kda.py": _test(task, upstream),
        f"add/{KERNELS}/ops/{group}/__init__.py": _registration(task, upstream),
        f"add/{KDA}/README.md": _row(winner),
        "PULL_REQUEST.md": _words(winner, upstream),
    }
    if upstream.call:
        files[f"{TESTS}/benchmark/{group}/bench_{task.name}_kda.py"] = _bench(task, upstream)
    return files


def _cuda(winner: Winner) -> str:
    """The winner's source as it was judged, its checks, and the entry that load_jit exports. Raises
    MissingDependency for a Triton source where Triton is not installed."""
    task = winner.task
    binding = EXPORT.sub("", binding_source(task)).rstrip()
    text = cuda_source(winner.source, task, ARCH).rstrip()
    author = ""
    if is_triton(winner.source):
        lines = [f"// {line}".rstrip() for line in winner.source.splitlines()]
        author = "\n".join(["// Made by Triton from this source:", *lines, "", ""])
    return (
        f"// KDA provenance: candidate {winner.best.candidate} of run {winner.summary.run}, found"
        f" by Astra\n// (PULL_REQUEST.md). {task.summary}\n#pragma once\n\n"
        f"{author}{text}\n\n{binding}\n"
    )


def _class(task: Task) -> str:
    return "".join(part.capitalize() for part in task.name.split("_"))


def _parameters(task: Task) -> Iterator[tuple[str, str]]:
    """Each parameter with its type."""
    tensors = {arg.name: arg for arg in task.args}
    scalars = {one.name: SCALARS[one.type] for one in task.scalars}
    for name in parameter_names(task):
        if name in tensors:
            yield name, f"torch.Tensor{' | None' if tensors[name].optional else ''}"
        else:
            yield name, scalars.get(name, "int")


def _entry(task: Task, group: str) -> str:
    names = ", ".join(parameter_names(task))
    typed = "".join(f"    {name}: {kind},\n" for name, kind in _parameters(task))
    written = ", ".join(f'"{arg.name}"' for arg in task.args if not arg.constant)
    flags = ", ".join(f'"{one}"' for one in task.flags if "std" not in one and one != "-O3")
    return (
        f'"""{task.summary}.\n\nWritten by `astra-chat package --for sglang-pr`.\n"""\n\n'
        "from __future__ import annotations\n\nfrom typing import TYPE_CHECKING\n\nimport torch\n\n"
        "from sglang.kernels.jit.utils import cache_once, load_jit\n"
        "from sglang.kernels.kda_kernels import _cuda_source\n"
        "from sglang.srt.utils.custom_op import register_custom_op\n\n"
        "if TYPE_CHECKING:\n    from tvm_ffi.module import Module\n\n\n"
        f"@cache_once\ndef _module() -> Module:\n    return load_jit(\n"
        f'        "kda_{task.name}",\n'
        f'        cuda_files=[_cuda_source("{group}/{task.name}.cuh")],\n'
        '        cuda_wrappers=[("run", "call")],\n'
        f"        extra_cuda_cflags=[{flags}],\n    )\n\n\n"
        f"{HELPERS}\n\n{predicate(task, f'can_use_{task.name}')}\n\n"
        f'@register_custom_op(op_name="kda_{task.name}", mutates_args=[{written}])\n'
        f"def {task.name}(\n{typed}) -> None:\n"
        f'    """Raises for calls outside the contract: check can_use_{task.name} first."""\n'
        f"    _module().run({names})\n\n\n"
        f'__all__ = ["can_use_{task.name}", "{task.name}"]\n'
    )


def _registration(task: Task, upstream: Upstream) -> str:
    return (
        "\n\nfrom sglang.kernels.registry import register_kernel  # noqa: E402\n"
        "from sglang.kernels.spec import (  # noqa: E402\n"
        "    CapabilityRequirement,\n    KernelBackend,\n    KernelSpec,\n)\n\n"
        "register_kernel(\n    KernelSpec(\n"
        f'        op="{upstream.op}",\n        backend=KernelBackend.KDA,\n'
        f'        target="sglang.kernels.kda_kernels.{task.name}_jit:{task.name}",\n'
        "        capabilities=frozenset(\n"
        "            {CapabilityRequirement.cuda(min_sm=(9, 0), max_sm=(9, 0))}\n        ),\n"
        "    )\n)\n"
    )


def _row(winner: Winner) -> str:
    task = winner.task
    return f"| {task.name} on SM90 | `{task.name}_jit.py` | Astra, run {winner.summary.run} |\n"


def _inputs(task: Task) -> str:
    """A function that draws the tensors of each timed case; cases are literals in the file."""
    lines = [
        "DEVICE = 'cuda'",
        "CASES = {}",
        "",
        "",
        "def case(function):",
        "    CASES[function.__doc__] = function",
        "    return function",
        "",
    ]
    for number, (one, _) in enumerate(task.bench):
        scalars = [(s.name, s.value_in(one), s.type) for s in task.scalars]
        values = {n: bool(v) if k == "bool" else v for n, v, k in scalars}
        given = {n: one.dims[n] for n in parameter_names(task) if n in one.dims}
        missing = {arg.name: None for arg in task.args if not arg.present(one)}
        lines += [
            "",
            "@case",
            f"def case_{number}(device=DEVICE):",
            f'    """{one.named}"""',
            f"    generator = torch.Generator().manual_seed({number})",
            "    INDICES, made, tensors = {}, {}, {}",
            *input_lines(task, one),
            f"    return {{**tensors, **{given | values | missing!r}}}",
            "",
        ]
    return "\n".join(lines)


def _test(task: Task, upstream: Upstream) -> str:
    control = "        CONTROL(**theirs)\n        differ(ours, theirs)\n" if upstream.call else ""
    floats = [a.name for a in task.args if a.written and _comparable(task, a.name)]
    return (
        f'"""{task.name} of kda_kernels: what SGLang runs today is the control."""\n\n'
        "import unittest\n\nimport torch\n\n"
        f"from sglang.kernels.kda_kernels.{task.name}_jit import can_use_{task.name}, {task.name}\n"
        "from sglang.test.ci.ci_register import register_cuda_ci\n"
        "from sglang.test.test_utils import CustomTestCase\n\n"
        'register_cuda_ci(est_time=60, stage="base-b-kernel-unit", runner_config="1-gpu-large")\n\n'
        f"{_tolerances(task)}{_control(task, upstream)}{_inputs(task)}\n\n"
        "def differ(ours, theirs):\n"
        f"    for name in {floats!r}:\n"
        "        rtol, atol = TOLERANCE.get(str(ours[name].dtype), (0, 0))\n"
        "        torch.testing.assert_close(ours[name], theirs[name], rtol=rtol, atol=atol)\n\n\n"
        f"class Test{_class(task)}(CustomTestCase):\n"
        "    def test_cases(self):\n"
        '        """Fails if a launch skips rows, or if the contract no longer accepts a case."""\n'
        "        for label, draw in CASES.items():\n"
        "            with self.subTest(label):\n"
        "                ours, theirs = draw(), draw()\n"
        f"                self.assertTrue(can_use_{task.name}(**ours))\n"
        f"                {task.name}(**ours)\n"
        + "\n".join(f"        {line}" if line else "" for line in control.splitlines())
        + "\n    def test_outside_the_contract(self):\n"
        '        """Fails if the predicate accepts calls that the kernel was not judged on."""\n'
        '        given = next(iter(CASES.values()))("cpu")\n'
        f"        self.assertFalse(can_use_{task.name}(**given))\n\n\n"
        f'if __name__ == "__main__":\n    unittest.main()\n'
    )


def _comparable(task: Task, name: str) -> bool:
    """Whether two correct kernels give nearly equal tensors."""
    arg = next(one for one in task.args if one.name == name)
    judged = arg.judged.by if arg.judged else "close"
    return judged in ("close", "exact")


def _tolerances(task: Task) -> str:
    rows = {
        f"torch.{dtype}": (one.rtol, one.atol)
        for dtype in task.dtypes or ()
        if is_float(dtype) and (one := task.tolerance.get(dtype))
    }
    return f"TOLERANCE = {rows!r}\n"


def _control(task: Task, upstream: Upstream) -> str:
    """Today's function with the contract's parameters."""
    if not upstream.call:
        return ""
    function = upstream.call.partition("(")[0]
    names = ", ".join(parameter_names(task))
    return (
        f"\n\ndef CONTROL({names}):\n    from {upstream.module} import {function}\n\n"
        f"    {upstream.call}\n\n\n"
    )


def _bench(task: Task, upstream: Upstream) -> str:
    return (
        f'"""{task.name} of kda_kernels compared with what SGLang runs today; L2 cold."""\n\n'
        "import torch\n\nfrom sglang.kernels.jit.benchmark import marker\n"
        f"from sglang.kernels.kda_kernels.{task.name}_jit import {task.name}\n"
        "from sglang.test.ci.ci_register import register_cuda_ci\n\n"
        'register_cuda_ci(\n    est_time=60, stage="base-b-kernel-benchmark",'
        ' runner_config="1-gpu-large"\n)'
        f"\n\n{_control(task, upstream)}{_inputs(task)}\n"
        'FUNCTIONS = {"kda": ' + task.name + ', "today": CONTROL}\n\n\n'
        '@marker.parametrize("label", list(CASES), list(CASES)[:1])\n'
        '@marker.benchmark("impl", list(FUNCTIONS))\n'
        "def benchmark(label: str, impl: str):\n"
        "    return marker.do_bench(FUNCTIONS[impl], input_kwargs=CASES[label]())\n\n\n"
        'if __name__ == "__main__":\n    benchmark.run()\n'
    )


def _words(winner: Winner, upstream: Upstream) -> str:
    task, summary = winner.task, winner.summary
    models = summary.options.models
    measured = "".join(
        f"- {gpu}: {one.ratio:.3f}x over Astra's baseline; {one.why}\n"
        for gpu, one in sorted(winner.measured.items())
    )
    bench = (
        ""
        if upstream.call
        else f"- {task.name} has no benchmark: no single SGLang function computes all of it.\n"
    )
    return (
        f"# {task.name}\n\n{task.summary}\n\n"
        f"- Candidate {winner.best.candidate} of run {summary.run}; models: {models}; judge: Astra"
        " (transcript, seeds and evidence: `astra-chat verify TRANSCRIPT`).\n"
        f"{measured or '- Not measured on a GPU.' + chr(10)}- {winner.over_today}\n"
        "- Licence: that of the task's files; state the kernel's licence here.\n\n"
        "To do by hand:\n\n"
        f"- Add `add/{KERNELS}/ops/{upstream.group}/__init__.py` to the file of that name. Norms\n"
        "  and activations are classes there: they need the method `forward_kda`, and\n"
        f"  `backend_eligible` with `can_use_{task.name}`. Add KDA to the operator's backends in\n"
        "  `test_kernels_namespace.py`.\n"
        f"- Add the row in `add/{KDA}/README.md`. The table is for another workflow: ask first.\n"
        "- The launches are the winner's own `<<<>>>`, without PDL: SGLang asks for\n"
        "  `LaunchKernel(...).enable_pdl(...)`.\n"
        "- Run the test and the benchmark on an H100 or H200, and the model before and after"
        " the change.\n"
        f"{bench}\n"
    )


HELPERS = "def ceil_div(a: int, b: int) -> int:\n    return -(-a // b)\n"
"""What the expressions of contracts use beside Python's own."""


def predicate(task: Task, name: str) -> str:
    """The source of the function; it reads torch."""
    tensors = [arg for arg in task.args if not arg.optional]
    first = tensors[0].name
    lines = [f"def {name}({', '.join(parameter_names(task))}) -> bool:"]
    lines += [f"    tensors = ({', '.join(arg.name for arg in tensors)},)"]
    lines += [f"    if not all(t.is_cuda and t.device == {first}.device for t in tensors):"]
    lines += ["        return False"]
    dims = "".join(f"{len(arg.shape)}, " for arg in tensors)
    lines += [f"    if tuple(t.dim() for t in tensors) != ({dims}):", "        return False"]
    lines += [f"    {line}" for line in _dims(task)]
    lines += ["    return (", *(f"        {line}" for line in _conditions(task, tensors)), "    )"]
    return "\n".join(lines) + "\n"


def _dims(task: Task) -> Iterator[str]:
    for dim, argument, axis, others in dim_sources(task):
        if axis is not None:
            yield f"{dim} = {argument}.shape[{axis}] // ({' * '.join(others) or '1'})"


def _conditions(task: Task, tensors: list[Arg]) -> Iterator[str]:
    word = ""
    for condition in _each(task, tensors):
        yield f"{word}{condition}"
        word = "and "


def _each(task: Task, tensors: list[Arg]) -> Iterator[str]:
    yield _types(task, tensors)
    yield from (_range(name, dim, task) for name, dim in task.dims.items())
    for arg in tensors:
        yield f"tuple({arg.name}.shape) == ({', '.join(map(str, arg.shape))},)"
        if arg.strides is None:
            yield f"{arg.name}.is_contiguous()"
        else:
            fixed = [(n, one) for n, one in enumerate(arg.strides) if one != "free"]
            yield from (f"{arg.name}.stride({axis}) == {one}" for axis, one in fixed)
            if arg.stride_alignment_bytes > 1:
                free = [str(n) for n, one in enumerate(arg.strides) if one == "free"]
                yield (
                    f"all({arg.name}.stride(n) * {arg.name}.element_size()"
                    f" % {arg.stride_alignment_bytes} == 0 for n in ({', '.join(free)},))"
                )
        yield f"{arg.name}.data_ptr() % {max(arg.min_alignment_bytes, 1)} == 0"
    yield from (f"({relation})" for relation in task.require)


def _types(task: Task, tensors: list[Arg]) -> str:
    """One of the combinations of dtypes."""
    each = []
    for types in task.types or ({},):
        wanted = [f"torch.{types.get(arg.dtype, arg.dtype)}" for arg in tensors]
        each.append(f"({', '.join(wanted)},)")
    return f"tuple(t.dtype for t in tensors) in ({', '.join(dict.fromkeys(each))},)"


def _range(name: str, dim: Dim, task: Task) -> str:
    if dim.values:
        return f"{name} in ({', '.join(map(str, dim.values))},)"
    least = f"{dim.min} <= {name} <= {dim.max}"
    if dim.multiple_of_bytes > 1:
        typed = next(arg.name for arg in task.args if arg.dtype in task.variables[:1])
        return f"{least} and {name} * {typed}.element_size() % {dim.multiple_of_bytes} == 0"
    return f"{least} and {name} % {dim.multiple_of} == 0" if dim.multiple_of > 1 else least
