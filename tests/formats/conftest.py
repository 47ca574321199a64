"""Lets the tests of this room import `formats_samples` beside them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
