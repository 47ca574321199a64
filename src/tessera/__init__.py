"""The machine: Tenstorrent's chips in software. Knows neither TT-NN nor PyBuda; see docs/architecture.md for its rooms."""

__version__ = "0.1.0"
