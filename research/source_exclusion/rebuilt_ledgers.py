"""What must hold inside the account of one audited stream, from its own numbers, for verify_ledgers.py; no data needed.

Every `expected_` function gives the part of a record that the rest of it decides, under the same keys; `broken` gives
the bounds that are not kept. Rows are full, so that `rows` and `capacity` decide what was emitted. A stream without
added BOS (`synthetic_bos` 0) emits exactly one for each document started.
"""

SHARES = ("without_text", "nothing", "up_to_a_quarter", "up_to_a_half", "up_to_three_quarters", "more_but_not_all",
          "everything")
TENTHS = 10


def ratio(part, whole):
    return part / whole if whole else None


def select(value, like):
    """The keys of `value` that `like` has, at every depth."""
    return {key: select(value[key], item) if isinstance(item, dict) else value[key] for key, item in like.items()}


def expected_balance(part):
    """Of a stream or a stratum: arrived + added BOS = emitted + discarded + buffered; every arrival in one state."""
    tokens, documents = part["tokens"], part["documents"]
    left = tokens["arrived"] + tokens["synthetic_bos"] - tokens["emitted"] - tokens["discarded"]
    return {"tokens": {"buffered": left},
            "documents": {"unstarted": documents["arrived"] - documents["started"],
                          "split": documents["started"] - documents["whole"] - documents["cropped"]}}


def expected_totals(record, capacity):
    """Targets and emitted tokens of full rows; a corpus is passed through in order."""
    rows, documents = record["rows"], record["documents"]
    return {"targets": rows * (capacity - 1),
            "tokens": {"emitted": rows * capacity, "utilisation": 1.0 if rows else None},
            "documents": {"distinct_arrived": min(documents["arrived"], documents["corpus"])}}


def expected_sums(record):
    """Totals of documents and tokens from the strata."""
    return {table: {key: sum(stratum[table][key] for stratum in record["strata"])
                    for key in record[table] if key in record["strata"][0][table]} for table in ("documents", "tokens")}


def expected_stratum(stratum, emitted):
    tokens, documents = stratum["tokens"], stratum["documents"]
    balance = expected_balance(stratum)
    return {"tokens": balance["tokens"] | {"share_of_emitted": ratio(tokens["emitted"], emitted)},
            "documents": balance["documents"], "started_share": ratio(documents["started"], documents["arrived"]),
            "retained_share": ratio(tokens["emitted"], tokens["arrived"] + tokens["synthetic_bos"])}


def expected_protected(record, buffer_size, applies):
    """Of the proposition's set of at most buffer_size - 1 documents: where it applies, none is started, all wait."""
    kept, tokens = record["protected"], record["tokens"]
    waits = {"started": 0, "share_of_buffered": ratio(kept["tokens"], tokens["buffered"])} if applies else {}
    return {"applies": applies, "documents": min(buffer_size - 1, record["over_capacity"]["arrived"]),
            "share_of_arrived": ratio(kept["tokens"], tokens["arrived"]), **waits}


def exposed(record):
    """{(documents that fit a row or not, arrived or emitted): text tokens}, summed over the tenths."""
    relative = record["positions"]["relative"]
    return {(name, what): sum(tenth[place] for tenth in relative[name]) for name in relative
            for place, what in enumerate(("arrived", "emitted"))}


def expected_over_capacity(record):
    """Shares of the documents longer than a row, from the positions of their text and a BOS each."""
    over, tokens, text = record["over_capacity"], record["tokens"], exposed(record)
    long = {what: text["longer_than_a_row", what] for what in ("arrived", "emitted")}
    found = {"share_of_arrived_tokens": ratio(long["arrived"] + over["arrived"], tokens["arrived"])}
    if not tokens["synthetic_bos"]:
        found["share_of_emitted_tokens"] = ratio(long["emitted"] + over["started"], tokens["emitted"])
    return found


