"""The tables and figures of the five papers: what they claim, and what we measure.

`papers` has a folder for each paper: its figures as data (`*.toml`), and the Python that these
name: what makes their cells, and columns and numbers of its own. `figure` says what a
figure is, `numbers` what the number of a claim can be, `table` how it finds what was measured.
`runner` measures, and keeps a raw record of each cell; `results` has the verdicts.
"""
