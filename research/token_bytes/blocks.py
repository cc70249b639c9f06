"""Generated blocks of this question's page (research/pages.py writes them from the frozen audits)."""

from tabulate import tabulate

from evidence import read_json

STUDIES = ("demo", "wheels")
CLASSES = {
    "single_byte": "a single byte of a longer character",
    "partial_alone": "several bytes of one character",
    "partial_and_text": "a partial character beside whole ones",
    "several_partials": "two partial characters or more",
}
MEANING = {"corpus": "one pass of the training corpus", "inputs": "the inputs of one baseline run",
           "scored": "the targets of the official score"}


def audits(root):
    """The frozen audit of every study."""
    return {study: read_json(root / f"research/token_bytes/{study}.json") for study in STUDIES}


def answer(root):
    """How many token types differ."""
    demo, wheels = audits(root).values()
    reported = demo["reported"]
    return (f"{demo['differing_types']} of the demo's {demo['ordinary_types']:,} ordinary token types differ, and "
            f"{wheels['differing_types']} of the {wheels['ordinary_types']:,} of `wheels`. In both studies "
            f"{demo['classes']['single_byte']['types']} of them are the single bytes above 7f, which every byte-level "
            f"vocabulary holds. The paper reports {reported['differing_types']} differing types, "
            f"{reported['share_of_training_input_tokens']} of its training input tokens.")


def classes(root):
    """Types by class and study."""
    found = audits(root).values()
    rows = [[meaning, *(audit["classes"][name]["types"] for audit in found)] for name, meaning in CLASSES.items()]
    return tabulate(rows, ["class", *(f"`{study}` types" for study in STUDIES)], "pipe")


def streams(root):
    """How often the differing types occur in each stream."""
    rows = []
    for study, audit in audits(root).items():
        for name, meaning in MEANING.items():
            stream = audit["streams"][name]
            excess = stream["supplied_bytes"] / stream["raw_bytes"] - 1
            rows.append([f"`{study}`", meaning, f"{stream['tokens']:,}", f"{stream['differing']:,}",
                         f"{stream['share']:.2%}", f"{excess:+.2%}"])
    header = ["study", "stream (BOS included)", "tokens", "of differing types", "share", "supplied over raw bytes"]
    return tabulate(rows, header, "pipe", disable_numparse=True, colalign=("left", "left", *["right"] * 4))


def scores(root):
    """Both scores of every run."""
    rows = [[f"`{study}`", f"`{run}`", f"{score['bits_per_byte']:.4f}", f"{score['raw_bits_per_byte']:.4f}",
             f"{score['raw_minus_supplied']:+.4f}"]
            for study, audit in audits(root).items() for run, score in audit["score"].items()]
    header = ["study", "run", "bits per supplied byte (official)", "bits per raw byte", "difference"]
    return tabulate(rows, header, "pipe", disable_numparse=True, colalign=("left", "left", *["right"] * 3))


BLOCKS = {"token_bytes.answer": answer, "token_bytes.classes": classes, "token_bytes.streams": streams,
          "token_bytes.scores": scores}
