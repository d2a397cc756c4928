"""Does the same work with Zoea and other agent libraries. `python -m benchmarks.peers` compares them."""
