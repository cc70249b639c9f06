"""What an audit plans and accounts for: a study's streams, whole passes of its documents, or a user's own data."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from corpora.prepared import Prepared
from evidence import InputError, read_json, require
from loaders.ledger import ledger
from research.source_exclusion.account import Unbalanced
from research.source_exclusion.audit_inputs import (
    ROOT,
    inputs_of,
    read_user_stream,
    require_memory,
    study_names,
    study_packing,
    study_stream,
)
from research.source_exclusion.audit_records import audited, join_ranks, stream_record
from research.source_exclusion.progress import watched
from research.source_exclusion.quantities import SCHEMA
from research.source_exclusion.streams import POLICIES, deal, make_packing, rank_streams, read_deal, rows_of_passes


class Audit(NamedTuple):
    """What was audited, before it is written.

    evidence: the function schema -> JSON value; records: {stream: record} of this schema; accounts: {training stream:
    [Account of each rank]}; curves: {name: Account}, of the figure of the usable buffer; out: the folder of the
    results; about: {"corpus", "capacity", "buffer_size"}, for the figures; name_of: the function document -> name;
    runs: one record for each trained run that was compared.
    """

    evidence: Callable
    records: dict
    accounts: dict
    curves: dict
    out: Path
    about: dict
    name_of: Callable
    runs: list


# ------------------------------------------------------------------------------------------- a study


def rows_sha256(plan, packing, stream, prepared):
    """Return the trainer's chained digest of all rows of a plan, from the prepared tokens."""
    from loaders import rows

    reader = rows.RowReader(plan, prepared.tokens("train"), stream.lengths, prepared.bos, packing.capacity)
    training, chained = prepared.protocol["training"], ""
    microbatch = training["microbatch"]
    update = training["accumulation"] * microbatch
    for first in range(0, reader.count, update):
        digests = [rows.digest(reader.rows(at, at + microbatch)) for at in range(first, first + update, microbatch)]
        chained = rows.chain(chained, digests)
    return chained


def require_ledger(plan, packing, stream, record):
    """Raise Unbalanced unless the ledger of the whole plan, which is derived in another way, has the same counts."""
    try:
        found = ledger(plan, stream.lengths, stream.refill, capacity=packing.capacity, buffer_size=packing.buffer_size,
                       loader=packing.loader)
    except ValueError as error:
        raise Unbalanced(str(error)) from None
    for table, counts in found.items():
        for name, count in counts.items():
            if record[table].get(name, count) != count:
                raise Unbalanced(f"{table}.{name}: the ledger says {count}, the account {record[table][name]}")


def compare_runs(protocol, runs, records, validation):
    """Return one record for each finished run: whether its plan, its rows and its evaluation are those audited."""
    found = []
    for condition, record in records.items():
        expected = {"plan": record["plan_sha256"], "rows": record["rows_sha256"],
                    "evaluation_plan": validation["plan_sha256"]}
        for seed in protocol["seeds"]:
            result = runs / f"{condition}_s{seed}" / "result.json"
            if result.exists():
                digests = read_json(result)["digests"]
                found.append({"run": result.parent.name,
                              **{key: digests[key] == value for key, value in expected.items()}})
    return found


def audit_study(args):
    """Return the Audit of what the runs of a study read in training and in the official score."""
    prepared = Prepared(ROOT, args.study, args.data)
    protocol, runs = prepared.protocol, args.runs / prepared.study
    edges, train = protocol["audit"]["strata"], study_stream(prepared, "train")
    held_out = study_stream(prepared, "validation")
    accounts, rows = {}, {}
    for condition, loader in protocol["conditions"].items():
        packing = study_packing(prepared, loader)
        accounts[condition] = audited(train, packing, edges, prepared.training_rows)
        plan = packing.plan(train, prepared.training_rows)
        require_ledger(plan, packing, train, stream_record(accounts[condition], train.lengths, edges))
        rows[condition] = rows_sha256(plan, packing, train, prepared)
    packing = study_packing(prepared, POLICIES["baseline"][0])
    scored = audited(held_out, packing, edges, prepared.scored_rows)
    names = [f"{split}/{name}.npy" for split in ("train", "validation") for name in ("lengths", "refill")]
    inputs = prepared.inputs([*names, "train/tokens.npy", "tokenizer/tokenizer.json"], [prepared.protocol_path])

    def evidence(schema):
        records = {condition: {**stream_record(account, train.lengths, edges, schema), "rows_sha256": rows[condition]}
                   for condition, account in accounts.items()}
        return {"study": prepared.study, "capacity": packing.capacity, "buffer_size": packing.buffer_size,
                "inputs": inputs, "training": records,
                "evaluation": stream_record(scored, held_out.lengths, edges, schema)}

    found = evidence(SCHEMA)
    return Audit(evidence, {**found["training"], "validation": found["evaluation"]},
                 {condition: [account] for condition, account in accounts.items()}, accounts, runs / "audit",
                 about_study(found), study_names(prepared, "train"),
                 compare_runs(protocol, runs, found["training"], found["evaluation"]))


