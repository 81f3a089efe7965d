"""`astra-chat new`: writes a task folder from a kernel file; nothing is overwritten."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from astra_chat.tools.new import c_launcher, definition, extension, framework, module, triton_kernel
from astra_chat.tools.new import written_launcher as written
from astra_chat.tools.new.definition import Definition, read_definition
from astra_chat.tools.new.draft import Draft
from astra_chat.tools.new.instance import choice, instance_of, is_spelt
from astra_chat.tools.new.kernel_folder import kernel_files
from astra_chat.tools.new.macro_guards import dtype_hint, dtype_macros, guarding_macro
from astra_chat.tools.new.project import Project, Search, near_headers, project_of, text_of
from astra_chat.tools.new.source import (
    BadSource,
    Function,
    Piece,
    code,
    functions,
    pieces,
    readable,
    with_namespaces,
)
from astra_chat.tools.new.structs import Structs, structs_of
from astra_chat.tools.new.task_files import files
from astra_chat.tools.new.trial import UNBUILT, Tried, tried
from astra_chat.tools.new.triton_launch import TritonLaunch
from astra_chat.tools.types import DTypeName
from astra_vgpu.ground.errors import BadInput, reading

KEYWORDS = frozenset(
    "auto bool break case catch char class const continue default delete do double else enum"
    " explicit export extern false float for friend goto if inline int long main mutable namespace"
    " new operator private protected public register return short signed sizeof static struct"
    " switch template this throw true try typedef typename union unsigned using virtual void"
    " volatile while".split()
)
"""Words that a task may be called by, and no launcher."""
_ABOUT_DTYPES = re.compile(r"is left out|dispatch|d(ata )?type|argument list|has no member", re.I)


def new_task(
    name: str,
    kernels: Sequence[Path],
    function: str | None = None,
    launch: TritonLaunch | None = None,
    dtypes: Mapping[str, DTypeName] | None = None,
    search: Search | None = None,
    folder: Path | None = None,
    launcher: Path | None = None,
) -> tuple[Path, str, tuple[str, ...]]:
    """Write the folder `name`, or another, from a kernel's files; its path, a sentence about what
    was read, and what did not work when it was tried.

    `kernels` are CUDA files, a folder of them, a Triton file, or a Definition of flashinfer-bench,
    alone or with the kernel's files. `function` chooses where they offer several; `launcher` is
    C++ of the user's that calls what no [binding] can. How a Triton kernel is launched says
    `launch`, and `dtypes` those of its tensors that are not the case's.
    Raises BadInput, and MissingDependency where Triton is needed and not there.
    """
    if not re.fullmatch(r"[a-z_][a-z0-9_]*", name):
        raise BadInput(
            f"'{name}' is not a valid task name: use only lower-case letters, digits and _"
        )
    folder = folder or Path(name)
    if folder.exists():
        raise BadInput(
            f"{folder} already exists, so nothing was written: choose another name, or remove it"
        )
    triton_file = kernels[0].suffix == ".py"
    if triton_file and len(kernels) == 1 and module.is_module(kernels[0]):
        if launch or dtypes:
            raise BadInput("--grid, --constant and --dtype apply to a Triton kernel only")
        made = module.module_task(name, kernels[0], function)
        _write(folder, made.texts)
        return folder, f"{kernels[0].name}, a PyTorch module", made.notes
    if (launch or dtypes) and not triton_file:
        raise BadInput("--grid, --constant and --dtype apply to a Triton kernel (.py) only")
    if triton_file:
        draft, project = _triton(name, kernels, function, launch, dtypes), Project("")
    else:
        draft, project = _read(name, kernels, function, search or Search(), launcher)
    called = ", ".join(kernel.name for kernel in kernels)
    origin = f"{called}, {draft.origin.split(';')[0]}, as its author wrote it"
    if not draft.makes_tensors:  # what it takes is all there is
        _require_task(draft, ())
    done = Tried(draft, project) if triton_file else tried(name, draft, origin, project)
    macros, hint = _lacking(done.notes, project)
    if macros:
        given = (search or Search()).defines
        more = replace(search or Search(), defines=(*given, *macros))
        draft, project = _read(name, kernels, function, more, launcher)
        again = tried(name, draft, origin, project)
        if not again.unbuilt or done.unbuilt:
            done = replace(again, notes=(hint, *again.notes))
    _require_task(done.draft, done.notes)
    _write(folder, files(name, done.draft, origin, done.project) | project.headers)
    return folder, draft.origin, done.notes


def _lacking(notes: Sequence[str], project: Project) -> tuple[tuple[str, ...], str]:
    """Macros that the project's build likely defines and notes miss, and the message about them."""
    if guard := guarding_macro(notes, project):
        return (guard.macro,), guard.hint
    about_dtypes = any(_ABOUT_DTYPES.search(note) for note in notes)
    macros = dtype_macros(project) if about_dtypes else ()
    return macros, dtype_hint(macros)


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    for file, text in texts.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)


