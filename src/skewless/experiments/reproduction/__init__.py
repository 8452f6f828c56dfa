"""Tables and figures of the five papers as data: what they claim, and what we measure.

`figure` says what a figure is, `cells` what can be measured, `verdicts` what counts as reproduced.
`papers` has one folder per paper. `runner` measures, and keeps a raw record of each cell.
"""
