"""Mutation testing: which seeded bugs of a task's baseline do its cases, and the tester's, notice?

The method is of DeMillo, Lipton and Sayward, "Hints on Test Data Selection" (IEEE Computer 11(4),
1978): a test is as good as the small faults that it tells from the program. operators.py makes the
faults, mutants.py draws and builds some, scoring.py runs them on cases.
"""
