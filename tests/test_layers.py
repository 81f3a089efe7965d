"""The floors of the design hold: imports go down only, without cycles, and functions stay short."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.sources import PACKAGE, ROOT, sources

FLOORS = {"tools": 0, "agents": 1, "astra_chat": 2, "lab": 3}
AUTOGEN = ("autogen_core", "autogen_agentchat", "autogen_ext", "autogen", "pyautogen")
AUTOGEN_PLACES = (
    "agents/",
    "astra_chat/session/session.py",
    "astra_chat/models/",
    "lab/random_models.py",
)
CHILD_PROCESSES = (
    "tools/runners/",
    "tools/capture/inside/",
    "astra_chat/package/inside/",
    "astra_chat/step/inside/",
    "lab/decode_",
    "lab/baselines/cuda_record.py",
    "lab/baselines/cute_child.py",
    "lab/baselines/torch_child.py",
    "lab/engine_tests/inside/",
    "lab/ranks/inside/",
    "tools/extension/inside/",
    "tools/walled/inside/",
)
"""Programs of processes of their own: the only files that may load torch."""
GROUND = "astra_vgpu.ground"
INSIDE = (
    PACKAGE,
    "tools/virtual_gpu/adapter.py",
    "tools/virtual_gpu/__main__.py",
    "lab/",
)
"""Files that import what they want of the virtual GPU."""
LINES = 50
"""Most lines of a function's body."""


TEXTS = sources(FLOORS)


@cache
def trees() -> dict[str, ast.Module]:
    """All sources, parsed for whoever asks first: collecting the tests does not."""
    return {path: ast.parse(text) for path, text in TEXTS.items()}


def module_name(path: str) -> str:
    """ "tools/check/calls.py" as it is imported: "astra_chat.tools.check.calls"."""
    dotted = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    if path.startswith(PACKAGE):
        return dotted.removeprefix("tools.virtual_gpu.")
    return dotted if path.startswith(("astra_chat/", "lab/")) else f"astra_chat.{dotted}"


MODULES = {module_name(path): path for path in TEXTS}


def imports(tree: ast.AST) -> set[str]:
    """Every module a file imports anywhere; `from a import b` counts a.b where that is a module."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports are banned"
            base = node.module or ""
            subs = {f"{base}.{a.name}" for a in node.names if f"{base}.{a.name}" in MODULES}
            found |= subs or {base}
    return found


def at_run_time(tree: ast.Module) -> ast.Module:
    """The module without what only type checkers read: `if TYPE_CHECKING:`."""

    def typing_only(node: ast.stmt) -> bool:
        return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)

    return ast.Module(body=[n for n in tree.body if not typing_only(n)], type_ignores=[])


def floor_of(path: str) -> int:
    return -1 if path.startswith(PACKAGE) else FLOORS[path.split("/", maxsplit=1)[0]]


def test_imports_go_down_only() -> None:
    """Imports go down, tasks are read and not imported, and nothing is imported under its folder's
    bare name."""
    bare = ("agents", "tools", "sglang_kernels")
    offenders = [
        f"{path} imports {name}"
        for path, tree in trees().items()
        for name in imports(tree)
        if name.split(".", maxsplit=1)[0] in bare
        or name.startswith("astra_chat.sglang_kernels")
        or (name in MODULES and floor_of(MODULES[name]) > floor_of(path))
    ]
    assert not offenders


def test_there_are_no_cycles() -> None:
    loaded = {module: imports(at_run_time(trees()[path])) for module, path in MODULES.items()}
    graph = {module: (names & MODULES.keys()) - {module} for module, names in loaded.items()}
    assert len(tuple(TopologicalSorter(graph).static_order())) == len(MODULES)


def child_of(folder: str, path: str) -> str:
    """What lies directly in a folder and holds the file, or is it: "" where it is elsewhere."""
    inside = path.removeprefix(f"{folder}/")
    return inside.split("/", maxsplit=1)[0] if inside != path else ""


def test_there_are_no_cycles_between_folders() -> None:
    """Files and folders of one folder do not need each other in a circle when the program runs."""
    edges = [
        (path, MODULES[name])
        for path in TEXTS
        if not path.endswith("__init__.py")
        for name in imports(at_run_time(trees()[path])) & MODULES.keys()
    ]
    folders = {str(parent) for path in TEXTS for parent in Path(path).parents} - {"."}
    circles = []
    for folder in sorted(folders):
        graph: dict[str, set[str]] = {}
        for source, target in edges:
            one, other = child_of(folder, source), child_of(folder, target)
            if one and other and one != other and other != "__init__.py":
                graph.setdefault(one, set()).add(other)
        try:
            tuple(TopologicalSorter(graph).static_order())
        except CycleError as error:
            circles.append(f"{folder}: {error.args[1]}")
    assert not circles


def test_the_ground_floor_imports_nothing_of_ours() -> None:
    """Values, and the dtypes below them."""
    for path, below in (
        ("tools/types.py", {"astra_chat.tools.case", "astra_chat.tools.dtypes"}),
        ("tools/case.py", {"astra_chat.tools.dtypes", "astra_chat.tools.field_notes"}),
        ("tools/field_notes.py", set()),
        ("tools/dtypes.py", set()),
    ):
        assert {i for i in imports(trees()[path]) if i.startswith("astra_chat")} <= below


def test_autogen_and_torch_stay_in_their_places() -> None:
    offenders = []
    for path, tree in trees().items():
        roots = {name.split(".", maxsplit=1)[0] for name in imports(tree)}
        if not path.startswith(AUTOGEN_PLACES):
            offenders += [f"{path}: {root}" for root in roots.intersection(AUTOGEN)]
        if not path.startswith(CHILD_PROCESSES) and "torch" in roots:
            offenders.append(f"{path}: torch")
    assert not offenders


def test_children_are_started_never_imported() -> None:
    offenders = [
        f"{path} imports {name}"
        for path, tree in trees().items()
        if not path.startswith(CHILD_PROCESSES)
        for name in imports(tree)
        if name.startswith("astra_chat.tools.runners")
    ]
    assert not offenders


def test_a_program_starts_after_all_that_its_file_defines() -> None:
    """What stands below `main()` does not exist while it runs."""
    offenders = [
        path
        for path, tree in trees().items()
        for node in tree.body[:-1]
        if isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"
    ]
    assert not offenders


ENTROPY = "tools/entropy.py"
UNSEEDED = {"Random", "default_rng", "RandomState"}
"""Generators: drawn from the operating system where they are made of nothing."""


def unseeded(tree: ast.AST) -> Iterator[str]:
    """Names of what is drawn from the operating system or from a module's own state."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = {a.name for a in node.names} | {getattr(node, "module", None)}
            yield from sorted(names & {"secrets", "uuid"})
        if isinstance(node, ast.Attribute) and node.attr in ("urandom", "getrandom"):
            yield node.attr
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            module, name = ast.unparse(node.func.value), node.func.attr
            empty = name in UNSEEDED and not node.args
            shared = name not in UNSEEDED | {"Generator", "PCG64"}
            if module in ("random", "np.random") and (empty or shared):
                yield f"{module}.{name}"


