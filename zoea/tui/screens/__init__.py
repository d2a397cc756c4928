"""The screens, each with its own style file beside it."""
