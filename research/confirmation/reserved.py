"""The reserved validation documents of a study, and the stream that the confirmation score packs from them.

Documents arrive in the refill batches in which prepare.py cut the validation shard, less those that are excluded, and
are packed by the baseline loader, as for the official score. Nothing arrives twice, and nothing that the stream of the
official score draws. (Paper, sections 4 and 5.4.)
"""

import hashlib
from typing import NamedTuple

import numpy as np

from corpora.prepared import prepared_file
from evidence import InputError, read_json
from loaders import best_fit_crop
from loaders.accounting import ARRIVAL, COUNT, ROW, arrived_documents, plan_sha256
from loaders.rows import RowReader
from protocols.schema import read_evaluation

ARRAYS = ("tokens", "lengths", "refill")


class Stream(NamedTuple):
    """documents: int64 (n,), validation documents in order of arrival; refill: int64 (batches,); plan: int64
    (segments, 5), its arrivals being validation documents; arrived: how many documents the plan draws."""

    documents: np.ndarray
    refill: np.ndarray
    plan: np.ndarray
    arrived: int


def read_reserved(path):
    """(first, last, targets) of an evaluation protocol: documents first..last-1 are reserved; InputError else."""
    section = read_evaluation(path, "confirmation")
    if section is None:
        raise InputError(f"{path}: confirmation: null: this study reserves no documents for confirmation")
    return *section["documents"], section["targets"]


class Study:
    """A study's protocols and prepared validation split, below the root of a repository."""

    def __init__(self, name, root):
        self.name, self.root = name, root.resolve()
        self.protocol_path = self.root / f"protocols/{name}.json"
        self.evaluation_path = self.root / f"protocols/evaluation_{name}.json"
        self.protocol = read_json(self.protocol_path)
        self.first, self.last, self.targets = read_reserved(self.evaluation_path)
        self.packing, self.capacity = self.protocol["packing"], self.protocol["packing"]["context"] + 1
        self.evidence = self.root / "research/confirmation"
        self.exclusions_path = self.evidence / f"exclusions_{name}.json"
        if self.targets % self.packing["context"]:
            raise InputError(f"{self.evaluation_path}: confirmation.targets: expected a multiple of the context "
                             f"{self.packing['context']}, found {self.targets}")

    def data(self, name):
        """Path of a prepared file, whose SHA-256 prepared.json must name."""
        return prepared_file(self.root / "data" / self.name, name)

    def validation(self):
        """(tokens, lengths, refill) of the validation split, the reserved documents being inside."""
        tokens, lengths, refill = (np.load(self.data(f"validation/{name}.npy"), mmap_mode="r") for name in ARRAYS)
        if self.last > len(lengths):
            raise InputError(f"{self.evaluation_path}: confirmation.documents: they end at {self.last}, but the "
                             f"validation split has {len(lengths)} documents")
        return tokens, np.asarray(lengths), np.asarray(refill)

    def excluded(self):
        """Validation documents that exclude_duplicates.py excluded, ascending."""
        if not self.exclusions_path.exists():
            raise InputError(f"{self.exclusions_path}: missing; make it with: exclude_duplicates.py --study "
                             f"{self.name}")
        return [entry["document"] for entry in read_json(self.exclusions_path)["excluded"]]

    def bos(self):
        return read_json(self.data("tokenizer/tokenizer.json"))["bos"]


# ------------------------------------------------------------------------------------------- stream


def plan_rows(study, lengths, refill, targets):
    """(plan, documents arrived) of the baseline loader over as many rows as hold `targets`."""
    settings = {"capacity": study.capacity, "buffer_size": study.packing["buffer_size"]}
    plan = best_fit_crop.plan(lengths, rows=targets // study.packing["context"], refill=refill, **settings)
    return plan, arrived_documents(plan, lengths, refill, loader=best_fit_crop, **settings)


def require_untouched(study, lengths, refill):
    """InputError when the official score's stream draws a document that is reserved."""
    _, arrived = plan_rows(study, lengths, refill, study.protocol["evaluation"]["targets"])
    if arrived > study.first:
        raise InputError(f"{study.evaluation_path}: confirmation.documents: {study.first} on are reserved, but the "
                         f"stream of the official score draws documents 0 to {arrived - 1}; reserve from {arrived} on")


def reserved_batches(study, refill, excluded):
    """(documents, refill) of the reserved range: whole refill batches less what is excluded, empty ones left out."""
    ends = np.cumsum(refill)
    for bound in (study.first, study.last):
        if bound and bound not in ends:
            near = ends[np.argsort(np.abs(ends - bound), kind="stable")[:2]].tolist()
            raise InputError(f"{study.evaluation_path}: confirmation.documents: no refill batch begins or ends at "
                             f"{bound}; the nearest do at {near[0]} and {near[1]}")
    documents = np.setdiff1d(np.arange(study.first, study.last), excluded)
    sizes = np.bincount(np.searchsorted(ends, documents, side="right"))
    return documents, sizes[sizes > 0]


def reserved_stream(study, lengths, refill, excluded):
    """The Stream of a study; InputError when its documents are not enough, or not all untouched."""
    require_untouched(study, lengths, refill)
    documents, batches = reserved_batches(study, refill, excluded)
    plan, arrived = plan_rows(study, lengths[documents], batches, study.targets)
    if arrived > len(documents):
        raise InputError(f"{study.evaluation_path}: confirmation.targets: {study.targets} targets draw {arrived} "
                         f"documents, but {len(documents)} are reserved and not excluded; take fewer targets")
    plan[:, ARRIVAL] = documents[plan[:, ARRIVAL]]
    return Stream(documents, batches, plan, arrived)


# -------------------------------------------------------------------------------------- fingerprint


class Fingerprint:
    """Hex SHA-256 over rows in order: the ids of a row's inputs, then of its targets, each a little-endian uint32.

    It does not depend on how rows are batched.
    """

    def __init__(self):
        self.hash = hashlib.sha256()

    def add(self, inputs, targets):
        """Integer arrays (rows, context) each."""
        self.hash.update(np.concatenate([inputs, targets], axis=1).astype("<u4").tobytes())

    def hexdigest(self):
        return self.hash.hexdigest()


def audit(study, excluded):
    """What the stream is, before any model sees it: counts, hash of the plan, and fingerprint of inputs and targets."""
    tokens, lengths, refill = study.validation()
    stream = reserved_stream(study, lengths, refill, excluded)
    plan, fingerprint = stream.plan, Fingerprint()
    reader = RowReader(plan, tokens, lengths, study.bos(), study.capacity)
    for row in range(reader.count):
        ids = reader.rows(row, row + 1)
        fingerprint.add(ids[:, :-1], ids[:, 1:])
    started = lengths[np.unique(plan[:, ARRIVAL])]
    sizes, counts = np.unique(stream.refill, return_counts=True)
    return {
        "documents": len(stream.documents), "batches": dict(zip(map(str, sizes.tolist()), counts.tolist())),
        "rows": int(plan[-1, ROW]) + 1, "targets": study.targets, "segments": len(plan), "arrived": stream.arrived,
        "started": len(started), "longest_started": int(started.max()),
        "over_capacity": int((lengths[stream.documents] > study.capacity).sum()),
        "over_capacity_started": int((started > study.capacity).sum()),
        "text_tokens": int(plan[:, COUNT].sum()), "plan_sha256": plan_sha256(plan),
        "fingerprint": fingerprint.hexdigest(),
    }
