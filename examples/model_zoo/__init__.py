"""Real models, small and with random weights, and what `examples/models.py` measures on them."""
