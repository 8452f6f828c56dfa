"""Compiled pieces that two or more strategies use."""
