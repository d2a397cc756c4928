"""Providers: where models are reached, each a `zoea.model.ports.Provider`. Start with `registry.make`."""
