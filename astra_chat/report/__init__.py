"""Recorded runs as one HTML page.

command     `astra-chat report`
html        transcripts to the page
plot        the plot of it, as SVG
sources     what each candidate changed, as diffs
page.html, plot.html, spent.html  templates
"""
