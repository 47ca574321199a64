"""What a number is: dtypes, tiles, shapes, rounding, packing."""
