"""Profiling: why a candidate takes as long as it does.

profile            a GPU's hardware counters; the virtual GPU's counts and model without one
hardware_counters  counters by CUPTI, in the process that launches; of what cases
nsight_compute     counters by Nsight Compute, round that process
metrics            Nsight Compute's metrics, and what follows from them by stated rules
ncu_cross_check    Nsight Compute's durations of the calls that the judge timed
ncu_agreement      whether those durations agree with the judge's
"""
