"""The compute configs that the platform team registered in Anyscale."""

import enum


class AnyscaleComputeConfig(enum.StrEnum):
    """The registered compute configs, by the name Anyscale knows them under.

    Family 1 has a GPU head. Family 2 has a CPU head, is never chosen on its own, and
    its names count GPU workers of 8 GPUs each.
    """

    H100_SINGLE_NODE = "h100-single-node"
    H100_TWO_NODES = "h100-two-nodes"
    H100_FOUR_NODES = "h100-four-nodes"
    B200_SINGLE_NODE = "b200-single-node"
    B200_TWO_NODES = "b200-two-nodes"
    B200_FOUR_NODES = "b200-four-nodes"
    H100_CPU_HEAD_1GPU = "h100-cpu-head-1gpu"
    H100_CPU_HEAD_2GPU = "h100-cpu-head-2gpu"
    H100_CPU_HEAD_4GPU = "h100-cpu-head-4gpu"
    H100_CPU_HEAD_8GPU = "h100-cpu-head-8gpu"
    B200_CPU_HEAD_1GPU = "b200-cpu-head-1gpu"
    B200_CPU_HEAD_2GPU = "b200-cpu-head-2gpu"
    B200_CPU_HEAD_4GPU = "b200-cpu-head-4gpu"
    B200_CPU_HEAD_8GPU = "b200-cpu-head-8gpu"
