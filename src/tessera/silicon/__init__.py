"""What a chip is: boards and clusters as data."""