def about_study(evidence):
    """Return what the figures of a study's evidence say about it."""
    return {"corpus": f"study {evidence['study']}", "capacity": evidence["capacity"],
            "buffer_size": evidence["buffer_size"]}


def audit_repeated(args):
    """Return the Audit of whole passes of a study's training documents under every policy that its protocol lists."""
    prepared = Prepared(ROOT, args.study, args.data)
    repeated, stream = prepared.protocol["audit"]["repeated"], study_stream(prepared, "train")
    edges, accounts = prepared.protocol["audit"]["strata"], {}
    for policy in repeated["policies"]:
        require(policy in POLICIES, f"{prepared.protocol_path}: audit.repeated.policies",
                f"expected some of {list(POLICIES)}, found {policy!r}")
        packing = study_packing(prepared, POLICIES[policy][0], repeated["context"] + 1)
        rows = require_rows(rows_of_passes(stream, packing, repeated["passes"]), stream, packing, repeated["passes"])
        accounts[policy] = audited(stream, packing, edges, rows)
    inputs = prepared.inputs(["train/lengths.npy", "train/refill.npy"], [prepared.protocol_path])

    def evidence(schema):
        records = {policy: stream_record(account, stream.lengths, edges, schema)
                   for policy, account in accounts.items()}
        return {"study": prepared.study, "capacity": packing.capacity, "buffer_size": packing.buffer_size,
                "passes": repeated["passes"], "inputs": inputs, "training": records}

    found = evidence(SCHEMA)
    return Audit(evidence, found["training"], {policy: [account] for policy, account in accounts.items()}, accounts,
                 args.runs / prepared.study / "audit", about_study(found), study_names(prepared, "train"), [])


# ------------------------------------------------------------------------------------- a user's data


def require_rows(rows, stream, packing, passes, who="the stream"):
    """Return `rows` if there are any; InputError otherwise, with the cause and the remedy."""
    documents, tokens = passes * len(stream.lengths), passes * int(stream.lengths.sum())
    if documents < packing.buffer_size:
        raise InputError(f"--passes {passes}: {who} has {documents:,} documents, fewer than its buffer of "
                         f"{packing.buffer_size:,} takes before the first row; give a smaller --buffer-size or more "
                         "--passes")
    if not rows:
        raise InputError(f"--passes {passes}: {who} has {documents:,} documents with {tokens:,} tokens, which fill "
                         f"no row of {packing.capacity:,} tokens beside the buffer of {packing.buffer_size:,}; give "
                         "more --passes, or a smaller --buffer-size or --capacity")
    return rows


def rank_rows(args, streams, packing):
    """Return the rows that each rank could fill: equal but for --passes, which each counts in its own documents."""
    context, ranks = packing.capacity - 1, len(streams)
    if args.passes:
        return [require_rows(rows_of_passes(stream, packing, args.passes), stream, packing, args.passes,
                             f"rank {rank} of {ranks}" if ranks > 1 else "the stream")
                for rank, stream in enumerate(streams)]
    return [-(-args.rows // ranks) if args.rows else -(-args.targets // (context * ranks))] * ranks


def audit_user(args):
    """Return the Audit of a user's data under one policy."""
    packing = make_packing(POLICIES[args.policy][0], args.capacity, args.buffer_size, args.span_seed)
    source = read_user_stream(args)
    require_memory(args, source.stream, packing)
    shares = read_deal(args.deal, len(source.units)) if args.deal else deal(source.files, args.ranks)
    ranked, lengths = bool(args.deal or args.ranks > 1), source.stream.lengths
    streams = rank_streams(source.stream, source.units, shares) if ranked else [source.stream]
    possible = rank_rows(args, streams, packing)
    rows = min(possible)
    accounts = [audited(stream, packing, args.strata, rows,
                        watched(rows, f"rank {rank}" if ranked else args.policy))
                for rank, stream in enumerate(streams)]
    if ranked:
        record = join_ranks(accounts, lengths, args.strata, packing, shares, len(source.units))
        record["rows_left"] = [count - rows for count in possible]
    else:
        record = stream_record(accounts[0], lengths, args.strata)
    settings = {"policy": args.policy, "capacity": args.capacity, "buffer_size": args.buffer_size,
                "strata": args.strata, "refill": args.refill, "ranks": len(streams), "span_seed": args.span_seed}
    evidence = {"settings": settings, "inputs": inputs_of(source.paths), "training": {args.policy: record}}
    corpus = Path(str(source.paths[0])).name + (f" and {len(source.paths) - 1:,} more files" if args.parquet and
                                                len(source.paths) > 1 else "")
    about = {"corpus": corpus, "capacity": args.capacity, "buffer_size": args.buffer_size}
    curves = {f"rank {rank}" if ranked else args.policy: account for rank, account in enumerate(accounts)}
    return Audit(lambda schema: evidence, {args.policy: record}, {args.policy: accounts}, curves, args.out, about,
                 source.name_of, [])
