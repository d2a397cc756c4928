"""The action registry, keys and the palette; `swarm_commands` holds the bodies that several screens share."""
