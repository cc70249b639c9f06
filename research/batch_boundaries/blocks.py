"""The generated blocks of this question's page; research/pages.py writes them from the frozen files."""

from tabulate import tabulate

from evidence import read_json

VERDICTS = {"caught": "found", "cannot tell": "cannot tell", "missed": "missed"}


def frozen(root, name):
    return read_json(root / f"research/batch_boundaries/{name}.json")


def percent(part, whole, digits=2):
    return f"{100 * part / whole:.{digits}f} %"


# ----------------------------------------------------------------------------------------- findings


def note(root):
    """Return the finding on the note's two documents in three layouts."""
    padded, packed, stream = (frozen(root, "batch_note")["views"][name]["counts"]
                              for name in ("padded", "independent", "continuous"))
    return (f"* **The note's two documents.** Padded, {padded['non_padding']} of {padded['cells']} cells are no "
            "padding "
            f"({percent(padded['non_padding'], padded['cells'], 1)}), and only {padded['effective_targets']} are "
            f"effective targets. Packed as independent documents they also have {packed['effective_targets']} targets, "
            f"and a token may read another in {packed['readable_pairs']} pairs, as when they are padded "
            f"({padded['readable_pairs']} pairs). As a continuous row they have {stream['effective_targets']} targets "
            f"and {stream['readable_pairs']} pairs: one target lies across the boundary, and B reads all of A.")


def update(root):
    """Return the finding on one update of the demo corpus under three loaders."""
    content = frozen(root, "targets_demo")
    loaders = {name: record["update"] for name, record in content["loaders"].items()}
    stream, masked, padded = (loaders[name] for name in ("best_fit_crop", "document_masked", "padded"))
    return (f"* **One update of the demo corpus** in the note's shape has {stream['positions']:,} positions. Packed "
            "as a "
            f"stream, {stream['targets']:,} of them have a target. With independent documents the same rows have "
            f"{masked['targets']:,} targets; the other {stream['targets'] - masked['targets']} asked for the BOS of "
            "the "
            f"next document. Padded, one document a row, the update has {padded['targets']:,} targets in "
            f"{padded['positions']:,} positions. The note's example of three quarters would be "
            f"{content['nominal']['targets']:,} targets.")


def model(root):
    """Return the finding on documents alone and packed in a trained model."""
    bounded = frozen(root, "boundaries")["semantics"]["independent"]["bounded"]
    alone, bare = (bounded[f"alone_equals_packed: {what}"] for what in (
        "logits differ by", "without the mask logits differ by"))
    return (f"* **A trained model.** Logits of documents alone and packed as independent ones differ by "
            f"{alone['value']:.1e} at most (limit {alone['at_most']:.0e}). Without the mask they differ by "
            f"{bare['value']:.1f}. No gradient reaches the first document from the loss of the second one, and "
            "replacing "
            "the first document changes no logit of another.")


def cutting(root):
    """Return what the ways of cutting documents lose and repeat."""
    content = frozen(root, "chunking_demo")
    designs = content["designs"]
    drop, last, share, twice = (designs[name] for name in ("drop_rest", "pad_last", "shared_boundary", "overlapping"))
    return (f"* **Cutting** decides more than packing here. Blocks of {content['block']} that drop the rest never "
            "score "
            f"{drop['targets_never_scored']:,} of {drop['targets']:,} targets "
            f"({percent(drop['targets_never_scored'], drop['targets'])}), among them the last token of "
            f"{drop['documents_with_last_token_never_scored']:,} of {content['documents']:,} documents. Keeping the "
            "last "
            f"block padded loses {last['targets_never_scored']:,} targets, the first of every later block. Windows "
            "that "
            f"share a boundary token lose {share['targets_never_scored']}, and score "
            f"{share['targets_with_whole_prefix']:,} with their whole prefix before them. Overlapping windows score "
            f"every target, {twice['targets_scored_more_than_once']:,} of them more than once. That is another "
            "weighting, not more coverage.")


def accumulation(root):
    """Return the worked case of accumulation and the bounds of the gradients."""
    content = frozen(root, "accumulation")
    case, limits = content["cases"]["note"], content["gradients"]["tolerances"]
    means = " and ".join(f"{nats / targets:g}" for targets, nats in zip(case["targets"], case["nats"]))
    return (f"* **Accumulation.** Microbatches of {case['targets'][0]} and {case['targets'][1]} targets with mean "
            "losses "
            f"{means} have a loss of {case['by_target']} by target and of {case['by_microbatch']} by microbatch. The "
            "trainer's gradients equal those of the undivided batch for every split tried, over one and two processes, "
            f"within {limits['float32']:g} in float32 and {limits['float64']:g} in float64.")


