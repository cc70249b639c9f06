"""What a sweep's candidates had scored of the documents that a study reserves, by the plans of their streams."""

from collections import Counter
from types import SimpleNamespace

import numpy as np

from evidence import InputError
from loaders.accounting import ARRIVAL, BOS, COUNT, ROW, plan_sha256
from research.confirmation.reserved import plan_rows
from research.matched_training.sweep import candidate_protocol, read_sweep


def candidates_path(study):
    return study.root / f"protocols/candidates_{study.name}.json"


def scored_streams(study):
    """[(number of candidates, packing, targets)] of each context that the sweep scored; candidates of one context
    differ in what no stream depends on."""
    path = candidates_path(study)
    sweep, streams = read_sweep(path), {}
    if sweep["base"] != study.name:
        raise InputError(f"{path}: base: expected {study.name!r}, found {sweep['base']!r}")
    for candidate in sweep["candidates"]:
        protocol = candidate_protocol(study.protocol, sweep, candidate, 1, sweep["evaluation_targets"])
        streams[candidate["context"]] = protocol["packing"], protocol["evaluation"]["targets"]
    counts = Counter(candidate["context"] for candidate in sweep["candidates"])
    return [(counts[context], *streams[context]) for context in sorted(streams)]


def plan_candidate(lengths, refill, packing, targets):
    """(plan, documents arrived, int64 of the documents begun) of a candidate's official stream."""
    candidate = SimpleNamespace(packing=packing, capacity=packing["context"] + 1)
    plan, arrived = plan_rows(candidate, lengths, refill, targets)
    return plan, arrived, np.unique(plan[:, ARRIVAL] % len(lengths))


def reserved_of(study, documents):
    return documents[(documents >= study.first) & (documents < study.last)]


def shared(stream, documents):
    """What of the confirmation's stream is of these documents: which of them it begins, tokens, and rows with any."""
    plan = stream.plan[np.isin(stream.plan[:, ARRIVAL], documents)]
    return {"documents": np.unique(plan[:, ARRIVAL]).tolist(), "rows": np.unique(plan[:, ROW]).tolist(),
            "tokens": int((plan[:, BOS] + plan[:, COUNT]).sum())}


def account(study, lengths, refill, stream, packing, targets):
    """What the official stream of a packing draws and begins, of the validation split and of the reserved documents."""
    plan, arrived, begun = plan_candidate(lengths, refill, packing, targets)
    seen = reserved_of(study, begun)
    return {"context": packing["context"], "targets": targets, "plan_sha256": plan_sha256(plan),
            "arrived": arrived, "begun": len(begun), "reserved_arrived": max(0, min(arrived, study.last) - study.first),
            "reserved_begun": seen.tolist(), "longest_begun": int(lengths[seen].max(initial=0)),
            "in_confirmation": shared(stream, seen)}


def require_unseen(study):
    """InputError when the study had a sweep, and a candidate's official stream begins a reserved document."""
    if not candidates_path(study).exists():
        return
    _, lengths, refill = study.validation()
    for _, packing, targets in scored_streams(study):
        begun = reserved_of(study, plan_candidate(lengths, refill, packing, targets)[2])
        if len(begun):
            raise InputError(f"{study.evaluation_path}: confirmation.documents: {study.first} on are reserved, but the "
                             f"sweep scored document {begun.max()} at context {packing['context']}; reserve later ones")