def positions(record):
    """(stated, expected) sums: text tokens by absolute and relative position, documents by the share seen."""
    documents, tokens, text = record["documents"], record["tokens"], exposed(record)
    bins, seen = record["positions"]["absolute"], record["positions"]["documents_by_share_seen"]
    stated = {f"{what} text tokens": sum(place[what] for place in bins) for what in ("arrived", "emitted")}
    expected = {f"{what} text tokens": text["fits_a_row", what] + text["longer_than_a_row", what]
                for what in ("arrived", "emitted")}
    stated |= {"text tokens of arrivals": stated["arrived text tokens"],
               "documents seen": sum(seen[name] for name in SHARES), "shares": [place["share"] for place in bins],
               "bins": [[place["from"], place["to"]] for place in bins]}
    expected |= {"text tokens of arrivals": tokens["arrived"] - documents["arrived"],
                 "documents seen": documents["distinct_arrived"],
                 "bins": [[stratum["over"], stratum["up_to"]] for stratum in record["strata"]],
                 "shares": [ratio(place["emitted"], place["arrived"]) for place in bins]}
    if not tokens["synthetic_bos"]:
        stated["BOS emitted"] = tokens["emitted"] - stated["emitted text tokens"]
        expected["BOS emitted"] = documents["started"]
    return stated, expected


def broken(record, capacity):
    """Names of the bounds that a record does not keep."""
    documents, over, kept, crops = (record[key] for key in ("documents", "over_capacity", "protected", "crops"))
    first, buffer = record["first_over_capacity_start"], record["usable_buffer"]
    parts = [record["tokens"], documents, *(s[t] for s in record["strata"] for t in ("tokens", "documents"))]
    means = [value for value in buffer["mean_by_tenth"] if value is not None]
    thrown = [value for value in buffer["discarded_share_by_tenth"] if value is not None]
    bounds = {
        "a count under 0": all(value is None or value >= 0 for part in parts for value in part.values()),
        "distinct documents": documents["distinct_started"] <= min(documents["started"], documents["distinct_arrived"]),
        "started over capacity": over["started"] <= min(over["arrived"], documents["started"]),
        "longer than a row": over["arrived"] <= documents["arrived"],
        "protected, shortest": kept["shortest"] is None and not kept["documents"] or kept["shortest"] is not None and
        capacity < kept["shortest"] and kept["documents"] * kept["shortest"] <= kept["tokens"],
        "protected, started": kept["started"] <= min(kept["documents"], over["started"]),
        "first start": first is None if not over["started"] else first is not None and first["length"] > capacity and
        first["arrival"] < documents["arrived"] and first["segment"] < record["selections"] and
        first["target_offset"] < record["targets"],
        "selections": documents["started"] <= record["selections"],
        "crops": (crops["events"] > 0) == (record["tokens"]["discarded"] > 0) == (crops["median_kept"] is not None) and
        max(documents["cropped"], crops["bos_only"]) <= crops["events"] and
        (crops["events"] == documents["cropped"] or record["tokens"]["synthetic_bos"] > 0),
        "usable buffer": buffer["least"] <= buffer["first"] <= buffer["held_first"] <= buffer["held_most"] and
        all(buffer["least"] <= value <= buffer["held_most"] for value in means) and
        len(buffer["mean_by_tenth"]) == TENTHS and all(0 <= value <= 1 for value in thrown)}
    return [name for name, holds in bounds.items() if not holds]


# ------------------------------------------------------------------------------------------ lengths


def arrivals(pairs, passes, low=0, high=None):
    """(documents, tokens) of whole passes with lengths in (low, high], from [length, count] pairs."""
    inside = [(length, count) for length, count in pairs if low < length and (high is None or length <= high)]
    return passes * sum(count for _, count in inside), passes * sum(length * count for length, count in inside)


def longest(pairs, passes, capacity, buffer_size):
    """(tokens, shortest) of the longest buffer_size - 1 arrivals over capacity in whole passes; (0, None) of none."""
    left, tokens, shortest = buffer_size - 1, 0, None
    for length, count in sorted(pairs, reverse=True):
        taken = min(left, passes * count)
        if length > capacity and taken:
            left, tokens, shortest = left - taken, tokens + taken * length, length
    return tokens, shortest
