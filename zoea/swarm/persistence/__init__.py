"""SQL of the swarm: write operations, reads, and rows as values."""
