"""Write operations and readers of the swarm: its rows as values."""
