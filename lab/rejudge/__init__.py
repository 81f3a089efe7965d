"""Published kernels of others, judged again: `python -m lab.rejudge`, docs/research/field.md.

sets   pairs of problem and candidate out of a set's folder
table  rows of the table, as JSON and Markdown

Each pair is judged in two walled processes (tools/walled/).
"""
