"""What winners gain in a step of the user's engine: `astra-chat step`.

samples    what was measured, as the engine's process writes it
running    that process, started with a package on its path
intervals  intervals of ratios
judged     the verdict of each variant and operator
page       the report page
command    the command
inside/    the program that measures, in the engine's Python
"""
