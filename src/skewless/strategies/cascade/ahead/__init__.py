"""Cascade with foresight: a batch is counted first, then all of it is decided.

Read `strategy` first: the idea, the guarantee, what a merge and a rescale keep, and the loop over
blocks of a batch. `state` names every number, and what the ledger holds; it also finds the keys of
a block and what is known of them. `placing` gives each key its workers.
"""
