"""Settings from TOML files, environment and command line; templates, credentials and trust.

Nothing is imported here, because `layers` costs pydantic and `paths` next to nothing.
"""
