"""What a Triton candidate may hold: everything else is refused with its line and a reason."""

from __future__ import annotations

import pytest

from astra_chat.tools.language import is_triton
from astra_chat.tools.task.folder import Task, load_task
from astra_chat.tools.task.shipped import task_folder
from astra_chat.tools.triton.translated import triton_findings
from tests.tools.triton.samples import SOURCES

RMSNORM = SOURCES["rmsnorm"]


@pytest.fixture(scope="module")
def task() -> Task:
    return load_task(task_folder("rmsnorm"))


def test_the_language_is_read_from_the_source(task: Task) -> None:
    assert is_triton(RMSNORM) and not is_triton(task.baseline)


@pytest.mark.parametrize("name", ["rmsnorm", "moe_sum_reduce"])
def test_honest_candidates_are_let_through(name: str) -> None:
    assert triton_findings(SOURCES[name], load_task(task_folder(name))) == ()


LAUNCH = "    rmsnorm_kernel[(tokens,)]("
WARPS = "num_warps=4 if BLOCK <= 4096 else 16"
LOAD = "    columns = tl.arange(0, BLOCK)\n"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("import triton\n", "import triton\nimport os\n", "os: the only allowed imports are"),
        ("import triton\n", "import triton\nimport torch\n", "the caller passes all arguments"),
        ("import triton\n", "import triton\nprint(1)\n", "only imports, constants and functions"),
        ("import triton\n", "import triton\nEPS = open('x')\n", "a constant is NAME ="),
        ("import triton\n", "import triton\nclass A: pass\n", "only imports, constants"),
        ("@triton.jit", "@triton.autotune([], [])\n@triton.jit", "@triton.autotune: configs:"),
        ("@triton.jit", "@triton.jit(noinline=True)", "@triton.jit as its only decorator"),
        ("BLOCK: tl.constexpr", "BLOCK: open('x')", "the only allowed annotation is tl.constexpr"),
        ("BLOCK: tl.constexpr", "BLOCK: tl.constexpr = open('x')", "a default must be a literal"),
        (LOAD, LOAD + "    import os\n", "Import: a kernel may not contain"),
        (LOAD, LOAD + "    print(eps)\n", "print: a kernel may not use this"),
        (LOAD, LOAD + "    tl.device_print('x', eps)\n", "tl.device_print: a kernel may not"),
        (LOAD, LOAD + "    tl.inline_asm_elementwise('x')\n", "inline_asm_elementwise: a kernel"),
        (LOAD, LOAD + "    tl.core.sys.exit()\n", "tl.core.sys.exit: a kernel may not use this"),
        (LOAD, LOAD + "    tl.extra.cuda.smid()\n", "tl.extra.cuda.smid: a kernel may not"),
        (LOAD, LOAD + "    eps.__class__\n", ".__class__: a kernel may not use this attribute"),
        (LOAD, LOAD + "    tl.load.__globals__\n", "__globals__: a kernel may not use this"),
        (LOAD, LOAD + "    (lambda: 1)()\n", "Lambda: a kernel may not contain"),
        (LOAD, LOAD + "    x = [i for i in range(3)]\n", "ListComp: a kernel may not contain"),
        (LOAD, LOAD + "    x = f'{eps}'\n", "JoinedStr: a kernel may not contain"),
        (LOAD, LOAD + "    h(1)\n", "only functions defined in the file"),
        (LOAD, LOAD + "    tl = 1\n", "tl: rmsnorm_kernel assigns a new value to this name"),
        ("def rmsnorm(out", "def rms(out", "no launcher: def rmsnorm(...) is not defined"),
        ("def rmsnorm(out, input", "def rmsnorm(input, out", "write def rmsnorm(out, input,"),
        (LAUNCH, "    import os\n" + LAUNCH, "a launcher has assignments, if, return"),
        (LAUNCH, "    x = open('x')\n" + LAUNCH, "open(...): write integers and floats"),
        (LAUNCH, "    x = out.data\n" + LAUNCH, "out.data: write integers and floats"),
        (LAUNCH, "    x = out\n" + LAUNCH, "pointer cannot be assigned"),
        (LAUNCH, "    h = 1.5\n" + LAUNCH, "h: this name had another type before"),
        (LAUNCH, "    for i in range(3): pass\n" + LAUNCH, "a launcher has assignments"),
        (LAUNCH, "    other[(tokens,)](", "other is not a @triton.jit function"),
        ("(tokens,)", "lambda meta: (tokens,)", "write the grid as a tuple"),
        ("(tokens,)", "(tokens, 1, 1, 1)", "one to three axes"),
        ("(tokens,)", "(eps,)", "grid eps: it must be an integer"),
        ("(tokens,)", "(blocks,)", "blocks is not defined"),
        ("eps,\n        BLOCK=BLOCK", "eps + out,\n        BLOCK=BLOCK", "this is pointer"),
        ("BLOCK=BLOCK", "BLOCK=h", "take so many values that more"),
        ("BLOCK=BLOCK", "SIZE=BLOCK", "SIZE: rmsnorm_kernel takes out_ptr"),
        ("        BLOCK=BLOCK,\n", "", "rmsnorm_kernel needs a value for BLOCK"),
        (WARPS, "num_warps=3", "num_warps=3: it must be one of"),
        (WARPS, "num_ctas=2", "num_ctas: rmsnorm_kernel takes"),
        (WARPS, "num_warps=tokens", "it must be one of"),
        (LAUNCH, "    if h > 8:\n        w = 4\n    x = w\n" + LAUNCH, "no value on some path"),
        ("    BLOCK = max", "    BLOCK == max", "a launcher has assignments"),
        ("def rmsnorm(", "def rmsnorm(\n  (", "it is not valid Python"),
    ],
)
def test_what_is_not_allowed_is_named(task: Task, old: str, new: str, words: str) -> None:
    assert old in RMSNORM
    findings = triton_findings(RMSNORM.replace(old, new, 1), task)
    assert any(words in finding.what for finding in findings), findings


def test_a_finding_names_the_line(task: Task) -> None:
    source = RMSNORM.replace(LOAD, LOAD + "    print(eps)\n")
    (finding,) = triton_findings(source, task)
    assert source.splitlines()[finding.line - 1] == "    print(eps)"


@pytest.mark.parametrize("text", ["(" * 5000, "x = " + "-" * 100_000 + "1", "\0"])
def test_what_python_cannot_parse_is_a_finding(task: Task, text: str) -> None:
    assert len(triton_findings(f"import triton\n{text}\n", task)) == 1


@pytest.mark.parametrize(("lines", "words"), [(60, ""), (300, "number in the launcher")])
def test_numbers_that_double_with_every_line_end(task: Task, lines: int, words: str) -> None:
    doubled = "".join(f"    x{n + 1} = x{n} + x{n}\n" for n in range(lines))
    findings = triton_findings(RMSNORM.replace(LAUNCH, f"    x0 = h\n{doubled}{LAUNCH}"), task)
    assert [words in finding.what for finding in findings] == [True] * bool(words)


def test_ways_that_double_with_every_line_are_allowed(task: Task) -> None:
    lines = "".join(f"    if h > {n}:\n        x = {n}\n" for n in range(60))
    assert triton_findings(RMSNORM.replace(LAUNCH, lines + LAUNCH), task) == ()


def test_constants_of_the_file_are_literals_in_the_launcher(task: Task) -> None:
    source = RMSNORM.replace("@triton.jit", "MOST = tl.constexpr(4096)\n\n\n@triton.jit", 1)
    assert triton_findings(source.replace("BLOCK <= 4096", "BLOCK <= MOST"), task) == ()