def _read(
    name: str,
    kernels: Sequence[Path],
    function: str | None,
    search: Search,
    launcher: Path | None,
) -> tuple[Draft, Project]:
    """The draft, and the project's files."""
    definitions = [read_definition(path) for path in kernels if path.suffix == ".json"]
    code_files = [path for path in kernels if path.suffix != ".json"]
    if len(definitions) > 1:
        raise BadInput("give only one Definition: a task is one kernel")
    if not code_files:
        return definition.draft_of(definitions[0], name), Project("")
    draft, project = _cuda(name, code_files, function, definitions, search, launcher)
    return (definition.with_definition(draft, definitions[0]) if definitions else draft), project


def _triton(
    name: str,
    paths: Sequence[Path],
    function: str | None,
    launch: TritonLaunch | None,
    dtypes: Mapping[str, DTypeName] | None,
) -> Draft:
    if len(paths) > 1:
        raise BadInput("a Triton kernel is one file: do not give a second one")
    called = paths[0].name
    with reading(paths[0]):
        source = paths[0].read_text()
    found = triton_kernel.kernels(source, called)
    if not found:
        raise BadInput(f"{called} contains no function decorated with @triton.jit")
    try:
        chosen = _chosen([kernel.name for kernel in found], function, "has")
        return triton_kernel.draft_of(found[chosen], name, source, launch, dtypes)
    except BadInput as error:
        raise BadInput(f"{called}: {error}") from None


def _cuda(
    name: str,
    paths: Sequence[Path],
    function: str | None,
    definitions: Sequence[Definition],
    search: Search,
    launcher: Path | None,
) -> tuple[Draft, Project]:
    called = ", ".join(path.name for path in paths)
    folders = [path for path in paths if path.is_dir()]
    files = [path for path in paths if not path.is_dir()]
    for folder in folders:
        files += kernel_files(folder, None if launcher else function, required=not files)
    root = search.root or next(iter(folders), None)
    project = project_of(files, search.folders, root, search.defines)
    shapes = definitions[0].shapes if definitions else {}
    own = text_of(launcher) if launcher else ""
    try:
        draft = draft_of(project.source, name, function, project.headers, shapes, own)
        return draft, project
    except BadSource as error:
        raise BadInput(f"{_place(files, error.line)}: {error.reason}") from None
    except BadInput as error:
        raise BadInput(f"{called}: {error}") from None


def _place(files: Sequence[Path], line: int) -> str:
    """Where a line of the joined files stands."""
    for path in files:
        count = path.read_text().count("\n") + 1
        if line <= count:
            return f"{path.name}, line {line}"
        line -= count
    return f"{files[-1].name}, its end"


def _require_task(draft: Draft, notes: Sequence[str]) -> None:
    """Raises BadInput where no task can be made of it."""
    if not draft.dims or not any(t.written for t in draft.tensors):
        if notes and notes[0].startswith(UNBUILT):
            raise BadInput(f"of {draft.origin.split(';')[0]}: {notes[0]}")
        what = (
            "no tensor to write its result to"
            if draft.dims
            else "no size (an integer parameter such as int n)"
        )
        why = f" (tried: {notes[0]})" if notes else ""
        raise BadInput(f"{draft.origin.split(';')[0]} takes {what}: a task needs one{why}")


