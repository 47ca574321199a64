"""Tensor files and the caches built on them."""
