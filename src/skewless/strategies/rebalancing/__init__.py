"""The pieces of the moving strategies that keep a routing table over a consistent-hash ring."""
