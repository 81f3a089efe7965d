"""Check: is a candidate correct?

calls              one call against the oracle; some again; the statement that stored a wrong result
checker            the check step: which calls, on which cases, against which reference
compare            what a call left against the oracle, argument by argument; `accept`
kinds              judgement kinds: close, exact, quantized, accept, distribution
measured_values    the numbers of a run whose precision is measured
bands              precision by place: which results are near enough to a midpoint
column_bias        errors of some columns, and ties, that lean one way
norm               the error norm of an argument on a case
error_pattern      what wrong results have in common; how far off those within the tolerance are
error_norms        a kernel's error beside the baseline's own, in units in the last place
floats             dtypes as numbers: bytes to float64, rounding, ulps
learning           the baseline run on cases, to learn its own errors there
lost_cases         cases that the baseline fails: what is drawn instead, and the floor
causes             why a baseline fails a legal case: one thing at a time as in a case that passes
hidden_cases       cases drawn from the whole legal domain: served and round extents, placements
covering_cases     factors of a task and their levels; cases with all pairs or triples of them
covering_options   levels of scalars, absent arguments and alignment
kernels            which kernels the calls launch; calls for those that none does, begun early
same_rows          rows that calls share, bit for bit, and these calls, where a contract promises it
sweep              on a GPU a thousand drawn cases, compared with the baseline there
drawn_dims         extents of drawn cases: boundaries, even distances, many rows
drawn_together     several large dims at once, and extents near those of timed calls
drawn_values       value families of arguments: each its own, small or large ones together
drawn_layouts      paddings and addresses of drawn cases
known_numbers      numbers that a candidate's code compares with: of its host code, of its PTX
ptx_numbers        those of its PTX, led back to what they were computed from
cases_by_heart     cases of these numbers: extents, products, strides, scalars, values
launch_limits      launches of the largest legal calls, recorded and not run
far_calls          calls too large for an oracle: their addresses, how much they write
far_blocks         blocks of a far call that leave out what is theirs
trivial_outputs    outputs that cost nothing must fail a task's own cases
winner             the sanitize step: what a winner has to pass; its real launcher beside its plans
compute_sanitizer  Compute Sanitizer over a candidate on a real GPU
"""
