"""Run: candidates in runner processes, and the oracle beside them.

runner            runs a built candidate in a child process, case by case
batch             the calls of one runner process, and its limits of time
launch_plans      what each call launches, recorded once a case
protocol          requests to and reports of runner processes, as frozen models
raw_times         what timing on a GPU measured, every replay
processes         the pool of runner processes that were started early
virtual_requests  requests to the virtual GPU's runner: launch plans, compiled kernels
known_baseline    what was seen of the baseline: estimates, host times, right results
band_files        sums of terms and rounded results beside the expected ones
case_run          outputs of one call, and its report
failures          the failures that a runner process reports; names of CUDA errors
poison            the bit patterns that outputs, guard bands and padding hold before a call
output_files      files that a child process wrote: may the judge read them?
nvidia_tools      calls of a candidate under Nsight Compute or Compute Sanitizer
oracle            inputs and float64 results of a case, made by the oracle process
"""
