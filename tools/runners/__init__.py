"""Programs of child processes: the two runners, the oracle, the PTX translator. torch only here.

oracle          inputs and float64 results from a task's reference.py; whether that is sound
references      reference.py, or the function of PyTorch's that task.toml names
modules         a PyTorch module as a function of its inputs and weights
module_trace    reads such a module: its contract and its operators
module_values   values with which it is called, and PyTorch's own errors then
module_calls    ways in which PyTorch runs such a module: eager, torch.compile
float64         a function of PyTorch's run in float64
answers         reference.py's results as the contract says; what accept and canonical say
bands           the sums of terms that a case's bands rest on
values          value families: what the numbers of a case look like
indices         legal values of index arguments, by the kind of the index
arguments       shared by the runners: poison, files of a case, the candidate's library
cuda            the runner on a real GPU: checks and times a candidate; two calls at once
cuda_guarded    the blocks of a call between poisoned guards
cuda_timing     the GPU timing loop: CUDA-graph replay, ABBA order, event pairs; all sets compared
cuda_module     a module of PyTorch's in that loop, beside a candidate
cuda_buffers    buffers for timing: rotation, and the L2 flush between cold launches
cuda_sweep      many drawn cases, candidate beside baseline, compared on the device
cuda_compare    the comparison itself: a candidate's results beside the baseline's
cuda_state      module variables: changes seen on the device, and restored
cuda_poison     poison in shared memory and on stacks; inputs that arrive late
cuda_once       a few calls without torch, under Compute Sanitizer or Nsight Compute
cuda_profiled   calls under Nsight Compute's clock
cuda_counters   calls under CUPTI's range profiler, in passes
cupti           that profiler, by ctypes
cuda_placed     arguments in the CUDA driver's memory, lying as their case says
cuda_plans      launch plans on a real GPU, without host code of a candidate
cuda_capture    the real launcher captured into a CUDA graph, beside its launch plans
cuda_graph      the nodes of a captured CUDA graph
recorded_plans  launch plans of many cases, recorded beside the judge
virtual         the runner on the virtual GPU: launch plans, without host code of a candidate
fault_text      faults of the virtual GPU by argument and element
virtual_far     a few blocks of calls too large for an oracle: their addresses, how much they write
ranks/          programs of one rank of a kernel over several GPUs
translate       PTX to the C engine's files

Each is started with `python -m` and reports over a private pipe (system/subprocesses.py).
"""