def stream(root):
    """Return what is checked of a declared stream, and how much its documents read of each other."""
    independent, continuous = (frozen(root, "boundaries")["semantics"][name] for name in ("independent", "continuous"))
    crossing = continuous["bounded"]["stream_context: logits of other documents change by"]["value"]
    return (f"It leaves out, by name, the {len(continuous['not_applied'])} checks of independence, and it shows the "
            f"opposite on purpose: logits of later documents change by {crossing:.1f} when the first one is replaced, "
            f"and every later BOS is a target. The remaining checks hold for both: {len(independent['exact'])} exact "
            f"facts of independent documents and {len(continuous['exact'])} of a stream are frozen.")


def splits(root):
    """Return how many groups are in both splits of the demo corpus."""
    found = frozen(root, "split_demo")["groupings"]
    return (f"all {found['package']['shared_groups']} packages and {found['directory']['shared_groups']} directories "
            "are "
            "in both training and validation")


# ------------------------------------------------------------------------------------------- matrix


def matrix_totals(root):
    """Return how many right batches pass and how many planted faults are found."""
    totals = frozen(root, "diagnose_matrix")["totals"]
    return (f"Of {totals['forms']} right batches, {totals['right_batches_condemned']} FAIL. Of {totals['planted']} "
            f"planted faults, {totals['caught']} FAIL by the right item, {totals['cannot_tell']} cannot be told, and "
            f"{totals['missed']} are missed.")


def matrix_forms(root):
    """Return a table of the forms: what is declared, and the verdicts on the planted faults."""
    rows = []
    for name, form in frozen(root, "diagnose_matrix")["forms"].items():
        declared = form["declared"]
        said = [declared["convention"], declared["semantics"]]
        said += [f"isolation {declared['isolation']}"] if declared["isolation"] != "auto" else []
        said += ["relative positions"] if declared["position_ids"] == "relative" else []
        said += ["prompts"] if declared["prompts"] else []
        said += [f"ignore id {declared['ignore'][0]}"] if "ignore" in declared else []
        said += ["key names"] if "read_as" in declared else []
        verdicts = [cell["verdict"] for cell in form["faults"].values() if "verdict" in cell]
        right = "FAIL" if "FAIL" in form["right"]["statuses"].values() else "passes"
        rows.append([name, ", ".join(said), right, *(verdicts.count(verdict) for verdict in VERDICTS)])
    return tabulate(rows, ["form of the batch", "declared", "right batch", *VERDICTS.values()], "pipe")


def matrix_faults(root):
    """Return a table of the faults: the item that must FAIL, and in how many forms it does."""
    content = frozen(root, "diagnose_matrix")
    rows = []
    for fault, item in content["faults"].items():
        cells = [form["faults"][fault] for form in content["forms"].values()]
        verdicts = [cell["verdict"] for cell in cells if "verdict" in cell]
        rows.append([fault, item, len(verdicts), *(verdicts.count(verdict) for verdict in VERDICTS)])
    return tabulate(rows, ["planted fault", "item that must FAIL", "forms", *VERDICTS.values()], "pipe")


def collators(root):
    """Return a table of the published collators and the items that FAIL, as frozen."""
    content = frozen(root, "collators")
    rows = []
    for case in content["cases"]:
        failed = [item["item"] for item in case["items"] if item["status"] == "FAIL"]
        lengths = " + ".join(str(len(ids)) for ids in case["documents"])
        rows.append([f"`{case['function']}`", case["library"], lengths, case["options"]["semantics"],
                     "; ".join(failed) or "none"])
    versions = " and ".join(f"{name} {version}" for name, version in content["versions"].items())
    table = tabulate(rows, ["collator and setting", "library", "tokens", "declared", "items that FAIL"], "pipe")
    return f"{table}\n\nThe versions are {versions}."


BLOCKS = {f"batch_boundaries.{function.__name__}": function for function in (
    note, update, model, cutting, accumulation, stream, splits, matrix_totals, matrix_forms, matrix_faults, collators)}
