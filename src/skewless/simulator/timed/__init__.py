"""The clock of a simulation: queues, speeds, states that move, and latencies.

Begin with `timing`, which says how long things take, then `clock`, which a simulation talks to.
`queueing` is the loop over all records.
"""
