"""Frozen JSON with files beside it, such as arrays whose SHA-256 the JSON records."""

import io
from pathlib import Path

import numpy as np

from evidence import InputError, freeze_json, sha256_bytes, write_atomic


def npy_bytes(array):
    """Return the bytes of the .npy file of an array."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def digests(files):
    """Return {file: SHA-256} for {file: bytes}."""
    return {name: sha256_bytes(data) for name, data in files.items()}


def freeze(path, evidence, files):
    """Write evidence and {file: bytes} beside it once; InputError names a file that is frozen with other bytes."""
    path = Path(path)
    for name, data in files.items():
        frozen = path.with_name(name)
        if frozen.exists() and frozen.read_bytes() != data:
            raise InputError(f"{frozen}: frozen, and the new bytes differ")
    freeze_json(path, evidence)
    for name, data in files.items():
        write_atomic(path.with_name(name), data)
