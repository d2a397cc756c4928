"""Strategies: how the packs of a request are made."""
