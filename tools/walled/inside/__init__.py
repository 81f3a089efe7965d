"""Programs of the two walled processes; torch only here.

ours       asks, compares and says what it found: it never loads a candidate
theirs     loads the candidate and calls it as `ours` asks
exact      the module in float64 and in its own dtypes, and when a result is right
operators  which operators and kernels a call runs
handover   requests and answers as files
timed      times of calls, and calls captured into CUDA graphs
"""
