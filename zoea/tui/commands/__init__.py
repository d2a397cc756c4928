"""The action registry, keys, the command prompt and the palette."""
