"""Profiling: why a candidate takes as long as it does.

profile          Nsight Compute on a GPU; counters and the model without one
counts           what the virtual GPU counts, also beside what a GPU measured
metrics          Nsight Compute's metrics, and what follows from them by stated rules
ncu_cross_check  Nsight Compute's durations of the calls that the judge timed
ncu_agreement    whether those durations agree with the judge's
"""
