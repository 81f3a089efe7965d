"""Translates PTX to the C files of the virtual GPU's C engine; compiles and runs nothing."""

from __future__ import annotations

from pathlib import Path

from astra_chat.tools.sandbox.seccomp import lock
from astra_chat.tools.system.reporter import Reporter
from astra_chat.tools.virtual_gpu.adapter import c_sources


def main() -> None:
    """Write N.c for each kernel, and report its name."""
    reporter = Reporter()
    request = reporter.request
    lock(reporter.pipe)
    sources = c_sources(Path(request["ptx"]), request["engine"], request["only"])
    for index, (kernel, source) in enumerate(sources.items()):
        (Path(request["folder"]) / f"{index}.c").write_text(source)
        reporter.send("kernel", index=index, kernel=kernel)


if __name__ == "__main__":
    main()
