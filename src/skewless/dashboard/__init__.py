"""Plots and pages: the only folder that imports Bokeh.

Read `figures` and `page_style` first: the style of all plots and pages. `diagnose_pages` are the
pages of `skewless diagnose`. The live page is `live_page`, from `live_history`, served by
`live_server`.
"""
