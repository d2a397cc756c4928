"""Zoea as an agent over the Agent Client Protocol: editors talk to a mysis, or to the swarm.

Modules that import `acp` are loaded by `zoea acp` alone, because that takes half a second.
"""
