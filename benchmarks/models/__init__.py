"""Real work with real models: `make bench-models MODEL=FILE.gguf`. Done by hand, because it takes long."""
