"""A candidate's own lines, as the preprocessor leaves them."""

from __future__ import annotations

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.build.preprocessed import own_lines
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.task.folder import find_task

TEXT = """# 0 "kernel.cu"
# 1 "kernel.cu"
# 1 "/usr/include/stdio.h" 1 3 4
extern int printf(const char*, ...);
# 2 "kernel.cu" 2

__attribute__((global)) void k() {
  two
# 5 "kernel.cu"
      halves;
# 9 "kernel.cu"
}
"""


def test_each_line_stands_where_it_stands_in_the_source() -> None:
    lines = own_lines(TEXT.splitlines()).split("\n")
    assert lines == ["", "", "__global__ void k() {", "  two", "      halves;", "", "", "", "}"]


def test_pieces_of_one_line_are_joined() -> None:
    assert own_lines(['# 1 "kernel.cu"\n', "a\n", '# 1 "kernel.cu"\n', "b\n"]) == "a b"


def test_both_compilers_texts_are_kept() -> None:
    task = find_task("silu_and_mul")
    source = task.baseline.replace(
        'extern "C"',
        "#define J(a, b) a##b\n#ifdef __CUDA_ARCH__\nint J(on_, device);\n#else\nint J(on_, host);"
        '\n#endif\nextern "C"',
    )
    built = build(task, source, virtual_device("h200"))
    assert isinstance(built, Build), built
    host, device = built.expanded("host"), built.expanded("device")
    assert "int on_host;" in host and "on_device" not in host
    assert "int on_device;" in device and "on_host" not in device
    line = source.split("\n").index("int J(on_, host);")
    assert host.split("\n")[line].strip() == "int on_host;"
    assert "printf" not in host and len(host.split("\n")) <= source.count("\n") + 1
