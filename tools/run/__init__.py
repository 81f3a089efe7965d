"""Run: candidates in runner processes, and the oracle beside them.

runner            runs a built candidate in a child process, case by case
requests          what a runner process is asked: calls, limits of time, poison, compiled kernels
launch_plans      what each call launches, recorded once a case; of many in a process of their own
protocol          requests to and reports of runner processes, as frozen models
rank_messages     what a rank of a group is asked and what it reports
raw_times         what timing on a GPU measured, every replay
processes         the pool of runner processes that were started early
early_contexts    CUDA contexts made ahead of need, in processes that wait
band_files        sums of terms and rounded results beside the expected ones
case_run          outputs of one call, and its report
looked_at         runs that several threads look at, in their order
failures          the failures that a runner process reports; names of CUDA errors
nvidia_tools      calls of a candidate under Nsight Compute or Compute Sanitizer
oracle            inputs and float64 results of a case, made by the oracle processes
kept_results      its results that every run needs, in the cache
oracle_process    those processes: their start, their requests, and which makes what
"""
