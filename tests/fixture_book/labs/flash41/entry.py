"""What the fixture's notebook uses, by way of another module."""
from .sizes import SCALES, VALUES

ENTRY = VALUES + SCALES
