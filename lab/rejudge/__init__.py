"""Published kernels of others, judged again: `python -m lab.rejudge`, docs/research/field.md.

sets             pairs of problem and candidate out of a set's folder
published        such a pair
kernelbench_com  pairs of kernelbench.com's H100 deck
robust_kbench    pairs of robust-kbench
table            rows of the table, as JSON and Markdown
page             the tables of docs/research/field.md

Each pair is judged in two walled processes (tools/walled/).
"""
