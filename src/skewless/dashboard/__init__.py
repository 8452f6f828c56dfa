"""Plots and pages: the only folder that imports Bokeh."""
