"""The one reader of data/<study>, which prepare.py writes.

Every script that makes evidence from prepared data reads them through `Prepared`. Each file is compared with its
SHA-256 in prepared.json before it is used, and counts are checked to be positive integers that fit each other. A
verifier does not use this module: it keeps a reader of its own.

    prepared = Prepared(ROOT, "wheels")
    lengths, refill, tokens = prepared.lengths("train"), prepared.refill("train"), prepared.tokens("train")
    inputs = prepared.inputs(["train/lengths.npy", "train/refill.npy"], [prepared.protocol_path])
"""

from functools import cached_property
from pathlib import Path

import numpy as np

from evidence import HEX_DIGEST, InputError, read_json, require, require_digest, sha256_file
from protocols.schema import find_protocol


def require_prepared(path, study):
    """InputError saying how to prepare the study `study` unless `path`, which prepare.py writes for it, exists.

    The protocol does not say whether its own corpus or a user's text was meant, so both commands are named.
    """
    require(path.exists(), path,
            f"missing; run `python prepare.py --study {study}` (or the protocol's path) for the protocol's corpus, or "
            f"`python prepare.py --input FILES --name {study} --vocabulary N` for text of your own, which needs a name "
            f"without a protocols/{study}.json")


def prepared_digests(directory, names):
    """{file: SHA-256} of files of data/<study>, as prepare.py listed them; InputError names those without one."""
    listing = directory / "prepared.json"
    require_prepared(listing, directory.name)
    prepared = read_json(listing)
    files = prepared.get("files") if isinstance(prepared, dict) else None
    digests = {name: str(files.get(name)) if isinstance(files, dict) else "" for name in names}
    missing = [name for name, digest in digests.items() if not HEX_DIGEST.fullmatch(digest)]
    require(not missing, f"{listing}: files", f"no SHA-256 of {', '.join(missing)}; prepare the study again")
    return digests


def prepared_file(directory, name):
    """Path of a file of data/<study>, as prepare.py wrote it; InputError when it is missing or changed since."""
    require_digest(directory / name, prepared_digests(directory, [name])[name])
    return directory / name


def read_counts(path):
    """int64 (n,) of a .npy file of positive integers, n > 0; InputError names the file and the first wrong entry."""
    try:
        values = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError, MemoryError) as error:
        raise InputError(f"{path}: not a readable .npy file of integers: {error}") from None
    require(isinstance(values, np.ndarray) and values.dtype.kind in "iu" and values.ndim == 1 and values.size, path,
            f"expected a list of at least one positive integer, found {getattr(values, 'dtype', type(values))} of "
            f"shape {getattr(values, 'shape', None)}")
    wrong = np.flatnonzero((values < 1) | (values >= 1 << 31))
    if wrong.size:
        raise InputError(f"{path}: entry {wrong[0]}: expected 1 to 2**31 - 1, found {values[wrong[0]]}")
    return np.ascontiguousarray(values, np.int64)


