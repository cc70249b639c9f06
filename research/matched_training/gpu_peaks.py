"""Dense bfloat16 peaks of GPUs, for the model FLOP utilisation that gpu_check.py prints."""

import re

# Dense bfloat16 TFLOP/s without sparsity, as the vendor's data sheets state them; the first name that matches counts.
PEAK_TFLOPS = {"B200": 2250, "H200 NVL": 835, "H200": 989.4, "GH200": 989.4, "H100 NVL": 835, "H100 PCIe": 756,
               "H100": 989.4, "A100": 312, "L40S": 362, "L4": 121, "RTX 4090": 165.2, "RTX 3090": 71}
BUILD = "([ -](SXM[0-9]?|PCIe|[0-9]+GB|HBM[0-9]e?))*"  # what may follow the name of a device of that peak


def known_peak(name):
    """Return the dense bfloat16 TFLOP/s of a device by its whole name; None for others, such as a slice of a GPU."""
    return next((peak for known, peak in PEAK_TFLOPS.items()
                 if re.fullmatch(f"(NVIDIA )?(GeForce )?{known}{BUILD}", name, re.IGNORECASE)), None)
