"""TT-NN: the machine spoken to operation by operation."""
