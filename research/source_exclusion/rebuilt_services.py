"""A corpus served again and again, from the frozen record of its passes, for verify_ledgers.py; no data needed."""

from itertools import pairwise

from research.source_exclusion import rebuilt_ledgers as rebuilt


def check_services(checks, name, content, policy, pairs):
    """Pass by pass what arrives, what is begun at the earliest, what waits; pairs: [length, count], or None."""
    checks.equal(f"{name}: policy", content["policy"], policy)
    tokens, records = content["tokens"], content["passes"]
    for before, record in pairwise([{"pass": 0, "buffered": 0}, *records]):
        if record["pass"] == before["pass"] + 1:
            checks.equal(f"{name}: tokens that arrive in pass {record['pass']}", tokens + before["buffered"],
                         record["emitted"] + record["discarded"] + record["buffered"])
    wrong = moments_elsewhere(content)
    checks.expect(not wrong, f"{name}: documents arrived that are not of the pass named: {wrong or 'none'}")
    checks.equal(f"{name}: last pass", records[-1]["pass"], content["replayed"])
    wrong = [record["pass"] for record in records if record["protected"] > record["buffered"]]
    checks.expect(not wrong, f"{name}: passes that hold less than what is protected: {wrong or 'none'}")
    check_steady(checks, name, content)
    if pairs:
        check_classes(checks, name, content, pairs)
        kept = [rebuilt.longest(pairs, record["pass"], content["capacity"], content["buffer_size"])[0]
                for record in records]
        checks.equal(f"{name}: protected tokens", [record["protected"] for record in records], kept)


def moments_elsewhere(content):
    """Every pair of a pass and of documents arrived by then that are not of one moment."""
    found = [entry[key] for entry in [*content["classes"], *content["longest"]]
             for key in ("all_begun", "bound", "first_begun") if entry.get(key)]
    return [moment for moment in found if moment["pass"] != -(-moment["arrived"] // content["documents"])]


def check_steady(checks, name, content):
    """Once the same documents wait and the state comes back, a pass begins and reads what arrives in it."""
    steady, classes = content["steady"], {entry["from"]: entry for entry in content["classes"]}
    last, repeats = steady["last_passes"], steady["state_repeats"]
    before = content["replayed"] - last["passes"]
    since = steady["waiting_unchanged_from_pass"]
    if since:
        counts = {f"started_from_{edge}": entry["documents"] for edge, entry in classes.items()}
        begun = [rebuilt.select(record, counts) for record in content["passes"] if record["pass"] > since]
        checks.equal(f"{name}: begun in each pass after pass {since}", begun, [counts] * len(begun))
    if repeats:
        checks.equal(f"{name}: period", repeats["period"], repeats["pass"] - repeats["equals_pass"])
    if since and since <= before:
        stated = {edge: last[f"started_from_{edge}"] for edge in classes}
        checks.equal(f"{name}: begun in the last passes", stated,
                     {edge: last["passes"] * entry["documents"] for edge, entry in classes.items()})
    if repeats and repeats["equals_pass"] <= before and last["passes"] % repeats["period"] == 0:
        checks.equal(f"{name}: tokens of the last passes", last["emitted"] + last["discarded"],
                     last["passes"] * content["tokens"])


def check_classes(checks, name, content, pairs):
    """Documents and tokens of each class, and the pass of its bound: that in which its buffer_size-th arrives."""
    everything = list(rebuilt.arrivals(pairs, 1))
    checks.equal(f"{name}: corpus of the length histogram", [content["documents"], content["tokens"]], everything)
    stated, expected = [], []
    for entry in content["classes"]:
        documents, tokens = rebuilt.arrivals(pairs, 1, entry["from"] - 1)
        earliest = -(-content["buffer_size"] // documents) if documents and entry["bound"] else None
        stated.append([entry["documents"], entry["tokens"], entry["bound"] and entry["bound"]["pass"]])
        expected.append([documents, tokens, earliest])
    checks.equal(f"{name}: classes and their earliest passes", stated, expected)
    lengths = [length for length, count in reversed(pairs) for _ in range(count) if length > content["capacity"]]
    checks.equal(f"{name}: longest documents and lengths over a row",
                 [[entry["length"] for entry in content["longest"]], content["lengths_over_a_row"]["distinct"]],
                 [lengths[:len(content["longest"])], len(set(lengths))])
    classes = content["classes"]
    early = [entry["from"] for entry in classes if entry["bound"] and entry["first_begun"]
             and entry["first_begun"]["arrived"] < entry["bound"]["arrived"]]
    missed = [entry["from"] for entry in classes if (entry["all_begun"] is None) != (entry["never_begun"] > 0)]
    checks.expect(not early + missed, f"{name}: classes begun before their bound, or not as they say: "
                  f"{early + missed or 'none'}")
