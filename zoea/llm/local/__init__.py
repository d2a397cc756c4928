"""Local models: model files, the llama.cpp server, the embedded provider."""
