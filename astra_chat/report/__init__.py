"""Recorded runs as one HTML page.

command         `astra-chat report`
html            transcripts to the page
run_page        what the page shows of one run
comparison      several runs side by side
rounds          a run by rounds: plans, candidates, what changed between sources, results
turns           every turn as text
highlight       syntax colours
figures         plots as SVG in the colours of the page
round_plots, case_plots, part_plots  the plots of one run
templates/      the page: one file a section, style sheet and script
"""
