"""What is read of a Triton candidate.

The file holds imports of Triton, constants, @triton.jit functions and the launcher, a function of
the task's name. It is read by Python's parser; nothing of it runs in this process.

The body of a @triton.jit function is limited to an allow-list of Python's syntax and names, since
Triton's compiler executes parts of a kernel in Python while it compiles it, in the sandbox. The
list keeps out what is no kernel: other modules, attributes that lead out of Triton, text of
another language.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from astra_chat.tools.task.folder import Task
from astra_chat.tools.triton import allowed
from astra_chat.tools.triton.autotune import without_autotune
from astra_chat.tools.triton.expressions import NotAllowed
from astra_chat.tools.triton.launcher import KernelHead, Statement, read_launcher
from astra_chat.tools.types import Finding
from astra_chat.tools.wording import did_you_mean

SOURCE_BYTES = 512 * 1024
"""The longest source that is looked at."""
_ADVICE = {
    "torch": "do not use torch: the caller passes all arguments to the launcher",
    "triton.heuristics": "compute the constant in the launcher",
}


@dataclass(frozen=True)
class TritonSource:
    """What a Triton candidate holds."""

    kernels: Mapping[str, KernelHead]
    launcher: tuple[Statement, ...]
    lines: frozenset[int]
    """Lines of the launcher, which Triton's compiler does not get."""
    text: str
    """The file; of one with @triton.autotune what it stands for (autotune.py)."""


def read_source(source: str, task: Task) -> TritonSource | tuple[Finding, ...]:
    """What the candidate holds, or every place that is not allowed."""
    if len(source.encode(errors="replace")) > SOURCE_BYTES:
        return (Finding(line=1, what=f"the source is longer than {SOURCE_BYTES} bytes"),)
    if task.binding is not None:
        return (Finding(line=1, what="a task with a [binding] takes CUDA sources only"),)
    try:
        text = without_autotune(source)
        return _read(ast.parse(text), text, task)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or getattr(error, "line", None) or 1
        what = str(error) if isinstance(error, NotAllowed) else f"it is not valid Python: {error}"
        return (Finding(line=line, what=what),)
    except (RecursionError, MemoryError):
        return (Finding(line=1, what="it is nested too deeply"),)


def _read(tree: ast.Module, text: str, task: Task) -> TritonSource | tuple[Finding, ...]:
    """Raises NotAllowed for the launcher's first fault."""
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    jit = {name: one for name, one in functions.items() if one.decorator_list}
    constants = dict(_constants(tree))
    findings = list(_module(tree, task, {*jit}))
    for one in jit.values():
        findings += kernel_findings(one, {*jit}, {*constants})
    launcher = functions.get(task.entry)
    if launcher is None:
        what = f"no launcher: def {task.entry}(...) is not defined"
        return (*findings, Finding(line=1, what=what))
    heads = {name: KernelHead.of(one) for name, one in jit.items()}
    if findings:
        return tuple(findings)
    statements = read_launcher(launcher, task, heads, constants)
    end = launcher.end_lineno or launcher.lineno
    return TritonSource(heads, statements, frozenset(range(launcher.lineno, end + 1)), text)


def _module(tree: ast.Module, task: Task, jit: set[str]) -> Iterator[Finding]:
    """Findings outside of functions."""
    seen = set[str]()
    for place, node in enumerate(tree.body):
        what = ""
        match node:
            case ast.Import() | ast.ImportFrom() if ast.unparse(node) not in allowed.IMPORTS:
                named = re.split(r"\W", ast.unparse(node).split()[1])[0]
                forms = _ADVICE.get(named) or (
                    f"the only allowed imports are: {'; '.join(allowed.IMPORTS)}"
                )
                what = f"{ast.unparse(node)}: {forms}"
            case ast.Import() | ast.ImportFrom():
                pass
            case ast.Expr(value=ast.Constant(value=str())) if place == 0:
                pass
            case ast.Assign() | ast.AnnAssign():
                what = "" if _constant(node) else f"{ast.unparse(node)[:80]}: {CONSTANT}"
            case ast.FunctionDef(name=name):
                what = f"{name} is defined twice" if name in seen else _function(node, task)
                seen.add(name)
            case _:
                what = (
                    f"{ast.unparse(node)[:80]}: only imports, constants and functions are allowed"
                )
        if what:
            yield Finding(line=node.lineno, what=what)


CONSTANT = "a constant is NAME = tl.constexpr(LITERAL)"


def _constants(tree: ast.Module) -> Iterator[tuple[str, ast.Constant]]:
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and (found := _constant(node)):
            yield found


def _constant(node: ast.Assign | ast.AnnAssign) -> tuple[str, ast.Constant] | None:
    """Name and value of NAME = tl.constexpr(LITERAL) or NAME: tl.constexpr = LITERAL."""
    value = node.value
    target: ast.expr
    if isinstance(node, ast.AnnAssign):
        target, marked = node.target, ast.unparse(node.annotation) == "tl.constexpr"
    else:
        target, marked = node.targets[0], len(node.targets) == 1
        match value:
            case ast.Call(args=[inner], keywords=[]) if ast.unparse(value.func) == "tl.constexpr":
                value = inner
            case _:
                return None
    if not isinstance(target, ast.Name) or not marked or value is None or not is_plain(value):
        return None
    literal = ast.literal_eval(value)
    return (target.id, ast.Constant(literal)) if not isinstance(literal, tuple) else None


