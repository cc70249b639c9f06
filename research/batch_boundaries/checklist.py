"""The checklist of a batch: twelve items, each ok, FAIL, cannot tell or not applied, with its counts and a reason.

The items follow the diagnostic checklist of "From Training Chunks to a Batch". An item never FAILs if a key that could
decide it was not read.
"""

from research.batch_boundaries import label_items, layout_items
from research.batch_boundaries.verdicts import FAIL, UNKNOWN

# name: (function, kinds of keys that decide the item)
ITEMS = {
    "token ids are preserved": (layout_items.ids_preserved, ()),
    "every token is read once": (layout_items.read_once, ()),
    "every target is scored once": (label_items.scored_once, ("labels", "loss")),
    "the real end stays a target": (label_items.end_is_target, ("labels", "loss")),
    "padding is found by length": (layout_items.padding_by_length, ("labels", "loss")),
    "padding labels are ignored": (label_items.padding_ignored, ("labels", "loss")),
    "labels are shifted once": (label_items.one_shift, ("labels", "loss")),
    "boundary labels are ignored": (label_items.boundary_ignored, ("labels", "loss")),
    "positions restart": (layout_items.positions_restart, ("positions",)),
    "attention isolates documents": (layout_items.documents_isolated, ("segments", "segments_from_1", "lengths",
                                                                       "cumulative")),
    "no row is idle": (label_items.rows_have_targets, ("labels", "loss")),
    "effective targets": (label_items.effective_targets, ("labels", "loss")),
}


def undecided(traced, kinds):
    """Return the unread keys that could decide an item of these kinds."""
    returned = traced.returned
    if "loss" in kinds:
        return returned.open_labels + ([] if "loss" in returned.kinds else returned.open_keys)
    return [] if returned.kinds & set(kinds) else returned.open_keys


def check_all(traced, declared):
    """Return [{"item", "status", "reason", "counts"}] of the twelve items."""
    results = []
    for name, (item, kinds) in ITEMS.items():
        status, reason, counts = item(traced, declared)
        keys = undecided(traced, kinds) if status == FAIL and kinds else []
        if keys:
            status = UNKNOWN
            reason += f"; {', '.join(keys)} may decide this and was not read: say --read-as KEY=KIND"
        results.append({"item": name, "status": status, "reason": reason, "counts": counts})
    return results
