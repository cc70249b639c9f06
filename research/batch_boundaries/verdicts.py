"""The four statuses of an item, and how an item says them."""

from dataclasses import dataclass

OK, FAIL, UNKNOWN, UNAPPLIED = "ok", "FAIL", "cannot tell", "not applied"


@dataclass(frozen=True)
class Declared:
    """What a user says about the documents and the model; diagnose.py has an option for each field.

    bos, eos, pad: ids, or None. added: which of "bos" and "eos" the function adds itself. convention, semantics,
    isolation and position_ids are words of the options. ignore: label ids that do not count, None for every negative
    one. read_as: {key: kind} of the user's own key names.
    """

    bos: int | None = 1
    eos: int | None = 2
    pad: int | None = None
    added: tuple = ()
    convention: str = "auto"
    semantics: str = "independent"
    isolation: str = "auto"
    position_ids: str = "absolute"
    ignore: tuple | None = None
    read_as: dict | None = None


def verdict(bad, reason, **counts):
    """Return (status, reason, counts) of an item that FAILs if `bad`, and is ok otherwise."""
    return FAIL if bad else OK, reason, counts


def listed(spots, limit=6):
    """Return 'document 0: tokens 3, 4; document 2: token 1' for (document, offset) pairs."""
    shown = {}
    for document, offset in sorted(spots)[:limit]:
        shown.setdefault(document, []).append(str(offset))
    text = "; ".join(f"document {d}: token{'s' if len(o) > 1 else ''} {', '.join(o)}" for d, o in shown.items())
    return f"{text}; and {len(spots) - limit} more" if len(spots) > limit else text


def no_labels(traced):
    """Return the verdict of an item that needs labels and has none that it can read."""
    missing = any(row.labels is None for row in traced.rows)
    return UNKNOWN, "the batch has no labels" if missing else "the labels fit no convention", {}
