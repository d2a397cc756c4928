"""The same work done by Zoea and by other agent libraries; `python -m benchmarks.peers` compares them."""
