"""The items of the checklist that ask for labels: each is a function (traced, declared) -> (status, reason, counts)."""

from loaders.batches import IGNORED
from research.batch_boundaries.trace_tokens import boundaries_of, sort_predictions
from research.batch_boundaries.verdicts import FAIL, OK, UNAPPLIED, UNKNOWN, listed, no_labels, verdict

PLACES = {"internal": "labels are at their own input: the model must shift once",
          "external": "labels are at the input before: the model must not shift"}


def scored_once(traced, declared):
    if traced.convention is None:
        return no_labels(traced)
    inside = sort_predictions(traced)[0]
    never = sorted(traced.wanted - set(inside) - traced.prompts)
    again = [token for token in sorted(inside) if inside[token] > 1]
    unwanted = sorted(set(inside) - traced.wanted)
    prompts = sorted(traced.prompts)
    counts = {"targets": len(traced.wanted), "never": len(never) + len(prompts), "more_than_once": len(again),
              "unwanted": len(unwanted)}
    reasons = [f"{what}: {listed(tokens)}" for what, tokens in (
        ("never scored from their own document", never), ("scored again", again),
        ("scored, though --prompt-tokens says that they are no targets", unwanted)) if tokens]
    if reasons:
        return FAIL, "; ".join(reasons), counts
    if prompts:
        return UNKNOWN, (f"the documents' first tokens are no targets ({listed(prompts)}); if they are prompts, say "
                         "--prompt-tokens N, and 0 if they are not"), counts
    return OK, f"{len(traced.wanted)} targets inside documents, each scored once", counts


def end_is_target(traced, declared):
    ends = [(d, len(ids) - 1) for d, ids in enumerate(traced.documents) if len(ids) > 1 and ids[-1] == declared.eos]
    ends = [end for end in ends if end in traced.wanted - traced.prompts]
    if not ends:
        return UNKNOWN, "no document that should be scored to its end has the id of --eos-id there", {}
    if traced.convention is None:
        return no_labels(traced)
    inside = sort_predictions(traced)[0]
    missing = [token for token in ends if not inside[token]]
    shared = ", whose id is also the padding's," if declared.eos == traced.pad_id else ""
    return verdict(missing, f"the end{shared} is a target in {len(ends) - len(missing)} of {len(ends)} documents",
                   ends=len(ends), missing=len(missing))


def padding_ignored(traced, declared):
    total = sum(int(padding.sum()) for padding in traced.padding)
    if not total:
        return UNAPPLIED, "no padding in this batch", {"padding": 0}
    if any(row.labels is None for row in traced.rows):
        return no_labels(traced)
    labels = sum(int((row.labels[padding] != IGNORED).sum()) for row, padding in zip(traced.rows, traced.padding))
    scored = sort_predictions(traced)[2]
    return verdict(labels or scored, f"{labels} of {total} padding labels are not ignored; {scored} predictions of or "
                   "from padding", padding=total, labels_kept=labels, predictions=scored)


def one_shift(traced, declared):
    found, expected = traced.convention, declared.convention
    counts = {"found": found, "declared": expected, "fit_neither": traced.wrong}
    if any(row.labels is None for row in traced.rows):
        return no_labels(traced)
    if found is None or traced.wrong:
        ahead = traced.ahead.most_common(1)
        text = f"; most are {ahead[0][0]} ahead of their input" if ahead else ""
        return FAIL, f"{traced.wrong} labels are neither their own input nor the next{text}", counts
    if expected == "auto":
        return UNKNOWN, f"{PLACES[found]}; pass --convention to check that it does", counts
    if found == expected:
        return OK, PLACES[found], counts
    wrong = "shifted twice" if expected == "internal" else "not shifted at all"
    return FAIL, f"{PLACES[found]}, but {expected} was declared: {wrong}", counts


def boundary_ignored(traced, declared):
    between, across = boundaries_of(traced), len(sort_predictions(traced)[1])
    counts = {"boundaries_in_rows": between, "targets_across_documents": across}
    if declared.semantics == "continuous":
        return UNAPPLIED, f"a continuous stream was declared: {across} targets across documents", counts
    if traced.convention is None:
        return no_labels(traced)
    if not between and not across:
        return UNAPPLIED, "no two documents follow each other in a row", counts
    return verdict(across, f"{across} targets across documents at {between} boundaries in rows", **counts)


def rows_have_targets(traced, declared):
    rows, empty = len(traced.rows), sum(not any(found) for found in traced.spots)
    if any(row.labels is None for row in traced.rows):
        return verdict(empty, f"{empty} of {rows} rows have no token", rows=rows, empty=empty)
    reach = slice(1, None) if traced.convention == "internal" else slice(None)
    meant = traced.wanted - traced.prompts
    idle = 0
    for row, found in zip(traced.rows, traced.spots):
        prompt = any(spot and spot[1] and spot not in meant for spot in found)
        if not (row.labels[reach] != IGNORED).any() and not (prompt and not meant & set(found)):
            idle += 1
    return verdict(empty or idle, f"{rows} rows, {empty} without a token, {idle} without a target",
                   rows=rows, empty=empty, idle=idle)


def effective_targets(traced, declared):
    """The labels that count must be the targets of the documents; a continuous stream has some more across them."""
    positions = sum(len(row.inputs) for row in traced.rows)
    tokens = sum(spot is not None for found in traced.spots for spot in found)
    share = f"{tokens} of {positions} positions ({tokens / positions:.1%}) are no padding"
    counts = {"positions": positions, "non_padding": tokens}
    if traced.convention is None:
        return UNKNOWN, f"{share}; no readable labels", counts
    inside, across, padding = sort_predictions(traced)
    found, expected = len(traced.predictions) + traced.wrong, len(traced.wanted)
    counts |= {"effective_targets": found, "inside": inside.total(), "across": len(across), "expected_inside": expected}
    reason = f"{share}; {found} effective targets, {inside.total()} inside documents ({expected} expected)"
    strange = len(across) if declared.semantics == "independent" else 0
    if strange or padding or traced.wrong or inside.total() != expected - len(traced.prompts):
        return FAIL, reason, counts
    return (UNKNOWN if traced.prompts else OK), reason, counts
