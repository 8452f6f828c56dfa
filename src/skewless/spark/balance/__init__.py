"""How evenly the work was spread, read from the ledger.

Read `balance` first: the balance of one micro-batch, from its reports. `explaining` is the verb
`explain_balance`, and `listener` records every micro-batch as it completes. `history` follows a
ledger while its query runs, for the live page.
"""
