"""Plots and pages: the only folder that imports Bokeh.

Read `figures` and `page_style` first: the style of all plots and pages. `comparison`, `job_report`,
`key_page` and `keyed_state` are pages of one command or benchmark each. The live page is
`live_page`, from `live_columns` and `live_texts`, served by `live_server`. `pictures` and
`strategy_pictures` draw for documents.
"""
