"""Timing: samples to times, intervals and a verdict.

verdict      faster, tie or slower: candidate beside baseline, case by case
gpu_samples  a GPU's raw samples to one case's time: interval, A/A noise, limits
intervals    the interval of the mean ratio over all cases
"""