def draft_of(
    source: str,
    name: str,
    function: str | None,
    headers: Mapping[str, str] | None = None,
    shapes: Mapping[str, tuple[str, ...]] | None = None,
    launcher: str = "",
) -> Draft:
    """What a kernel file offers, as a draft; `shapes` are known from elsewhere, `launcher` is a
    text of the user's that follows the file. Raises BadInput."""
    file, source = source, readable(source)
    every_header = headers or {}
    source = with_namespaces(source, every_header.values())
    headers = {name: readable(text) for name, text in near_headers(source, every_header)}
    every = pieces(source)
    plain = code(every)
    defined = functions(plain)
    names, shapes = {piece.text for piece in plain}, shapes or {}
    names |= {piece.text for piece in pieces(launcher)}
    entries = (name, *(f"{name}_{word}" for word in ("launcher", "entry", "of_task")))
    declared = "\n".join(every_header.values())
    names |= {word for word in entries if re.search(rf"\b{word}\b", declared)}
    entry = next(word for word in entries if word not in names | KEYWORDS)
    if function and is_spelt(function) and not launcher:
        return replace(_spelt(function, source, entry, headers, shapes), baseline=file)
    exports = [] if launcher else framework.exports(plain, defined)
    if not launcher and (not exports or function not in (None, *(e.name for e in exports))):
        own = framework.has_own_tensors([source, *every_header.values()])
        host = [] if own else framework.host_functions(plain, defined)
        exports += [one for one in host if one.name == function or not exports]
    if exports and (function in (None, *(e.name for e in exports)) or not _has(defined, function)):
        chosen = _chosen([e.name for e in exports], function, "exports")
        draft = extension.draft_of(exports[chosen], source, entry, headers, shapes)
        return replace(draft, baseline=file)
    if not (function or launcher) and (sentence := choice(plain)):
        raise BadInput(sentence)
    sources = [source, *headers.values()]
    inner = ""
    if not launcher:
        found, launcher = _launcher(function, every, sources)
        inner = found.name
    if launcher:
        offered = [f for f in functions(code(pieces(launcher))) if c_launcher.is_plain(f)]
        wanted = function if function in [f.name for f in offered] else None
        found = offered[_chosen([f.name for f in offered], wanted, "(--launcher) has")]
        sources = [launcher, *sources]
    draft = c_launcher.draft_of(found, sources, entry, shapes, inner)
    draft = replace(draft, baseline=file, launcher=launcher)
    return (
        draft
        if not launcher
        else replace(draft, binding={**draft.binding, "launcher": written.FILE})
    )


def _spelt(
    name: str,
    source: str,
    entry: str,
    headers: Mapping[str, str],
    shapes: Mapping[str, tuple[str, ...]],
) -> Draft:
    """The draft of a function that is chosen with its template arguments or its class."""
    found = instance_of(name, source, headers)
    function = found.function
    if any(framework.TENSOR.search(p.type) for p in function.parameters):
        export = framework.Export(function.name, function, "", "plain", found.called)
        draft = extension.draft_of(export, found.source, entry, headers, shapes)
    else:
        draft = c_launcher.draft_of(function, [found.source, *headers.values()], entry, shapes)
    own = {"function": found.called, **({"signature": found.signature} if found.signature else {})}
    return replace(draft, binding={**draft.binding, **own})


def _is_host(function: Function, structs: Structs) -> bool:
    return not function.on_device and c_launcher.is_plain(function, structs.objects)


def _has(defined: Sequence[Function], name: str | None) -> bool:
    return any(function.name == name for function in defined)


def _launcher(
    name: str | None, every: Sequence[Piece], sources: Sequence[str]
) -> tuple[Function, str]:
    """A launcher of the file; or what is written around another function or a kernel. Raises
    BadInput where neither is there, or the choice is open."""
    defined = functions(code(every))
    structs = structs_of(sources)
    found = c_launcher.launchers(defined, every, structs.objects)
    found += [f for f in defined if f.name == name and _is_host(f, structs)]
    if found and name in (None, *(f.name for f in found)):
        return found[_chosen([f.name for f in found], name, "has the launchers")], ""
    able = [f for f in defined if written.is_written(f, structs)]
    launching = c_launcher.outermost(
        [f for f in c_launcher.launching(defined, every) if f in able], every
    )
    kernels = [f for f in able if "__global__" in f.returns]
    offered = [f for f in able if f.name == name] if name else launching or kernels
    if not offered:
        raise BadInput(_no_launcher(defined, name, [f.name for f in found or able]))
    chosen = offered[_chosen([f.name for f in offered], name, "has")]
    return chosen, written.written_launcher(chosen, structs)


def _chosen(names: Sequence[str], wanted: str | None, verb: str) -> int:
    if wanted is None and len(names) == 1:
        return 0
    if wanted in names:
        return names.index(wanted)
    offered = ", ".join(names)
    if wanted is None:
        raise BadInput(f"it {verb} {offered}: choose one with --op")
    raise BadInput(f"there is no function '{wanted}'; it {verb} {offered}")


def _no_launcher(defined: Sequence[Function], name: str | None, others: Sequence[str]) -> str:
    kernels = [f.name for f in defined if "__global__" in f.returns]
    if name and others:
        offered = f"it has {', '.join(others)}"
        if not _has(defined, name):
            return f"there is no function '{name}'; {offered}"
        return (
            f"{name} takes parameters that no contract can express: {offered}; or write a"
            " launcher, for --launcher"
        )
    if not kernels:
        return "it contains no CUDA kernel (__global__)"
    return (
        f"no launcher for {kernels[0]}: write one, such as void launch(const float* x, float* out,"
        " int n, cudaStream_t stream), in a file for --launcher, or give the file that has"
        " PYBIND11_MODULE, TORCH_LIBRARY or TVM_FFI_DLL_EXPORT_TYPED_FUNC"
    )
