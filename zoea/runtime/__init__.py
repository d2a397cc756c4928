"""Composition of the parts: from the settings to a running swarm and its owner process."""
