"""Run: candidates in runner processes, and the oracle beside them.

runner          runs a built candidate in a child process, case by case; the pool of processes
requests        what a runner process is asked: calls, limits of time, poison, compiled kernels
launch_plans    what each call launches, recorded once a case; reads before a grid has ended
protocol        requests to and reports of runner processes, as frozen models
rank_messages   what a rank of a group is asked and what it reports
early_contexts  CUDA contexts made ahead of need, in processes that wait
case_run        outputs of one call, and its report; runs that several threads look at
failures        the failures that a runner process reports; names of CUDA errors
nvidia_tools    calls of a candidate under Nsight Compute or Compute Sanitizer
oracle          inputs and float64 results of a case, made by the oracle processes and kept
oracle_process  those processes: their start, their requests, and which makes what
"""
