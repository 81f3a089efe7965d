"""Mutation testing: which seeded bugs of a source do a task's cases, and the tester's, detect?

operators  mutation operators: small faults as edits of C++ tokens
mutants    draws faults that a valid case reaches and builds them together
mutant_runs  runs mutants on cases in the sandbox; keeps the scores on disk
scores     the results: killed and surviving mutants

The method is of DeMillo, Lipton and Sayward, "Hints on Test Data Selection" (IEEE Computer 11(4),
1978): a test is as good as the small faults that it tells from the program.
"""
