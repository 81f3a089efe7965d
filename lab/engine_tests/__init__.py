"""SGLang's own tests of operators, run with a package's winners and without.

inside/    the pytest plugin and further tests, in the engine's Python
"""
