"""How evenly the work was spread: read from the ledger, and told to people and to Prometheus.

Read `balance` first: what the reports of one micro-batch say. `explaining` is the verb
`explain_balance`, and `listener` reports every micro-batch as it completes. `history` follows a
ledger while its query runs, for the live page; `seen_batches` is what it keeps of a micro-batch.
`prometheus` and `text_tables` are the formats.
"""
