"""The module from which programs of Cluster Matrix's public code import: a name of its own beside the package."""
from cluster_matrix import check_combined_result_values, cluster_matrix, cluster_zmq, convert_bin_matrix_to_pt

__all__ = ["check_combined_result_values", "cluster_matrix", "cluster_zmq", "convert_bin_matrix_to_pt"]
