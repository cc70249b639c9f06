"""An audit's records in words: one sentence with the finding, and tables for the terminal."""

from tabulate import tabulate


def percent(value, digits=1):
    """A share as text, '-' when there is none."""
    return "-" if value is None else f"{100 * value:.{digits}f} %"


def finding(name, record):
    """What one stream shows, in one plain sentence with its numbers."""
    kept, documents, tokens = record["protected"], record["documents"], record["tokens"]
    arrived, corpus = documents["arrived"], documents["corpus"]
    several = f" (over {-(-arrived // corpus)} passes of {corpus:,})" if arrived > corpus else ""
    if not kept["applies"] or not kept["documents"]:
        longer = record["over_capacity"]
        fitting = documents["unstarted"] - (longer["arrived"] - longer["started"])
        return (f"{name}: {documents['unstarted']:,} of {arrived:,} documents that arrived{several} were not started, "
                f"{fitting:,} of these short enough for one row; "
                f"{percent(share_of_arrived(tokens, 'discarded'))} of all tokens were discarded.")
    if kept["started"]:
        return (f"{name}: {kept['started']:,} of the {kept['documents']:,} longest documents were started: "
                "the proposition fails.")
    whose = f"the {kept['documents']:,} longest"
    if "ranks" in record:
        whose = f"in each of {len(record['ranks'])} ranks its longest documents, together {kept['documents']:,}"
    return (f"{name}: {whose} of {arrived:,} documents that arrived{several}, {percent(kept['share_of_arrived'])} of "
            "all tokens that arrived, were never started.")


def share_of_arrived(tokens, name):
    """tokens[name] as a share of all tokens that entered the buffer."""
    return tokens[name] / (tokens["arrived"] + tokens["synthetic_bos"])


def stratum_name(stratum):
    """The length range of a stratum as text."""
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
    """All tables of {stream name: record} as one text."""
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
                   "thrown away first", "last tenth"]
        title = "Along the stream (usable: buffered entries that fit a row; thrown away: of the tokens selected)"
        parts.insert(3, _table(title, headers, [_stream_row(*item) for item in single.items()]))
    return "\n".join(parts)