class Prepared:
    """The prepared data of a study, with what its protocol says about them.

    Args:
        root: folder of the repository, as a Path. `inputs` names files relative to it.
        study: a protocol's name in root/protocols, or the path of a protocol's .json.
        data: folder that holds the prepared studies; root/data by default.

    A protocol may name another study's data by its key `prepared`; otherwise they lie under the study's own name.
    InputError says how to prepare a study that is not, and names a file that is missing or was changed since.

    Attributes: `protocol` (the checked JSON), `protocol_path`, `study` (its name), `directory` (its data), `capacity`
    (context + 1), `training_rows` and `scored_rows` (rows of a run's training and of the official score).
    """

    def __init__(self, root, study, data=None):
        self.root = Path(root).resolve()
        self.protocol, self.protocol_path = find_protocol(str(study), self.root / "protocols")
        self.study = self.protocol["study"]
        self.directory = Path(data or self.root / "data") / self.protocol.get("prepared", self.study)
        require_prepared(self.directory / "prepared.json", self.directory.name)
        context, training = self.protocol["packing"]["context"], self.protocol["training"]
        self.capacity = context + 1
        self.training_rows = training["updates"] * training["accumulation"] * training["microbatch"]
        self.scored_rows = self.protocol["evaluation"]["targets"] // context
        self._digests = {}

    @cached_property
    def facts(self):
        """The JSON value of prepared.json."""
        return read_json(self.directory / "prepared.json")

    def digest(self, name):
        """SHA-256 of a prepared file, which is compared with prepared.json at the first call."""
        if name not in self._digests:
            prepared_file(self.directory, name)
            self._digests[name] = prepared_digests(self.directory, [name])[name]
        return self._digests[name]

    def path(self, name):
        """Path of a prepared file, such as train/tokens.npy, whose SHA-256 is that of prepared.json."""
        self.digest(name)
        return self.directory / name

    def lengths(self, split):
        """int64 (documents,): tokens of each document of a split, BOS included, in stream order."""
        return read_counts(self.path(f"{split}/lengths.npy"))

    def refill(self, split):
        """int64 (batches,): the sizes of the batches in which one pass's documents arrive; they sum to `documents`."""
        path = self.path(f"{split}/refill.npy")
        refill, documents = read_counts(path), len(self.lengths(split))
        require(refill.sum() == documents, path, f"expected batches of {documents} documents in all, as in "
                f"lengths.npy, found {refill.sum()}; prepare the study again")
        return refill

    def tokens(self, split):
        """uint16 or uint32 (tokens,), memory-mapped: the text tokens of a split, without any BOS."""
        path = self.path(f"{split}/tokens.npy")
        tokens, expected = np.load(path, mmap_mode="r"), self.offsets(split)[-1]
        require(tokens.shape == (expected,), path, f"expected {expected} text tokens, as lengths.npy says, found shape "
                f"{tokens.shape}; prepare the study again")
        return tokens

    def offsets(self, split):
        """int64 (documents + 1,): document d is tokens[offsets[d] : offsets[d + 1]]."""
        return np.concatenate([[0], np.cumsum(self.lengths(split) - 1)])

    @cached_property
    def bos(self):
        """Id of the token with which each document begins."""
        return read_json(self.path("tokenizer/tokenizer.json"))["bos"]

    @cached_property
    def byte_tables(self):
        """(supplied, raw), int32 (vocabulary,) each: bytes a token stands for in the official and in the raw score."""
        return tuple(np.load(self.path(f"tokenizer/bytes_{name}.npy")) for name in ("supplied", "raw"))

    def shards(self, split):
        """Paths of the parquet shards that a split was made from, in stream order, as prepare.py wrote or fetched them.

        The names come from prepared.json, because a protocol's section `corpus` is not read for a user's own text.
        """
        corpus = self.facts["corpus"]
        names = corpus["train_shards"] if split == "train" else [corpus["validation_shard"]]
        return [self.path(f"corpus/{name}") for name in names]

    @property
    def text_column(self):
        """Name of the column of the shards that holds the texts."""
        return self.facts["corpus"]["text_column"]

    def inputs(self, names, paths=()):
        """The list `inputs` of an evidence file: [{"path", "sha256"}], sorted by path.

        `names` are prepared files, recorded as data/<study>/<name> wherever the data lie; `paths` are other files,
        such as `protocol_path`, recorded relative to the root.
        """
        digests = {f"data/{self.directory.name}/{name}": self.digest(name) for name in names}
        digests |= {self._recorded(Path(path)): sha256_file(path) for path in paths}
        return [{"path": path, "sha256": digest} for path, digest in sorted(digests.items())]

    def _recorded(self, path):
        if path == self.protocol_path:
            return f"protocols/{path.name}"
        require(path.resolve().is_relative_to(self.root), path, f"expected a file below {self.root}")
        return path.resolve().relative_to(self.root).as_posix()
