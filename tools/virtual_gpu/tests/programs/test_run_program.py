"""Whole programs, as somebody would write them, with their own main()."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import pytest

from astra_vgpu.__main__ import main
from astra_vgpu.ground.gpu_specs import spec
from astra_vgpu.programs.build_program import build_program
from astra_vgpu.programs.report_text import describe
from astra_vgpu.programs.run_program import (
    ProgramRun,
    run_built,
    run_program,
)

PROGRAMS = Path(__file__).parents[1] / "programs"


@functools.cache
def _built(name: str, gpu: str) -> Path:
    """Once for all tests: most of what a run takes is the compiler's."""
    folder = tempfile.TemporaryDirectory(prefix="astra-programs-")
    _folders.append(folder)
    return build_program([PROGRAMS / f"{name}.cu"], Path(folder.name), spec(gpu))


_folders: list[tempfile.TemporaryDirectory[str]] = []
"""They go when this process ends."""


def run(name: str, *arguments: str, gpu: str = "h200", **options: object) -> ProgramRun:
    source = PROGRAMS / f"{name}.cu"
    return run_built(_built(name, gpu), source, arguments, gpu=gpu, **options)  # type: ignore[arg-type]


@pytest.mark.second_tier
def test_vector_add(capfd: pytest.CaptureFixture[str]) -> None:
    done = run("vector_add", "3000")
    assert capfd.readouterr().out == "added 3000 elements\n"
    assert (done.exit_code, done.faults, done.leaked, done.ended) == (0, (), (), "")
    assert [(launch["grid"], launch["block"]) for launch in done.launches] == [
        ([12, 1, 1], [256, 1, 1])
    ]


@pytest.mark.second_tier
def test_managed_memory_symbols_occupancy_and_both_launch_paths(
    capfd: pytest.CaptureFixture[str],
) -> None:
    done = run("reduction", gpu="a100")
    words = capfd.readouterr().out
    assert done.exit_code == 0 and "A100" in words and "sum 262144" in words
    assert len(done.launches) == 2 and done.leaked == (256,)
    assert "1 buffers were not freed, 256 bytes" in describe(done, "a100", profile=False)


@pytest.mark.second_tier
def test_events_tell_estimated_time_and_profile_tells_why(
    capfd: pytest.CaptureFixture[str],
) -> None:
    done = run("transpose")
    assert done.exit_code == 0, capfd.readouterr().out
    words = describe(done, "h200", profile=True)
    assert "12 launches, estimated" in words and "_Z5naivePfPKf: 6 launches" in words
    assert "a store request through L2 take" in words
    assert "262144 stored, 0 shared wavefronts" in words


@pytest.mark.second_tier
def test_a_graph_that_was_captured_runs_as_often_as_it_is_launched(
    capfd: pytest.CaptureFixture[str],
) -> None:
    done = run("graph")
    assert done.exit_code == 0, capfd.readouterr()
    assert len(done.launches) == 6


@pytest.mark.second_tier
def test_a_fault_is_told_with_its_place(capfd: pytest.CaptureFixture[str]) -> None:
    done = run("broken", "k")
    assert "after: an illegal memory access" in capfd.readouterr().out
    (fault,) = done.faults
    for part in (
        "write of 4 bytes",
        "cudaMalloc number 1 of 4000 bytes, offset 4000",
        "broken.cu:8",
        "block (7, 0, 0), thread (104, 0, 0)",
    ):
        assert part in fault
    assert (done.code, done.exit_code) == (0, 1)
    assert "1 launches, 1 of them stopped, estimated 0.0 us" in describe(
        done, "h200", profile=False
    )
    assert done.leaked == (), "cudaFree fails after it"


