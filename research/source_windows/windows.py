"""The source windows of a study: the section `source_windows` of its evaluation protocol, and the paths of the files.

A window is a beginning or a tail of one validation document: BOS and up to `context` of its text tokens, each of which
is a target. Windows are rows of an int64 table with the columns below; START and COUNT are a slice of the text.
"""

from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np

from corpora.prepared import Prepared
from evidence import InputError, read_json, require, sha256_file
from protocols.schema import read_evaluation

DOCUMENT, LENGTH, STRATUM, TAIL, START, COUNT = range(6)
POPULATIONS = ("development", "confirmation")
KINDS = ("beginning", "tail")
PREPARED = ("validation/lengths.npy", "validation/tokens.npy", "tokenizer/bytes_supplied.npy",
            "tokenizer/bytes_raw.npy", "tokenizer/tokenizer.json")


def strata_of(edges):
    """Return [{"over", "up_to"}]: over < length <= up_to, BOS included; the last stratum has no upper end (None)."""
    return [{"over": low, "up_to": high} for low, high in pairwise([0, *edges, None])]


def name_of(stratum):
    """Name a stratum by its lengths, such as 129-512."""
    return f"{stratum['over'] + 1}-{stratum['up_to']}" if stratum["up_to"] else f"over {stratum['over']}"


def check_relations(section, context, where):
    """Raise InputError, naming the key, unless the parts of the section fit each other and the context."""
    bins, strata, chosen = (section[key] for key in ("bins", "strata", "contrast_strata"))
    require(bins[-1] < context, f"{where}.bins", f"expected edges below the context, {context}, found {bins}")
    require(context + 1 in strata, f"{where}.strata", f"expected the row, {context + 1}, among them, found {strata}")
    long_strata = {name_of(stratum) for stratum in strata_of(strata) if stratum["over"] > context}
    require(set(chosen) <= long_strata and len(set(chosen)) == len(chosen), f"{where}.contrast_strata",
            f"expected names among {sorted(long_strata)}, found {chosen}")
    populations = map(section["populations"].get, POPULATIONS)
    ends = [end for population in populations if population for end in population["documents"]]
    require(ends == sorted(ends), f"{where}.populations", f"expected confirmation after development, found {ends}")


class Windows:
    """Protocol, window section and paths of one population of a study; InputError names what is missing or wrong."""

    def __init__(self, name, population, root):
        self.name, self.population, self.root = name, population, root.resolve()
        protocol, evaluation = (self.root / f"protocols/{prefix}{name}.json" for prefix in ("", "evaluation_"))
        self.paths = [protocol, evaluation]
        self.protocol, self.section = read_json(protocol), read_evaluation(evaluation, "source_windows")
        self.context = self.protocol["packing"]["context"]
        check_relations(self.section, self.context, f"{evaluation}: source_windows")
        if self.section["populations"][population] is None:
            raise InputError(f"{evaluation}: source_windows.populations.{population}: null: the study has no windows "
                             "of this population")
        self.strata = strata_of(self.section["strata"])
        self.runs = self.root / "runs" / name
        self.folder = self.runs / "windows" / population

    @cached_property
    def prepared(self):
        """The prepared data of the study."""
        return Prepared(self.root, self.name)

    def inputs(self):
        """The evidence's `inputs`: the protocols, and the prepared files that the windows are slices of."""
        paths = [*self.paths, self.exclusions()] if self.population == "confirmation" else self.paths
        return self.prepared.inputs(PREPARED, paths)

    def exclusions(self):
        """Path of the list of duplicates among the reserved documents; InputError says how to make it."""
        path = self.root / f"research/confirmation/exclusions_{self.name}.json"
        require(path.exists(), path, f"missing; make it with exclude_duplicates.py --study {self.name}")
        return path

    def excluded(self):
        """Documents that the population leaves out, ascending: for the confirmation, the duplicates."""
        if self.population == "development":
            return []
        found, documents = read_json(self.exclusions()), self.section["populations"]["confirmation"]["documents"]
        require(found["documents"] == documents, f"{self.exclusions()}: documents", f"expected {documents}, as in "
                f"{self.paths[1]}: source_windows.populations.confirmation, found {found['documents']}")
        return [entry["document"] for entry in found["excluded"]]

    def selection(self):
        """Read (selection.json, windows, counts) of select_windows.py; InputError when one differs from its record."""
        record = read_json(self.folder / "selection.json")
        arrays = {}
        for name, digest in record["files"].items():
            path = self.folder / name
            require(sha256_file(path) == digest, path, "not what selection.json records; run select_windows.py again")
            arrays[name] = np.load(path)
        require(record["inputs"] == self.inputs(), self.folder,
                "selected from other inputs; delete it and run select_windows.py again")
        return record, arrays["windows.npy"], arrays["counts.npy"]

    def run_names(self):
        """The runs in the protocol's order, as [(run, condition, seed)]."""
        return [(f"{condition}_s{seed}", condition, seed)
                for seed in self.protocol["seeds"] for condition in self.protocol["conditions"]]


def window_tokens(windows, prepared):
    """Yield the text tokens of each window, int64 (count,)."""
    offsets, tokens = prepared.offsets("validation"), prepared.tokens("validation")
    for window in windows:
        first = offsets[window[DOCUMENT]] + window[START]
        yield np.asarray(tokens[first : first + window[COUNT]], np.int64)


def add_arguments(parser, root):
    """Add the arguments that all scripts of this question share."""
    parser.add_argument("--study", required=True, metavar="NAME", help="a protocol in protocols/")
    parser.add_argument("--population", required=True, choices=POPULATIONS, help="which validation documents")
    parser.add_argument("--root", type=Path, default=root, metavar="DIR", help="the repository (default: this one)")


def windows_of(options):
    """Return the Windows that parsed arguments name."""
    return Windows(options.study, options.population, options.root)
