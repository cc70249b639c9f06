"""Frozen JSON with files beside it, such as the arrays whose SHA-256 it records."""

import io
from pathlib import Path

import numpy as np

from evidence import InputError, freeze_json, sha256_bytes, write_atomic


def npy_bytes(array):
    """The bytes of an .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def digests(files):
    """{file: SHA-256} of {file: bytes}."""
    return {name: sha256_bytes(data) for name, data in files.items()}


def freeze(path, evidence, files):
    """Write evidence and {file: bytes} beside it once; InputError names what is frozen with another content."""
    path = Path(path)
    for name, data in files.items():
        frozen = path.with_name(name)
        if frozen.exists() and frozen.read_bytes() != data:
            raise InputError(f"{frozen}: frozen, and the new bytes differ")
    freeze_json(path, evidence)
    for name, data in files.items():
        write_atomic(path.with_name(name), data)
