"""PyBuda: the machine spoken to in graphs."""
