"""Published figures as data: `reproduction/` has them, `tables` writes their tables."""
