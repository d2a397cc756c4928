"""Composition of the parts: from the settings to a running swarm and its owner process.

It also holds what the command line and the cockpit do alike beyond queries: find models, add upstreams, erase texts,
check settings, and read the options of dialogs.
"""
