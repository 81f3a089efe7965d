"""`astra-chat new`: writes a task folder from a kernel file; nothing is overwritten."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from astra_chat.tools.errors import BadInput
from astra_chat.tools.new import c_launcher, extension, framework
from astra_chat.tools.new.draft import Draft
from astra_chat.tools.new.headers import gathered
from astra_chat.tools.new.source import BadSource, Function, code, functions, pieces
from astra_chat.tools.new.task_files import files


def new_task(name: str, kernels: Sequence[Path], function: str | None = None) -> tuple[Path, str]:
    """Write the folder `name` from a kernel's files; its path, and a sentence about what was read.

    `function` chooses where the file offers several. Raises BadInput.
    """
    if not re.fullmatch(r"[a-z_][a-z0-9_]*", name):
        raise BadInput(f"'{name}' is not a valid task name: lower-case letters, digits and _ only")
    folder = Path(name)
    if folder.exists():
        raise BadInput(f"{folder} exists: nothing was written; choose another name or remove it")
    called = ", ".join(kernel.name for kernel in kernels)
    given = gathered(kernels)
    try:
        draft = draft_of(given.source, name, function, given.headers)
        if not draft.dims or not any(t.written for t in draft.tensors):
            what = "no tensor that it writes" if draft.dims else "no size (an integer: int n)"
            raise BadInput(f"{draft.origin} takes {what}: a task needs one")
    except BadSource as error:
        raise BadInput(f"{given.place(error.line)}: {error.reason}") from None
    except BadInput as error:
        raise BadInput(f"{called}: {error}") from None
    origin = f"{called}, {draft.origin}, as its author wrote it"
    texts = files(name, draft, origin, tuple(given.headers)) | given.headers
    folder.mkdir(parents=True)
    for file, text in texts.items():
        (folder / file).write_text(text)
    return folder, draft.origin


def draft_of(
    source: str, name: str, function: str | None, headers: Mapping[str, str] | None = None
) -> Draft:
    """What a kernel file offers, as a draft. Raises BadInput."""
    plain = code(pieces(source))
    defined = functions(plain)
    names, headers = {piece.text for piece in plain}, headers or {}
    entry = name if name not in names else f"{name}_launcher"
    if exports := framework.exports(plain, defined):
        chosen = _chosen([e.name for e in exports], function, "exports")
        return extension.draft_of(exports[chosen], source, defined, entry, headers)
    found = c_launcher.launchers(defined, plain)
    if not found:
        raise BadInput(_no_launcher(defined))
    chosen = _chosen([f.name for f in found], function, "has the launchers")
    return c_launcher.draft_of(found[chosen], source, plain, entry, headers)


def _chosen(names: Sequence[str], wanted: str | None, verb: str) -> int:
    if wanted is None and len(names) == 1:
        return 0
    if wanted in names:
        return names.index(wanted)
    offered = ", ".join(names)
    if wanted is None:
        raise BadInput(f"it {verb} {offered}: choose one with --function")
    raise BadInput(f"there is no function '{wanted}'; it {verb} {offered}")


def _no_launcher(defined: Sequence[Function]) -> str:
    kernels = [f.name for f in defined if "__global__" in f.returns]
    if not kernels:
        return "there is no CUDA kernel (__global__) in it"
    return (
        f'no launcher for {kernels[0]}: add one, such as extern "C" void launch(const float* x,'
        " float* out, int n, cudaStream_t stream), or give the file that has PYBIND11_MODULE,"
        " TORCH_LIBRARY or TVM_FFI_DLL_EXPORT_TYPED_FUNC"
    )
