"""Generated blocks of this question's page (research/pages.py writes them from the frozen windows)."""

from tabulate import tabulate

from evidence import read_json
from research.source_windows.titles import forest_title

PAPER_STRATA = {2: "from_4097", 4: "from_8193"}  # whole rows of the study: the paper's stratum of as many rows
SIGNS = {"beginning": (1, "beginnings score worse than the baseline's"), "tail": (-1, "tails score better"),
         "tail_minus_beginning": (-1, "tail minus beginning is negative")}
HEADER = ["condition", "seed", "length", "documents", "beginning", "tail", "tail minus beginning"]


def windows(root, population):
    """The frozen windows of study `wheels`."""
    return read_json(root / f"research/source_windows/wheels_{population}.json")


def reported(root):
    """The windows of the paper's version 1, as reported."""
    return read_json(root / "research/published_tables/version_1.json")["groups"]["windows"]["values"]


def paper_cell(paper, cell, row):
    """Return the paper's cell of the same condition and seed, and of the same length in whole rows, or None."""
    low = int(cell["stratum"].removeprefix("over ").split("-")[0])
    return paper.get(cell["run"], {}).get(PAPER_STRATA.get(low // row))


def contrast_table(evidence, paper):
    """Format the contrasts, with the paper's beside them."""
    rows = []
    for cell in (cell for cell in evidence["cells"] if cell["contrast"]):
        entries, printed = cell["quantities"], paper_cell(paper, cell, evidence["context"])
        bounds = entries["tail_minus_beginning"]["interval_adjusted"]
        census = " (census)" if cell["census"] else ""
        rows.append([f"`{cell['condition']}`", cell["seed"], cell["stratum"], f"{cell['sources']}{census}",
                     *(f"{entry['value']:+.5f}" for entry in entries.values()),
                     f"[{bounds[0]:+.5f}, {bounds[1]:+.5f}]" if bounds else no_interval(cell, "tail_minus_beginning"),
                     f"{printed['interaction']} [{printed['low']}, {printed['high']}]" if printed else "-"])
    level = 100 - 5 / evidence["contrasts"]["number"]
    header = [*HEADER, f"{level:g} %", "the paper's, at the same multiples of its row"]
    return tabulate(rows, header, "pipe", disable_numparse=True, colalign=("left", *["right"] * (len(header) - 1)))


def no_interval(cell, quantity):
    """Return why a quantity has no interval."""
    return cell["degenerate"] or cell["quantities"][quantity]["reason"]


def contrast_finding(evidence):
    """State the contrasts in one sentence, as the figure does."""
    entries = [cell["quantities"]["tail_minus_beginning"] for cell in evidence["cells"] if cell["contrast"]]
    return f"{forest_title([entry for entry in entries if entry['interval_adjusted']])}."


def difference(cell, quantity):
    """Describe one difference of a cell, with its ordinary interval or the reason why it has none."""
    entry = cell["quantities"][quantity]
    bounds = entry["interval_95"]
    shown = f"[{bounds[0]:+.5f}, {bounds[1]:+.5f}]" if bounds else f"({no_interval(cell, quantity)})"
    return f"`{cell['condition']}` seed {cell['seed']}, {cell['stratum']} tokens, {entry['value']:+.5f} {shown}"


def other_lengths(evidence):
    """State in how many cells outside the contrasts each difference has its sign of SIGNS, and name the others."""
    sentences = []
    for quantity, (sign, finding) in SIGNS.items():
        cells = [cell for cell in evidence["cells"] if not cell["contrast"] and quantity in cell["quantities"]]
        others = [difference(cell, quantity) for cell in cells if sign * cell["quantities"][quantity]["value"] <= 0]
        sentence = f"{finding[0].upper()}{finding[1:]} in {len(cells) - len(others)} of {len(cells)} cells"
        sentences.append(f"{sentence}; the others are {'; '.join(others)}" if others else sentence)
    return ("Documents of other lengths are outside the contrasts; their intervals are ordinary 95 % intervals. "
            f"{'. '.join(sentences)}.")


def population(root, name):
    """Describe one population: its size, its finding, its table, and the documents of other lengths."""
    evidence = windows(root, name)
    return "\n\n".join([
        f"**{name.capitalize()}** ({evidence['sources']:,} documents, {evidence['windows']:,} windows; "
        f"{evidence['contrasts']['status']}). {contrast_finding(evidence)}",
        contrast_table(evidence, reported(root)), other_lengths(evidence)])


def signs(root):
    """State in how many contrasts beginning, tail and their difference all have the paper's signs."""
    paper, keys, same, number = reported(root), ("prefix", "tail", "interaction"), 0, 0
    for evidence in (windows(root, "development"), windows(root, "confirmation")):
        for cell in (cell for cell in evidence["cells"] if cell["contrast"]):
            printed = paper_cell(paper, cell, evidence["context"])
            values = [entry["value"] for entry in cell["quantities"].values()]
            same += all(value * float(printed[key]) > 0 for value, key in zip(values, keys, strict=True))
            number += 1
    return f"In {same} of the {number} contrasts, beginning, tail and their difference all have the paper's signs."


def paper_table(root):
    """The paper's own confirmation, as reported."""
    rows = [[f"`{run.rpartition('_s')[0]}`", run[-2:], stratum.removeprefix("from_"), *(cell[key] for key in (
        "sources", "prefix", "tail", "interaction")), f"[{cell['low']}, {cell['high']}]"]
            for run, strata in reported(root).items() for stratum, cell in strata.items()]
    header = ["condition", "seed", "length from", *HEADER[3:], "99.375 %"]
    return tabulate(rows, header, "pipe", disable_numparse=True, colalign=("left", *["right"] * (len(header) - 1)))


BLOCKS = {"source_windows.confirmation": lambda root: population(root, "confirmation"),
          "source_windows.development": lambda root: population(root, "development"),
          "source_windows.signs": signs, "source_windows.paper": paper_table}
