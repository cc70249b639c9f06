"""Document lengths of a prepared study, or of a user's own file: what the accounts of this directory start from."""

from pathlib import Path

import numpy as np

from corpora.prepared import prepared_file
from evidence import InputError, sha256_file
from loaders.accounting import positive_integers
from protocols.schema import find_protocol

ROOT = Path(__file__).resolve().parents[2]


def read_counts(path, what):
    """int64 (n,) of a .npy of positive integers; InputError naming the file and the first entry that is not one."""
    try:
        return positive_integers(what, np.load(path, allow_pickle=False))
    except (ValueError, EOFError, OSError) as error:
        raise InputError(f"{path}: {error}; a .npy of whole numbers above 0 is wanted") from None


def read_protocol(name):
    """The protocol of a study in protocols/; InputError listing those there are."""
    return find_protocol(name, ROOT / "protocols")[0]


def study_counts(name, data, *kinds):
    """(counts of each kind of the training split, `inputs` of an evidence file) of a prepared study.

    Inputs are named as in the repository wherever the prepared data lie.
    """
    paths = [prepared_file(data / name, f"train/{kind}.npy") for kind in kinds]
    inputs = [{"path": f"data/{name}/train/{path.name}", "sha256": sha256_file(path)} for path in sorted(paths)]
    return [read_counts(*pair) for pair in zip(paths, kinds)], inputs
