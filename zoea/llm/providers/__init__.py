"""Model providers, each an implementation of `zoea.model.ports.Provider`."""
