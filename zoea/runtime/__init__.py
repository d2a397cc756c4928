"""Composition: from settings to a running swarm and its owner process."""
