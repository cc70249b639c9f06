"""The numbers in the README of the source exclusion question are those of the frozen evidence and of the search."""

from pathlib import Path

from evidence import read_json

HERE = Path(__file__).resolve().parents[1] / "research/source_exclusion"


def audit_rows():
    """The table of streams."""
    streams = {}
    for study in ("demo", "wheels"):
        evidence = read_json(HERE / f"{study}.json")
        streams |= {f"`{study}`, run, `{name}`": record for name, record in evidence["training"].items()}
        streams[f"`{study}`, evaluation, `baseline`"] = evidence["evaluation"]
    for study in ("demo", "wheels"):
        evidence = read_json(HERE / f"repeated_{study}.json")
        streams |= {f"`{study}`, {evidence['passes']} passes, `{name}`": evidence["training"][name]
                    for name in ("baseline", "random_crop", "segmented", "lossless")}
    return [audit_row(name, record) for name, record in streams.items()]


def audit_row(name, record):
    """One stream; outside the theorem there is no protected set."""
    kept, tokens, documents = record["protected"], record["tokens"], record["documents"]
    never = [f"{kept['documents']:,}", f"{100 * kept['share_of_arrived']:.1f} %"] if kept["applies"] else ["-", "-"]
    discarded = tokens["discarded"] / (tokens["arrived"] + tokens["synthetic_bos"])
    cells = [name, f"{documents['arrived']:,}", f"{tokens['arrived']:,}", *never, f"{100 * discarded:.1f} %",
             f"{documents['distinct_started']:,} of {documents['corpus']:,}"]
    return f"| {' | '.join(cells)} |"


def order_lines():
    """One line a corpus on the range over its permutations."""
    lines = []
    for study in ("demo", "wheels"):
        ranges = read_json(HERE / f"permutations_{study}.json")["ranges"]
        startup, share = ranges["startup_target"], ranges["protected_share"]
        lines.append(f"* `{study}`: the first long document begins between targets {startup['least']:,} and "
                     f"{startup['most']:,}; {100 * share['least']:.1f} to {100 * share['most']:.1f} % of the tokens "
                     "that arrived wait in the longest documents.")
    return lines


def served_rows():
    """The table of a repeated corpus, by powers of two over a row, and its longest document."""
    classes = [(study, c, c["bound"]["pass"], c["first_begun"]["pass"]) for study in ("demo", "wheels")
               for c in read_json(HERE / f"served_{study}.json")["classes"] if c["from"] >= 4096]
    return [f"| `{study}` | {c['from']:,} | {c['documents']:,} | {bound:,} | {begun:,} |"
            for study, c, bound, begun in classes]


def steady_lines():
    """One line a corpus on the passes after which every pass is the same."""
    lines = []
    for study in ("demo", "wheels"):
        evidence = read_json(HERE / f"served_{study}.json")
        last, repeats = evidence["steady"]["last_passes"], evidence["steady"]["state_repeats"]
        discarded = last["discarded"] / last["passes"] / evidence["tokens"]
        first = evidence["passes"][0]["discarded"] / evidence["tokens"]
        lines.append(f"* `{study}`: every pass is like the one before (period {repeats['period']}) from pass "
                     f"{repeats['pass']:,} on. Each document is then begun once a pass, and {100 * discarded:.1f} % of "
                     f"the tokens are thrown away, {100 * first:.1f} % in the first pass.")
    return lines


def test_every_number_in_the_tables_is_that_of_the_evidence():
    lines = (HERE / "README.md").read_text(encoding="utf-8").splitlines()
    for expected in (audit_rows(), order_lines(), served_rows(), steady_lines()):
        at = lines.index(expected[0])
        assert lines[at:at + len(expected)] == expected and not lines[at + len(expected)].startswith(("|", "*"))


def test_every_script_and_kind_of_evidence_is_named():
    text = (HERE / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in sorted(HERE.glob("*.py")) if f"`{path.name}`" not in text] == []
    kinds = {path.name.replace("demo", "<study>").replace("wheels", "<study>") for path in HERE.glob("*.json")}
    assert [kind for kind in sorted(kinds) if f"`{kind}`" not in text] == []
