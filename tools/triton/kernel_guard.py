"""What the body of a @triton.jit function may contain: an allow-list of Python's syntax and names.

Triton's compiler executes parts of a kernel in Python while it compiles it, in the sandbox. The
list keeps out what is no kernel: other modules, attributes that lead out of Triton, text of
another language.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from astra_chat.tools.triton import allowed
from astra_chat.tools.types import Finding
from astra_chat.tools.wording import did_you_mean

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
