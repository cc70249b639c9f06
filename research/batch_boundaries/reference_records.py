"""Relations that must hold in the evidence on models, collators and corpora, for verify_batch_boundaries.py.

The numbers were measured. Some counts follow from the documents and batches that are frozen beside them. A measured
difference must keep the bound that is written beside it, and the bound must be the declared one.
"""

from collections import Counter
from itertools import chain

IGNORED, BOS = -100, 256
TOLERANCE, VISIBLE = 1e-5, 1e-3
INDEPENDENCE = ["alone_equals_packed", "others_unchanged", "gradient_isolated", "repeated_document",
                "boundary_target_ignored", "positions_restart"]


FAULTS = {
    "token ids are preserved": ["foreign"],
    "every token is read once": ["never", "more_than_once"],
    "every target is scored once": ["never", "more_than_once"],
    "the real end stays a target": ["missing"],
}


# ------------------------------------------------------------------------------------- boundaries


def exact_facts(semantics, documents):
    """Return the `exact` part of one semantics of boundaries.json from the lengths of the documents."""
    halved = [documents[0], documents[1] // 2 + 1, *documents[2:]]
    facts = {
        "batch_size_invariant: targets of each document": [[n - 1] for n in (3, 6, *documents)],
        "pad_is_not_eos: effective targets": sum(halved) - len(halved),
        "pad_is_not_eos: end markers that are targets": len(documents),
        "padding_finite: numbers that are not finite": 0,
        "single_shift: labels as the batch has them": "unshifted",
        "single_shift: targets that are not the next token": 0,
    }
    if semantics == "continuous":
        return facts | {"stream_targets: labels of later first tokens": [BOS] * (len(documents) - 1),
                        "stream_targets: tokens that are no target": 1}
    return facts | {
        "boundary_target_ignored: effective targets": sum(documents) - len(documents),
        "boundary_target_ignored: labels of first tokens": [IGNORED] * len(documents),
        "gradient_isolated: nonzero gradients towards the first document's embeddings": 0,
        "others_unchanged: logits of other documents that changed": 0,
        "positions_restart: positions that are not the document's own": 0,
    }


def broken_bounds(bounded):
    """Return the names of measured differences that break their bound or have another bound than the declared one."""
    kept = {"at_most": lambda value, bound: 0 <= value <= bound in (TOLERANCE, VISIBLE),
            "at_least": lambda value, bound: value >= bound == VISIBLE}
    broken = []
    for name, found in bounded.items():
        (kind,) = set(found) - {"value"}
        if not kept[kind](found["value"], found[kind]):
            broken.append(f"{name}: {found['value']} {kind} {found[kind]}")
    return broken


# ------------------------------------------------------------------------------------- collators


def flat(batches, key):
    return list(chain.from_iterable(chain.from_iterable(batch[key] for batch in batches)))


def collator_counts(case):
    """Return {item: counts} that follow from the documents and batches of a case with internal labels."""
    documents, batches = case["documents"], case["batches"]
    ids, rows = flat(batches, "input_ids"), sum(len(batch["input_ids"]) for batch in batches)
    mask = flat(batches, "attention_mask") if "attention_mask" in batches[0] else [1] * len(ids)
    labels = flat(batches, "labels")
    firsts = [label for batch in batches for label, *_ in batch["labels"]]
    scored = Counter(labels) - Counter(firsts)
    targets = sum(count for label, count in scored.items() if label != IGNORED)
    read, given = Counter(token for token, real in zip(ids, mask) if real), Counter(chain(*documents))
    eos, padding = case["options"]["eos"], mask.count(0)
    bos = Counter(document[0] for document in documents)
    across = sum(scored[token] for token in bos)
    inside, wanted = targets - across, sum(given.values()) - len(documents)
    return {
        "token ids are preserved": {"foreign": sum((read - given).values())},
        "every token is read once": {"never": sum((given - read).values()), "tokens": sum(given.values())},
        "every target is scored once": {"never": wanted - inside, "targets": wanted},
        "the real end stays a target": {"ends": len(documents), "missing": len(documents) - scored[eos]},
        "padding is found by length": {"padding": padding},
        "padding labels are ignored": {"padding": padding},
        "labels are shifted once": {"fit_neither": sum(pair[0] not in (IGNORED, pair[1]) for pair in zip(labels, ids))},
        "no row is idle": {"rows": rows},
        "effective targets": {"across": across, "effective_targets": targets, "expected_inside": wanted,
                              "inside": inside, "non_padding": sum(read.values()), "positions": len(ids)},
    }


def collator_differences(case):
    """Return where a frozen diagnosis differs from its documents and batches, or a status from its counts."""
    items, found = {item["item"]: item for item in case["items"]}, []
    for name, counts in collator_counts(case).items():
        for key, count in counts.items():
            if items[name]["counts"].get(key) != count:
                found.append(f"{name}: {key}: frozen {items[name]['counts'].get(key)}, derived {count}")
    for name, faults in FAULTS.items():
        wrong = sum(items[name]["counts"][key] for key in faults)
        if items[name]["status"] != ("FAIL" if wrong else "ok"):
            found.append(f"{name}: {items[name]['status']}, with {wrong} wrong")
    return found


# ----------------------------------------------------------------------------------------- splits


def split_differences(content):
    """Return which counts of groups and duplicates in both splits are impossible."""
    documents, found = content["documents"], []
    for grouping, counts in content["groupings"].items():
        for split, groups in counts["groups"].items():
            shared = counts["documents_of_shared_groups"][split]
            if not counts["shared_groups"] <= groups <= documents[split] or not counts["shared_groups"] <= shared:
                found.append(f"{grouping}: {split}: {counts['shared_groups']} shared of {groups} groups")
            if (counts["shared_groups"] == groups) != (shared == documents[split]) or shared > documents[split]:
                found.append(f"{grouping}: {split}: {shared} of {documents[split]} documents in shared groups")
        if len(counts["examples"]) != min(3, counts["shared_groups"]):
            found.append(f"{grouping}: {len(counts['examples'])} examples of {counts['shared_groups']} shared groups")
    for split, copies in content["duplicates"]["documents"].items():
        if not content["duplicates"]["texts"] <= copies <= documents[split]:
            found.append(f"duplicates: {split}: {copies} documents hold {content['duplicates']['texts']} texts")
    return found