def test_the_judge_draws_from_one_place() -> None:
    tools = {path: tree for path, tree in trees().items() if path.startswith("tools/")}
    offenders = [
        f"{path}: {name}"
        for path, tree in tools.items()
        if path != ENTROPY
        for name in unseeded(tree)
    ]
    assert not offenders, "draw from a Seed (tools/entropy.py)"


@pytest.mark.parametrize(
    "line",
    [
        "import secrets",
        "from uuid import uuid4",
        "os.urandom(8)",
        "random.Random()",
        "random.random()",
        "np.random.default_rng()",
        "np.random.rand(3)",
    ],
)
def test_what_draws_by_itself_is_noticed(line: str) -> None:
    assert list(unseeded(ast.parse(line)))


def imported_from(path: str, package: str) -> list[str]:
    """What a file imports of a package of ours."""
    names = imports(trees()[path])
    return [name for name in names if f"{name}.".startswith(f"{package}.")]


def test_the_virtual_gpu_stands_alone() -> None:
    package = {path for path in TEXTS if path.startswith(PACKAGE)}
    assert len(package) > 100
    assert not [f"{p} imports {name}" for p in package for name in imported_from(p, "astra_chat")]


def test_its_ground_needs_nothing_of_it() -> None:
    for path in (path for path in TEXTS if path.startswith(f"{PACKAGE}ground/")):
        above = set(imported_from(path, "astra_vgpu")) - set(imported_from(path, GROUND))
        assert not above, path


def test_all_but_its_ground_is_reached_through_one_adapter() -> None:
    offenders = [
        f"{path} imports {name}"
        for path in TEXTS
        if not path.startswith(INSIDE)
        for name in imported_from(path, "astra_vgpu")
        if name not in imported_from(path, GROUND)
    ]
    assert not offenders, "take it from astra_chat.tools.virtual_gpu.adapter"


def test_functions_are_short() -> None:
    lengths = {
        f"{path} {node.name}": (node.end_lineno or 0) - _first(node).lineno + 1
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert not {name: length for name, length in lengths.items() if length > LINES}


def _first(function: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.stmt:
    """The first statement that is no docstring."""
    has_text = ast.get_docstring(function) is not None
    return function.body[1 if has_text and len(function.body) > 1 else 0]


def test_files_say_what_they_are() -> None:
    assert not [path for path, tree in trees().items() if not ast.get_docstring(tree)]


def test_the_links_that_make_it_one_package_are_there() -> None:
    for name in ("agents", "tools", "sglang_kernels"):
        link = ROOT / "astra_chat" / name
        assert link.is_symlink()
        assert link.resolve() == ROOT / name


def reached(*modules: str) -> set[str]:
    """All modules of ours that these import, also within functions and by others."""
    found, left = set[str](), list(modules)
    while left:
        name = left.pop()
        if name in MODULES and name not in found:
            found.add(name)
            left += imports(trees()[MODULES[name]])
    return found


def test_the_judge_from_outside_knows_no_chat() -> None:
    """check, time, profile and evaluate, from the command line and from Python."""
    needed = reached("astra_chat.cli.judge", "astra_chat.judging.evaluating")
    assert "astra_chat.tools.report.results_text" in needed
    assert not [name for name in needed if name.startswith("astra_chat.agents")]
