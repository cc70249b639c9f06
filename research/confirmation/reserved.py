"""The reserved validation documents of a study, and the stream that the confirmation packs from them.

Documents arrive in the refill batches into which prepare.py cut the validation shard, without the excluded documents.
The baseline loader packs them from an empty buffer, as it does for the official score. No document arrives twice, and
no document of the official score's stream arrives at all (paper, sections 4 and 5.4).
"""

import hashlib
from typing import NamedTuple

import numpy as np

from corpora.prepared import Prepared
from evidence import InputError, read_json, require
from loaders.accounting import ARRIVAL, COUNT, ROW, plan_sha256
from loaders.best_fit_crop import LOADER
from loaders.ledger import arrived_documents
from loaders.rows import RowReader
from protocols.schema import read_evaluation


class Stream(NamedTuple):
    """The packed stream of a confirmation.

    documents: int64 (n,), validation documents in order of arrival. refill: int64 (batches,). plan: int64 (segments, 5)
    with validation documents in the column of arrivals. arrived: number of documents that the plan draws.
    """

    documents: np.ndarray
    refill: np.ndarray
    plan: np.ndarray
    arrived: int


def read_reserved(path):
    """Return (first, last, targets) of an evaluation protocol, which reserves the documents first..last-1."""
    section = read_evaluation(path, "confirmation")
    require(section is not None, f"{path}: confirmation", "null: this study reserves no documents for confirmation")
    return *section["documents"], section["targets"]


class Reserved(Prepared):
    """A prepared study with its evaluation protocol: what it reserves, and where its evidence lies.

    Attributes beside those of `Prepared`: `evaluation_path`, `exclusions_path`, `evidence` (the folder of the frozen
    files), `first`, `last` (the range of reserved documents) and `targets` (of the confirmation).
    """

    def __init__(self, study, root):
        super().__init__(root, study)
        self.evaluation_path = self.root / f"protocols/evaluation_{self.study}.json"
        self.first, self.last, self.targets = read_reserved(self.evaluation_path)
        self.packing = self.protocol["packing"]
        self.evidence = self.root / "research/confirmation"
        self.exclusions_path = self.evidence / f"exclusions_{self.study}.json"
        require(self.targets % self.packing["context"] == 0, f"{self.evaluation_path}: confirmation.targets",
                f"expected a multiple of the context {self.packing['context']}, found {self.targets}")
        documents = len(self.lengths("validation"))
        require(self.last <= documents, f"{self.evaluation_path}: confirmation.documents",
                f"the range ends at {self.last}, but the validation split has {documents} documents")

    def excluded(self):
        """Return the validation documents that exclude_duplicates.py excluded, ascending."""
        require(self.exclusions_path.exists(), self.exclusions_path,
                f"missing; make it with: exclude_duplicates.py --study {self.study}")
        return [entry["document"] for entry in read_json(self.exclusions_path)["excluded"]]


# ------------------------------------------------------------------------------------------- stream


def plan_rows(lengths, refill, packing, targets):
    """Return (plan, documents arrived) of the baseline loader over as many rows of a packing as hold `targets`."""
    settings = {"capacity": packing["context"] + 1, "buffer_size": packing["buffer_size"]}
    plan = LOADER.plan(lengths, rows=targets // packing["context"], refill=refill, **settings)
    return plan, arrived_documents(plan, lengths, refill, loader=LOADER, **settings)


def require_unscored(reserved):
    """InputError when the official score's stream draws a reserved document."""
    _, arrived = plan_rows(reserved.lengths("validation"), reserved.refill("validation"), reserved.packing,
                           reserved.protocol["evaluation"]["targets"])
    require(arrived <= reserved.first, f"{reserved.evaluation_path}: confirmation.documents",
            f"documents from {reserved.first} on are reserved, but the official score's stream draws documents 0 to "
            f"{arrived - 1}; reserve documents from {arrived} on")


def reserved_batches(reserved, excluded):
    """Return (documents, refill): the reserved range in its refill batches without what is excluded."""
    ends = np.cumsum(reserved.refill("validation"))
    for bound in (reserved.first, reserved.last):
        if bound and bound not in ends:
            near = ends[np.argsort(np.abs(ends - bound), kind="stable")[:2]].tolist()
            raise InputError(f"{reserved.evaluation_path}: confirmation.documents: no refill batch begins or ends at "
                             f"{bound}; the nearest do at {near[0]} and {near[1]}")
    documents = np.setdiff1d(np.arange(reserved.first, reserved.last), excluded)
    sizes = np.bincount(np.searchsorted(ends, documents, side="right"))
    return documents, sizes[sizes > 0]


def reserved_stream(reserved, excluded):
    """Return the Stream of a study; InputError when its documents do not suffice or were scored before."""
    require_unscored(reserved)
    documents, batches = reserved_batches(reserved, excluded)
    plan, arrived = plan_rows(reserved.lengths("validation")[documents], batches, reserved.packing, reserved.targets)
    require(arrived <= len(documents), f"{reserved.evaluation_path}: confirmation.targets",
            f"{reserved.targets} targets draw {arrived} documents, but {len(documents)} are reserved and not excluded; "
            "take fewer targets")
    plan[:, ARRIVAL] = documents[plan[:, ARRIVAL]]
    return Stream(documents, batches, plan, arrived)


# -------------------------------------------------------------------------------------- fingerprint


class Fingerprint:
    """Hex SHA-256 over rows in order: the ids of a row's inputs, then of its targets, as little-endian uint32.

    It does not depend on how rows are batched.
    """

    def __init__(self):
        self.hash = hashlib.sha256()

    def add(self, inputs, targets):
        """Add integer arrays of shape (rows, context) each."""
        self.hash.update(np.concatenate([inputs, targets], axis=1).astype("<u4").tobytes())

    def hexdigest(self):
        return self.hash.hexdigest()


def audit(reserved, excluded):
    """Return the facts of the stream before any model sees it: counts, SHA-256 of the plan, and fingerprint."""
    lengths, stream = reserved.lengths("validation"), reserved_stream(reserved, excluded)
    plan, fingerprint = stream.plan, Fingerprint()
    reader = RowReader(plan, reserved.tokens("validation"), lengths, reserved.bos, reserved.capacity)
    for row in range(reader.count):
        ids = reader.rows(row, row + 1)
        fingerprint.add(ids[:, :-1], ids[:, 1:])
    started = lengths[np.unique(plan[:, ARRIVAL])]
    sizes, counts = (values.tolist() for values in np.unique(stream.refill, return_counts=True))
    return {
        "documents": len(stream.documents), "batches": dict(zip(map(str, sizes), counts, strict=True)),
        "rows": int(plan[-1, ROW]) + 1, "targets": reserved.targets, "segments": len(plan), "arrived": stream.arrived,
        "started": len(started), "longest_started": int(started.max()),
        "over_capacity": int((lengths[stream.documents] > reserved.capacity).sum()),
        "over_capacity_started": int((started > reserved.capacity).sum()),
        "text_tokens": int(plan[:, COUNT].sum()), "plan_sha256": plan_sha256(plan),
        "fingerprint": fingerprint.hexdigest(),
    }
