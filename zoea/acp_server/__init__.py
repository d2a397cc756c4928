"""Lets editors talk to a mysis or to the swarm over the Agent Client Protocol.

Modules that import `acp` are loaded by `zoea acp` alone, because that takes half a second.
"""
