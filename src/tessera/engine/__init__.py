"""How values are computed: one module for each family, pure functions on torch tensors."""
