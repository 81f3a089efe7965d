"""Check: is a candidate correct?

calls                  one call against the oracle, argument by argument
checker                the check step: which calls, on which cases, against which reference
compare                what a call left against the oracle, argument by argument
kinds/                 judgement kinds: close, exact, quantized, accept, distribution
measured_values        the numbers of a run whose precision is measured
bands                  precision by place: which results are near enough to a midpoint
column_bias            errors of some columns that lean one way
ties                   exact results in the middle of two values
precision_seen         what a check saw of a candidate's precision over all cases
norm                   the error norm of an argument on a case
error_pattern          what wrong results have in common, in words
imprecise              wrong results within the tolerance: how far off, and what to do
error_norms            a kernel's error beside the baseline's own, in units in the last place
floats                 dtypes as numbers: bytes to float64, rounding, ulps
learning               the baseline run on cases, to learn its own errors there
lost_cases             cases that the baseline fails: what is drawn instead, and the floor
extremes               calls with each dim at its least and at its greatest extent
failed                 cases that the baseline fails, and what it did there
causes                 why a baseline fails a legal case: one thing set back to usual
hidden_cases           cases drawn from the whole legal domain
covering               covering arrays: each pair or triple of factors' levels in few rows
covering_cases         the factors of a task, and cases with all their pairs or triples
covering_levels        levels of dims: served extents, powers of two, groups of others
covering_options       levels of scalars, absent arguments and alignment
beyond                 calls of other kernels and far calls, begun beside the oracle's
kernels                which kernels the calls launch, and calls for those that none does
repeats                hidden cases as calls, and some of them again
same_rows              rows that calls share, bit for bit, where a contract is batch-invariant
drawn_rows             calls that share rows: a large one, and others on some of its rows
sweep                  on a GPU a thousand drawn cases, compared with the baseline there
drawn_dims             extents of drawn cases: boundaries, even distances, many rows
drawn_together         several large dims at once, and extents near those of timed calls
drawn_served           extents of timed calls, one dim at a time; round ones and their neighbours
drawn_values           value families of arguments: each its own, or small ones together
drawn_large            large numbers that every check has
drawn_ties             large numbers whose products lie in the middle of two values
drawn_layouts          paddings and addresses of drawn cases
drawn_placements       how arguments of drawn cases lie to each other: packed, neighbours, apart
known_numbers          numbers that a candidate's code compares with
ptx_numbers            those of its PTX, led back to what they were computed from
ptx_steps              one step back from the result of a PTX instruction
host_numbers           those of its host code: literals, and constants of the built object
cases_by_heart         cases of these numbers: extents, strides and scalars
drawn_totals           extents whose product is such a number
planted_numbers        cases whose arguments hold these numbers
last_store             which statement stored a wrong result: help for its author
launch_limits          launches of the largest legal calls, recorded and not run
far_calls              calls too large for an oracle: their addresses, how much they write
far_blocks             blocks of a far call that leave out what is theirs
trivial_outputs        outputs that cost nothing must fail a task's own cases
large_atol             tolerances whose atol is large beside the results
winner                 the sanitize step: what a winner on a real GPU has to pass; its small cases
shipped_launcher       the real launcher on a GPU, captured and compared with its plans
compute_sanitizer      Compute Sanitizer over a candidate on a real GPU
"""
