"""SGLang's own tests of operators, run with a package's winners and without.

results    what the tests found, summed up
inside/    the pytest plugin and further tests, in the engine's Python
"""
