"""Widgets of the cockpit: show values and send messages. Only the prompt calls the swarm."""
