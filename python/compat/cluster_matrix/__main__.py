"""python -m cluster_matrix: the variables that count, their values, and where these come from."""
from .config import print_settings

print_settings()
