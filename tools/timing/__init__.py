"""Timing: samples to times, intervals and a verdict.

raw_samples  all samples of a case as text for a transcript, and back
verdict      times every case; the rule: faster, tie or slower than the baseline
gpu_samples  a GPU's raw samples to one case's time: interval, A/A noise, limits
module_times  a candidate beside the PyTorch module that its task is
regression   is a kernel slower: the rule of gate and of --fail-if slower
best         the best of several candidates, also where memory counts
comparison   two candidates of a run: what difference is a tie
intervals    figures over all cases: the mean ratio and its interval

The timing loop itself, with CUDA-graph replay and the L2 flush, runs in the runner process:
runners/cuda_timing.py and runners/cuda_buffers.py.
"""
