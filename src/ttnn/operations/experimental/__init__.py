"""The generic part of `ttnn.experimental`: sums over outer dimensions, moves, scans, transforms. Attention's part is in `operations.transformer`."""

from ttnn.operations.experimental import moving as moving
from ttnn.operations.experimental import norms as norms
from ttnn.operations.experimental import reducing as reducing
from ttnn.operations.experimental import scans as scans
from ttnn.operations.experimental import transforms as transforms
