"""Widgets of the cockpit: show values, send messages, never call the swarm."""