@pytest.mark.second_tier
def test_products_and_random_numbers_of_libraries_are_made_on_the_host(
    capfd: pytest.CaptureFixture[str],
) -> None:
    words = ["run", str(PROGRAMS / "libraries.cu"), "-lcublas", "-lcurand", "--", "wrong ones too"]
    assert main(words) == 1
    out, err = capfd.readouterr()
    assert out == "0 wrong products\n0 wrong draws\nstatus 13, cudaErrorIllegalAddress\n"
    for told in (
        "out_of_bounds: matrix C of 4 x 4 elements of 4 bytes",
        "32 bytes, offset 0 (host code, c",
        "uninitialized_read: cublasSgemm reads matrix A, which nothing wrote",
        "answered on the host, without an estimate: 5 cublasSgemm, 8 cublasGemmEx",
    ):
        assert told in err


@pytest.mark.second_tier
def test_vectors_and_plain_products_of_cublaslt_are_made_on_the_host(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    flags = ("-lcublas", "-lcublasLt")
    source = PROGRAMS / "vectors.cu"
    library = build_program([source], tmp_path, spec("h200"), flags)
    done = run_built(library, source)
    out = "0 wrong vectors\n0 wrong of level 2\n0 wrong of Lt\n"
    assert capfd.readouterr().out == out + "0\n"
    assert "cublasLtMatmul with an epilogue is not supported" in done.refused
    words = describe(done, "h200", profile=False)
    assert "1 cublasIsamax" in words and "2 cublasSgemv" in words and "4 cublasLtMatmul" in words
    (fault,) = run_built(library, source, ["past the end"]).faults
    assert capfd.readouterr().out == out + "status 13\n"
    assert "matrix x of 1 x 3 elements of 4 bytes" in fault and "host code, cublasSasum" in fault


@pytest.mark.second_tier
def test_a_copy_to_the_host_of_what_nothing_wrote_is_told() -> None:
    """Also where a part was written; padding is not."""
    first, rows, half, rest = run("copies").warnings
    assert first == (
        "uninitialized_copy: a copy to the host of 1024 bytes that nothing wrote, at offset 0 of"
        " cudaMalloc number 6 (4096 bytes)"
    )
    assert "150 bytes" in rows and "at offset 2048 of cudaMalloc number 8" in rows
    assert "of 3200 bytes, 1600 of which nothing wrote, at offset 1600" in half
    assert "of 1000 bytes, 4 of which nothing wrote, at offset 996" in rest
    assert not run("copies", "after a fault", keep_going=True).warnings


@pytest.mark.parametrize("engine", ["numpy", "c"])
def test_a_use_after_free_names_the_buffer(engine: str) -> None:
    done = run("broken", "u", engine=engine)
    (fault,) = done.faults
    words = "a use after free: offset 0 of cudaMalloc number 1 of 4000 bytes, which was freed"
    assert words in fault and "broken.cu:8" in fault


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("w", "writes to device memory: cudaMalloc number 1 of 4000 bytes, offset 12;"),
        ("r", "reads device memory: cudaMalloc number 1 of 4000 bytes, offset 1000;"),
        ("f", "reads device memory: cudaMalloc number 1, already freed, of 4000 bytes"),
    ],
)
def test_host_code_that_touches_device_memory_dies_of_it(
    how: str, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    done = run("broken", how)
    assert words in capfd.readouterr().err
    assert done.exit_code == 139 and done.ended == "killed by SIGSEGV"


def test_how_else_a_program_may_end() -> None:
    aborted, leaking = run("broken", "a"), run("broken", "l")
    assert (aborted.exit_code, aborted.ended) == (134, "killed by SIGABRT")
    assert (leaking.exit_code, leaking.leaked) == (0, (4000,))


@pytest.mark.second_tier
def test_a_program_that_does_not_end_is_stopped(tmp_path: Path) -> None:
    endless = tmp_path / "endless.cu"
    endless.write_text('int main() { for (;;) asm volatile(""); }')
    done = run_program(endless, timeout_s=3.0)
    assert done.exit_code == 124 and done.ended == "stopped after 3 s"


@pytest.mark.second_tier
def test_a_file_without_main_and_one_that_asks_for_too_much(tmp_path: Path) -> None:
    empty = tmp_path / "empty.cu"
    empty.write_text("__global__ void k() {}\nvoid f() { k<<<1, 1>>>(); }")
    done = run_program(empty)
    assert done.exit_code == 2 and done.refused == f"{empty}: there is no main()"
    lacking = tmp_path / "lacking.cu"
    lacking.write_text(
        "#include <cuda_runtime.h>\nint main() { cudaArray_t a; return cudaFreeArray(a); }"
    )
    refused = run_program(lacking)
    assert "not all of it ran" in describe(refused, "h200", profile=False)
    assert refused.exit_code == 3 and "cudaFreeArray is not supported" in refused.refused


def test_the_calls_that_programs_make_beside_launches() -> None:
    done = run("api")
    assert (done.code, done.refused, done.faults, done.leaked) == (0, "", (), ())


@pytest.mark.parametrize("engine", ["numpy", "c", "auto"])
@pytest.mark.second_tier
def test_a_block_may_wait_for_those_before_it(
    engine: str, capfd: pytest.CaptureFixture[str]
) -> None:
    done = run("look_back", engine=engine)
    assert done.exit_code == 0, (done.faults, capfd.readouterr())


def test_what_stopped_a_kernel_is_told_although_the_program_aborts(tmp_path: Path) -> None:
    strict = tmp_path / "strict.cu"
    strict.write_text(
        "#include <cstdlib>\n__global__ void k(int* p) { p[threadIdx.x] = 1; }\n"
        "int main() { k<<<1, 32>>>(nullptr); if (cudaDeviceSynchronize()) abort(); }"
    )
    done = run_program(strict)
    assert done.ended == "killed by SIGABRT" and "a null pointer" in done.faults[0]


@pytest.mark.parametrize("engine", ["numpy", "c"])
@pytest.mark.second_tier
def test_what_kernels_print_is_printed(engine: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("prints", engine=engine).exit_code == 0
    lines = capfd.readouterr().out.splitlines()
    tail = "-5000000000 18446744073709551615 0x1234"
    blocks = [
        [
            f"block {block} of 2: {name}",
            f"  thread  0 left|+1.500 5.000000e-01  12.3% a 0xff {tail}",
            f"  thread  1 left|+1.500 5.000000e-01  12.3% b 0x100 {tail}",
            "   -42|no argument behind %d|",
        ]
        for block, name in enumerate(("even", "odd"))
    ]
    assert lines == ["before", *blocks[0], *blocks[1], "after 0"]


@pytest.mark.parametrize("engine", ["numpy", "c"])
@pytest.mark.second_tier
def test_functions_are_called_through_pointers(engine: str) -> None:
    assert run("pointers", engine=engine).exit_code == 0
    wild = run("pointers", "wild", engine=engine)
    assert wild.code == 2 and "trap" in wild.faults[0]


@pytest.mark.second_tier
@pytest.mark.parametrize("engine", ["numpy", "c"])
def test_a_cooperative_launch(engine: str, capfd: pytest.CaptureFixture[str]) -> None:
    done = run("cooperative", engine=engine)
    assert capfd.readouterr().out == (
        "wrong 0, sum right\none too many: too many blocks in cooperative launch\n"
        "last: cudaErrorCooperativeLaunchTooLarge\n"
    )
    assert (done.exit_code, done.faults, len(done.launches)) == (0, (), 2)


@pytest.mark.parametrize("engine", ["numpy", "c"])
@pytest.mark.second_tier
def test_recursion_and_alloca(engine: str, capfd: pytest.CaptureFixture[str]) -> None:
    done = run("recursion", engine=engine)
    assert capfd.readouterr().out == "fib 0\ntree 0\nparity 0\nsort 0\nrooms 0\n"
    assert (done.exit_code, done.faults, done.refused) == (0, (), "")


@pytest.mark.second_tier
def test_too_deep_a_recursion_is_told_by_its_line(capfd: pytest.CaptureFixture[str]) -> None:
    done = run("recursion", "deep")
    source = (PROGRAMS / "recursion.cu").read_text().splitlines()
    (line,) = (n for n, text in enumerate(source, 1) if "int down(int n)" in text)
    assert "deep: cudaErrorIllegalAddress" in capfd.readouterr().out
    assert f"recursion.cu:{line}" in done.faults[0] and "local offset" in done.faults[0]


@pytest.mark.parametrize("engine", ["numpy", "c"])
@pytest.mark.second_tier
def test_kernels_that_allocate(engine: str, capfd: pytest.CaptureFixture[str]) -> None:
    done = run("heap", engine=engine)
    words = capfd.readouterr().out
    assert words == "lists 0\nshapes 0\nkept 0\ngreedy 1 1\ncudaErrorInvalidValue\n"
    assert (done.exit_code, done.faults, done.warnings) == (0, (), ())


@pytest.mark.parametrize(
    ("bug", "engine", "error", "words"),
    [
        ("beyond", "numpy", "cudaErrorIllegalAddress", "heap, which is not allocated"),
        ("after", "c", "cudaErrorIllegalAddress", "heap, which is not allocated, or was freed"),
        ("twice", "c", "cudaErrorLaunchFailure", "bad_free: free of an address"),
        (
            "uninitialized",
            "numpy",
            "cudaSuccess",
            "read of 4 bytes at offset 4 of the device's heap",
        ),
    ],
)
def test_misuse_of_the_devices_heap_is_told_by_line(
    bug: str, engine: str, error: str, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    done = run("heap", bug, engine=engine)
    source = (PROGRAMS / "heap.cu").read_text().splitlines()
    (line,) = (n for n, text in enumerate(source, 1) if text.endswith(f"// BUG {bug}"))
    (message,) = done.faults or done.warnings
    assert capfd.readouterr().out == f"{error}\n"
    assert words in message and f"heap.cu:{line}," in message


@pytest.mark.second_tier
def test_graphs_that_are_put_together_node_by_node(capfd: pytest.CaptureFixture[str]) -> None:
    done = run("nodes")
    assert capfd.readouterr().out == (
        "8 nodes, 2 roots\nhost: 5000.0\nhost: 10000.0\nhost: 23000.0\nlooked 3 times\n"
        "circle: invalid argument\nmemset kernel kernel child 9.0, updated 15.0, "
        "cudaErrorGraphExecUpdateFailure 1\n"
    )
    assert (done.exit_code, done.faults, len(done.launches)) == (0, (), 13)


@pytest.mark.parametrize("engine", ["numpy", "c"])
@pytest.mark.second_tier
def test_double_precision_tensor_cores(engine: str, capfd: pytest.CaptureFixture[str]) -> None:
    done = run("doubles", engine=engine)
    assert capfd.readouterr().out == "tiles: 0 wrong\nmma: 0 wrong\n"
    assert (done.exit_code, done.faults) == (0, ())


@pytest.mark.parametrize("engine", ["numpy", "c"])
@pytest.mark.second_tier
def test_several_threads_of_the_host_at_once(
    engine: str, capfd: pytest.CaptureFixture[str]
) -> None:
    done = run("threads", engine=engine)
    assert capfd.readouterr().out == "wrong 0 0 0 0\n"
    assert (done.exit_code, done.faults, done.ended, len(done.launches)) == (0, (), "", 48)


@pytest.mark.second_tier
def test_what_a_program_asks_the_device(capfd: pytest.CaptureFixture[str]) -> None:
    done = run("query")
    said = capfd.readouterr().out
    assert "attribute" not in said and "opt-in: cudaSuccess" in said, said
    assert "no opt-in: cudaErrorInvalidValue" in said and "own pool cudaSuccess" in said
    assert "pinned 1 managed 1 device 1 none 1\n" in said
    assert (done.exit_code, done.faults, done.refused) == (0, (), "")


@pytest.mark.second_tier
def test_calls_answer_as_on_an_h200(capfd: pytest.CaptureFixture[str]) -> None:
    done = run("answers")
    assert (done.exit_code, done.refused) == (1, "")
    answers = (PROGRAMS / "answers.txt").read_text()
    assert capfd.readouterr().out == answers and answers.count("\n") > 60


@pytest.mark.second_tier
def test_calls_that_wait_spoil_a_capture_and_memory_nodes_are_refused() -> None:
    assert [run("captures", how).exit_code for how in ("plain", "waits")] == [0, 0]
    refused = run("captures", "memory")
    assert refused.exit_code == 3 and "(memory nodes) is not supported" in refused.refused


@pytest.mark.second_tier
def test_a_kernel_that_is_refused_is_no_fault(tmp_path: Path) -> None:
    source = tmp_path / "texture.cu"
    source.write_text(
        "__global__ void k(cudaTextureObject_t t, float* o) { *o = tex2D<float>(t, 0.5f, 0.5f); }"
        "int main() { float* d; cudaMalloc(&d, 4); k<<<1, 1>>>(0, d); return cudaFree(d); }"
    )
    done = run_program(source)
    assert (done.code, done.exit_code, done.faults) == (0, 3, ())
    assert "tex.2d" in done.refused and "texture.cu:1" in done.refused


@pytest.mark.parametrize("engine", ["numpy", "c"])
@pytest.mark.second_tier
def test_virtual_functions_and_managed_variables(engine: str) -> None:
    done = run("shapes", engine=engine)
    assert (done.exit_code, done.faults, done.refused, done.leaked) == (0, (), "", ())


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A program of two .cu files, one .cpp and a header."""
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "parts.h").write_text("void add(int*, int);\nvoid twice(int*, int);\n")
    (tmp_path / "a.cu").write_text(
        "__device__ int step = STEP;\nstatic __global__ void k(int* p, int n) {\n"
        "  if (threadIdx.x < n) p[threadIdx.x] += step;\n}\n"
        "void add(int* p, int n) { k<<<1, 32>>>(p, n); }\n"
    )
    (tmp_path / "b.cu").write_text(
        "static __global__ void k(int* p, int n) { __shared__ int s[32];\n"
        "  s[threadIdx.x] = 2 * p[threadIdx.x]; p[threadIdx.x] = s[threadIdx.x]; }\n"
        "void twice(int* p, int n) { k<<<1, 32>>>(p, n); }\n"
    )
    (tmp_path / "main.cpp").write_text(
        '#include <cuda_runtime.h>\n#include <cstdio>\n#include <cstdlib>\n#include "parts.h"\n'
        "int main(int argc, char** argv) {\n  int *d, h[32] = {};\n"
        "  if (cudaMalloc(&d, sizeof h)) return 4;\n"
        "  cudaMemcpy(d, h, sizeof h, cudaMemcpyHostToDevice);\n"
        "  add(d, argc > 1 ? std::atoi(argv[1]) : 32);\n  twice(d, 32);\n"
        "  cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);\n  cudaFree(d);\n"
        '  std::printf("%d %d\\n", h[0], h[31]);\n}\n'
    )
    return tmp_path


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.second_tier
def test_a_program_of_several_sources(
    arch: str, project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    sources = [str(project / name) for name in ("a.cu", "b.cu", "main.cpp")]
    options = [f"-I{project / 'include'}", "-DSTEP=5", f"-arch={arch}", "-O1", "-std=c++17"]
    assert main(["run", *sources, *options, "--", "8"]) == 0
    out, err = capfd.readouterr()
    assert out == "10 0\n" and "2 launches" in err


def test_what_a_source_lacks_is_told_in_lines(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(project / "main.cpp"), f"-I{project / 'include'}"]) == 2
    error = capfd.readouterr().err
    first, *_ = error.splitlines()
    assert first.endswith(
        "main.cpp: add(int*, int) is used and not defined; name the file or the"
        " library (-l) that has it"
    )
    assert "Traceback" not in error and ".so" not in error
    assert main(["run", str(project / "a.cu"), "--flag=-rdc=true", "-DSTEP=1"]) == 3
    assert "(-rdc=true) is not supported on the virtual GPU" in capfd.readouterr().err
