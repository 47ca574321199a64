"""Reductions: along dimensions, products, where things are, and running totals."""

from ttnn.operations.reduction import along as along
from ttnn.operations.reduction import finding as finding
from ttnn.operations.reduction import products as products
from ttnn.operations.reduction import running as running
