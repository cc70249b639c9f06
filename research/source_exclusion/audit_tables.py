"""An audit's records in words: the finding in plain sentences, and tables for the terminal."""

from tabulate import tabulate


def percent(value, digits=1):
    """Return a share as text, '-' when there is none."""
    return "-" if value is None else f"{100 * value:.{digits}f} %"


def fates(tokens):
    """Return the shares of all tokens that arrived which were emitted, were discarded and wait, as texts."""
    return [percent(share_of_arrived(tokens, fate)) for fate in ("emitted", "discarded", "buffered")]


def finding(name, record, about):
    """Return what one stream shows in plain sentences: all three fates of the tokens, then who was not started.

    about: what was audited; its "capacity" is named.
    """
    kept, documents, longer = record["protected"], record["documents"], record["over_capacity"]
    emitted, discarded, waiting = fates(record["tokens"])
    arrived, corpus = documents["arrived"], documents["corpus"]
    several = f" (over {-(-arrived // corpus)} passes of {corpus:,})" if arrived > corpus else ""
    start = (f"{name}: {arrived:,} documents arrived{several}; of their tokens {emitted} were emitted, {discarded} "
             f"discarded, and {waiting} were still in the buffer at the end of this stream.")
    if kept["applies"] and kept["started"]:
        return (f"{start} The proposition fails: {kept['started']:,} of the {kept['documents']:,} longest documents "
                "were started.")
    if kept["applies"] and kept["documents"]:
        whose = f"The {kept['documents']:,} longest documents"
        if "ranks" in record:
            whose = f"The longest documents of each of {len(record['ranks'])} ranks, together {kept['documents']:,}"
        return (f"{start} {whose}, all longer than a row of {about['capacity']:,} tokens, were not started; they hold "
                f"{percent(kept['share_of_arrived'])} of the tokens.")
    if not longer["arrived"]:
        return (f"{start} Every document fits a row of {about['capacity']:,} tokens, so the rule keeps none back: "
                f"{documents['unstarted']:,} were in the buffer when the stream ended, as with any full buffer.")
    return (f"{start} {longer['arrived'] - longer['started']:,} of the {longer['arrived']:,} documents longer than a "
            f"row of {about['capacity']:,} tokens were not started.")


def account_line(name, record):
    """Return the balance of one stream's tokens as text."""
    tokens = record["tokens"]
    return (f"{name}: {tokens['arrived'] + tokens['synthetic_bos']:,} tokens arrived = {tokens['emitted']:,} emitted + "
            f"{tokens['discarded']:,} discarded + {tokens['buffered']:,} buffered")


def share_of_arrived(tokens, name):
    """Return tokens[name] as a share of all tokens that entered the buffer, added BOS tokens included."""
    return tokens[name] / (tokens["arrived"] + tokens["synthetic_bos"])


def stratum_name(stratum):
    """Return the length range of a stratum as text."""
    return f"{stratum['over'] + 1:,}-{stratum['up_to']:,}" if stratum["up_to"] else f"over {stratum['over']:,}"


def _table(title, headers, rows):
    return f"\n{title}\n" + tabulate(rows, headers, intfmt=",", missingval="-",
                                     colalign=["left"] + ["right"] * (len(headers) - 1))


def _protected_row(name, record):
    kept = record["protected"]
    started = record.get("first_over_capacity_start")
    return [name, kept["documents"], kept["tokens"], percent(kept["share_of_arrived"]),
            percent(kept["share_of_buffered"], 2), kept["started"], started and started["target_offset"],
            percent(record["over_capacity"]["share_of_arrived_tokens"]),
            percent(record["over_capacity"]["share_of_emitted_tokens"])]


def _stream_row(name, record):
    crops, usable = record["crops"], record["usable_buffer"]
    return [name, crops["events"], crops["median_kept"], crops["bos_only"], usable["held_first"], usable["first"],
            round(usable["mean_by_tenth"][-1]), usable["least"], percent(usable["discarded_share_by_tenth"][0]),
            percent(usable["discarded_share_by_tenth"][-1])]


def _by_length(title, records, key):
    names = [stratum_name(stratum) for stratum in next(iter(records.values()))["strata"]]
    rows = [[name, *(percent(record["strata"][number][key]) for record in records.values())]
            for number, name in enumerate(names)]
    return _table(title, ["length", *records], rows)


def tables(records):
    """Return all tables of {stream name: record} as one text."""
    tokens = [[name, r["targets"], *(r["tokens"][key] for key in ("arrived", "synthetic_bos", "emitted", "discarded",
              "buffered")), percent(r["tokens"]["utilisation"])] for name, r in records.items()]
    documents = [[name, *(r["documents"][key] for key in ("arrived", "unstarted", "whole", "cropped", "split",
                 "distinct_started", "corpus"))] for name, r in records.items()]
    single = {name: r for name, r in records.items() if "crops" in r}
    parts = [
        _table("Tokens", ["stream", "targets", "arrived", "added BOS", "emitted", "discarded", "buffered",
                          "rows filled"], tokens),
        _table("Documents that arrived", ["stream", "arrived", "unstarted", "whole", "cropped", "split",
                                          "distinct started", "in the corpus"], documents),
        _table("The longest documents (longer than a row, at most buffer - 1 of them)",
               ["stream", "documents", "tokens", "of arrived", "of buffered", "started", "first long start (target)",
                "long: of arrived", "long: of emitted"], [_protected_row(*item) for item in records.items()]),
        _by_length("Started, % of the documents that arrived, by length in tokens", records, "started_share"),
        _by_length("Emitted, % of the tokens that arrived, by length in tokens", records, "retained_share"),
    ]
    if single:
        headers = ["stream", "crops", "median kept", "only BOS", "held", "usable first", "last tenth", "least",
                   "discarded first", "last tenth"]
        title = "Along the stream (usable: buffered entries that fit a row; discarded: share of the tokens selected)"
        parts.insert(3, _table(title, headers, [_stream_row(*item) for item in single.items()]))
    return "\n".join(parts)
