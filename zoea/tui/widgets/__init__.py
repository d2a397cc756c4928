"""Widgets of the cockpit, each one idea. They show values and send messages, and ask the swarm nothing."""