def _function(node: ast.FunctionDef, task: Task) -> str:
    """What is wrong with a function's head, or ""."""
    if node.name == task.entry:
        return f"{node.name}: the launcher must not have a decorator" if node.decorator_list else ""
    texts = [ast.unparse(one) for one in node.decorator_list]
    for text in texts:
        if advice := _ADVICE.get(text.split("(")[0]):
            return f"@{text[:60]}: {advice}"
    if texts != ["triton.jit"]:
        return (
            f"{node.name}: every function other than the launcher, {task.entry}, must have"
            " @triton.jit as its only decorator"
        )
    for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
        if argument.annotation and ast.unparse(argument.annotation) != "tl.constexpr":
            return f"{argument.arg}: the only allowed annotation is tl.constexpr"
    return ""


SYNTAX = (
    ast.arguments, ast.arg, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.If, ast.For,
    ast.While, ast.Return, ast.Pass, ast.Break, ast.Continue, ast.BinOp, ast.UnaryOp, ast.BoolOp,
    ast.Compare, ast.Call, ast.keyword, ast.IfExp, ast.Subscript, ast.Slice, ast.Tuple, ast.List,
    ast.Constant, ast.Name, ast.Attribute, ast.expr_context, ast.operator, ast.unaryop, ast.boolop,
    ast.cmpop,
)  # fmt: skip


def kernel_findings(
    function: ast.FunctionDef, functions: Collection[str], constants: Collection[str]
) -> Iterator[Finding]:
    """Findings of one kernel. `functions`: all @triton.jit functions of the file; `constants`:
    names that the file assigns."""
    given = function.args
    if given.vararg or given.kwarg:
        yield Finding(
            line=function.lineno, what=(f"{function.name}: *args and **kwargs are not allowed")
        )
    for default in [*given.defaults, *filter(None, given.kw_defaults)]:
        if not is_plain(default):
            yield _finding(default, f"{ast.unparse(default)}: a default must be a literal")
    names = {a.arg for a in [*given.posonlyargs, *given.args, *given.kwonlyargs]}
    names |= {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    known = names | {*functions} | {*constants} | allowed.BUILTINS | {"tl", "triton", "libdevice"}
    for name in sorted(names & {*functions, *constants, "tl", "triton", "libdevice"}):
        yield Finding(
            line=function.lineno, what=f"{name}: {function.name} assigns a new value to this name"
        )
    for statement in function.body:
        yield from _findings(statement, names, known)


def _findings(node: ast.AST, names: Collection[str], known: Collection[str]) -> Iterator[Finding]:
    match node:
        case ast.Attribute():
            yield from _attribute(node, names, known)
            return
        case ast.Name(id=name) if name not in known:
            yield _finding(node, f"{name}: a kernel may not use this{did_you_mean(name, known)}")
        case ast.Call(func=ast.Name(id=name)) if name in names:
            yield _finding(node, f"{name}(...): only functions defined in the file can be called")
        case ast.Call(func=ast.Call() | ast.Subscript() | ast.IfExp()):
            yield _finding(node, f"{ast.unparse(node.func)[:60]}(...): call a function by its name")
        case _ if not isinstance(node, SYNTAX):
            what = type(node).__name__
            yield _finding(node, f"{what}: a kernel may not contain this part of Python")
            return
    for child in ast.iter_child_nodes(node):
        yield from _findings(child, names, known)


def _attribute(
    node: ast.Attribute, names: Collection[str], known: Collection[str]
) -> Iterator[Finding]:
    """A name of Triton's language, or what a tensor has."""
    whole = ast.unparse(node)
    root = node.value
    while isinstance(root, ast.Attribute):
        root = root.value
    module = isinstance(root, ast.Name) and root.id in ("tl", "triton", "libdevice")
    if module and not (isinstance(root, ast.Name) and root.id in names):
        parent, _, name = whole.rpartition(".")
        if whole in allowed.MODULES:
            yield _finding(node, f"{whole}: a module cannot be used as a value")
        elif parent in allowed.MODULES:
            if name not in allowed.MODULES[parent]:
                near = did_you_mean(name, allowed.MODULES[parent])
                yield _finding(node, f"{whole}: a kernel may not use this{near}")
        elif name in allowed.ATTRIBUTES | allowed.METHODS:
            yield from _findings(node.value, names, known)
        else:
            yield _finding(node, f"{whole}: a kernel may not use this")
        return
    if node.attr not in allowed.ATTRIBUTES | allowed.METHODS:
        near = did_you_mean(node.attr, allowed.ATTRIBUTES | allowed.METHODS)
        yield _finding(node, f".{node.attr}: a kernel may not use this attribute{near}")
    yield from _findings(node.value, names, known)


def is_plain(value: ast.expr) -> bool:
    """Whether it is a literal number, text, truth value or None, or a tuple of such."""
    try:
        found = ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    each = found if isinstance(found, tuple) else (found,)
    return all(isinstance(one, int | float | str | None) for one in each)


def _finding(node: ast.AST, what: str) -> Finding:
    return Finding(line=getattr(node, "lineno", 1), what=what)
