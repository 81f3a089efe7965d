"""The judge: builds, checks, times and profiles CUDA kernels. It is usable alone, without the chat.

judge            Judge: one candidate in, one Evaluation out
judge_steps      the steps of one evaluation, in their order, up to its outcome
types            case, device, outcome: the values that everything exchanges
field_notes      texts below the fields of a class, for JSON schemas
dtypes           dtypes of tensors: names, sizes, codes
language         languages of candidates: CUDA, Triton, torch extensions
known            numbers that a candidate's code compares with
evaluation       what the judge found about one candidate, step by step
cpp_heads        heads of C++ functions in several lines
cpp_tokens       tokens of a CUDA C++ source, as its preprocessor reads them
judge_version    a hash of the judge's own files
mangled          names of kernels as a reader knows them
template_arguments  their template arguments
task/            the contract of a kernel (task.toml)
policy/          source policy: what a candidate may say
triton/          candidates in Triton: what they may hold, and their CUDA text
build/           nvcc, and the binding of a kernel to PyTorch
plan/            launch plans: what a candidate's host code launches
run/             runner processes and the float64 oracle
report/          what the judge found, as tables and sentences
runners/         programs of the child processes: torch is imported only here
check/           correctness: outputs, hidden cases, error norms, sanitizers
timing/          times on a GPU, and the verdict: faster, tie or slower
profiling/       bottleneck, Nsight Compute metrics, roofline
ranks/           kernels over several GPUs: the judge's steps on a group of ranks
sandbox/         isolation: bubblewrap, Landlock, seccomp
mutation/        mutation testing: seeded bugs of a baseline
tuning/          constants of a kernel, chosen without a model
new/             `astra-chat new`: a kernel file to a task folder
capture/         `astra-chat capture`: calls of a user's program, and cases of them
walled/          candidates in a process of PyTorch, judged from another one
extension/       candidates that are torch extensions of several kernels
system/          CUDA toolkit, devices, GPU lock, child processes, cache
virtual_gpu/     runs PTX without a GPU: the package astra_vgpu, and what the judge uses of it
recordings/      recorded runs and measurements in one compressed archive
entropy          the source of all random numbers; seeds
descriptions     sentences for outcomes, builds and metrics
explain          what each gate of an evaluation did, and what it cannot rule out
prefetch         what later steps need, begun while nvcc works
progress         progress messages for the live view
task_validation  `tasks check`: is a task fit for judging?
text             untrusted text in prompts and terminals: fences, invisible characters
wording          numbers with their nouns; "did you mean"
"""

import sys

try:
    import astra_vgpu.ground  # noqa: F401
except ModuleNotFoundError:
    # As a MissingDependency is told: its class is in what is missing.
    print(
        "astra-vgpu, Astra's virtual GPU, is not installed: pip install ./tools/virtual_gpu in the"
        " checkout, or its wheel; to run from a checkout without installing, set PYTHONPATH to it"
        " and to its tools/virtual_gpu",
        file=sys.stderr,
    )
    raise SystemExit(3) from None
