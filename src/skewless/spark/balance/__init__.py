"""How evenly the work was spread: read from the ledger, and told to people and to Prometheus."""
