"""Zoea: mission control for a swarm of LLM agents, in one terminal."""

__version__ = "0.1.0"
