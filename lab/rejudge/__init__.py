"""Published kernels of others, judged again: `python -m lab.rejudge`, docs/research/field.md.

sets       pairs of problem and candidate out of a set's folder
processes  one pair in two walled processes
findings   what can be found, and how grave it is
table      rows of the table, as JSON and Markdown
inside/    the programs of the two processes
"""
