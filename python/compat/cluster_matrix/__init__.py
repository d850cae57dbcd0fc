"""Cluster Matrix's names over Shoal: matrices over a list of nodes, by percentages and backends.

    from cluster_matrix import cluster_matrix

    a = cluster_matrix("a.pt", ["192.168.2.100", "192.168.2.102"], [0.7, 0.3], ["llama", "torch"], split_matrix=True)
    product = a.cluster_operation(cluster_matrix("b.pt", a.node_IP_list, a.node_percentages), send_back=True)
"""
from .config import print_settings, settings
from .files import check_combined_result_values, convert_bin_matrix_to_pt
from .matrix import cluster, cluster_matrix
from .messages import cluster_zmq

__all__ = ["check_combined_result_values", "cluster", "cluster_matrix", "cluster_zmq", "convert_bin_matrix_to_pt",
           "print_settings", "settings"]
