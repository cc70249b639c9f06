"""A study's source windows: the section `source_windows` of its evaluation protocol, and where the files lie.

A window is a beginning or a tail of one validation document: BOS and up to `context` of its text tokens, each of which
is a target. Windows are rows of an int64 table with the columns below; START and COUNT are a slice of the text.
"""

from pathlib import Path

import numpy as np

from corpora.prepared import prepared_file
from evidence import InputError, read_json, require, sha256_file
from protocols.schema import read_evaluation

DOCUMENT, LENGTH, STRATUM, TAIL, START, COUNT = range(6)
POPULATIONS = ("development", "confirmation")
KINDS = ("beginning", "tail")
PREPARED = ("validation/lengths.npy", "validation/tokens.npy", "tokenizer/bytes_supplied.npy",
            "tokenizer/bytes_raw.npy", "tokenizer/tokenizer.json")


def strata_of(edges):
    """[{"over", "up_to"}]: a document of BOS-inclusive length over < length <= up_to; the last has no upper end."""
    return [{"over": low, "up_to": high} for low, high in zip([0, *edges], [*edges, None])]


def name_of(stratum):
    """A stratum's lengths as text, such as 129-512."""
    return f"{stratum['over'] + 1}-{stratum['up_to']}" if stratum["up_to"] else f"over {stratum['over']}"


def check_relations(section, context, where):
    """InputError naming the key unless the parts of the section fit each other and the context."""
    bins, strata, chosen = (section[key] for key in ("bins", "strata", "contrast_strata"))
    require(bins[-1] < context, f"{where}.bins", f"expected edges below the context, {context}, found {bins}")
    require(context + 1 in strata, f"{where}.strata", f"expected the row, {context + 1}, among them, found {strata}")
    long_strata = {name_of(stratum) for stratum in strata_of(strata) if stratum["over"] > context}
    require(set(chosen) <= long_strata and len(set(chosen)) == len(chosen), f"{where}.contrast_strata",
            f"expected names among {sorted(long_strata)}, found {chosen}")
    populations = map(section["populations"].get, POPULATIONS)
    ends = [end for population in populations if population for end in population["documents"]]
    require(ends == sorted(ends), f"{where}.populations", f"expected confirmation after development, found {ends}")


class Study:
    """Protocol, window section and paths of one population of a study; InputError names what is missing or wrong."""

    def __init__(self, name, population, root):
        self.name, self.population, self.root = name, population, root.resolve()
        protocol, evaluation = (self.root / f"protocols/{prefix}{name}.json" for prefix in ("", "evaluation_"))
        self.paths = [protocol, evaluation]
        self.protocol, self.section = read_json(protocol), read_evaluation(evaluation, "source_windows")
        self.context = self.protocol["packing"]["context"]
        check_relations(self.section, self.context, f"{evaluation}: source_windows")
        if self.section["populations"][population] is None:
            raise InputError(f"{evaluation}: source_windows.populations.{population}: null: this study has none")
        self.strata = strata_of(self.section["strata"])
        self.data, self.runs = self.root / "data" / name, self.root / "runs" / name
        self.folder = self.runs / "windows" / population

    def prepared(self, name):
        """Path of a prepared file, as prepare.py wrote it; InputError saying how to prepare it."""
        return prepared_file(self.data, name)

    def array(self, name):
        """A prepared array, memory-mapped."""
        return np.load(self.prepared(name), mmap_mode="r")

    def inputs(self):
        """[{"path", "sha256"}] of the protocols and of the prepared files that windows are cut from."""
        paths = [*self.paths, *map(self.prepared, PREPARED)]
        if self.population == "confirmation":
            paths.append(self.exclusions())
        return sorted(({"path": path.relative_to(self.root).as_posix(), "sha256": sha256_file(path)} for path in paths),
                      key=lambda entry: entry["path"])

    def exclusions(self):
        """Path of the list of duplicates among the reserved documents; InputError saying how to make it."""
        path = self.root / f"research/confirmation/exclusions_{self.name}.json"
        if not path.exists():
            raise InputError(f"{path}: missing; make it with exclude_duplicates.py --study {self.name}")
        return path

    def excluded(self):
        """Documents that the population leaves out, rising: for the confirmation, the duplicates."""
        if self.population == "development":
            return []
        found, documents = read_json(self.exclusions()), self.section["populations"]["confirmation"]["documents"]
        require(found["documents"] == documents, f"{self.exclusions()}: documents", f"expected {documents}, as in "
                f"{self.paths[1]}: source_windows.populations.confirmation, found {found['documents']}")
        return [entry["document"] for entry in found["excluded"]]

    def selection(self):
        """(selection.json, windows, counts) as select_windows.py wrote them; InputError when one is not as recorded."""
        record = read_json(self.folder / "selection.json")
        arrays = {}
        for name, digest in record["files"].items():
            path = self.folder / name
            if sha256_file(path) != digest:
                raise InputError(f"{path}: not what selection.json records; run select_windows.py again")
            arrays[name] = np.load(path)
        if record["inputs"] != self.inputs():
            raise InputError(f"{self.folder}: selected from other inputs; delete it and run select_windows.py again")
        return record, arrays["windows.npy"], arrays["counts.npy"]

    def run_names(self):
        """The runs in the protocol's order, [(run, condition, seed)]."""
        return [(f"{condition}_s{seed}", condition, seed)
                for seed in self.protocol["seeds"] for condition in self.protocol["conditions"]]


def window_tokens(windows, lengths, tokens):
    """Yield the text tokens of each window, int64 (count,)."""
    offsets = np.concatenate([[0], np.cumsum(np.asarray(lengths) - 1)])
    for window in windows:
        first = offsets[window[DOCUMENT]] + window[START]
        yield np.asarray(tokens[first : first + window[COUNT]], np.int64)


def add_arguments(parser, root):
    """The arguments that all scripts of this question share."""
    parser.add_argument("--study", required=True, metavar="NAME", help="a protocol in protocols/")
    parser.add_argument("--population", required=True, choices=POPULATIONS)
    parser.add_argument("--root", type=Path, default=root, metavar="DIR", help="of the repository (default: this one)")


def study_of(options):
    """The Study that parsed arguments name."""
    return Study(options.study, options.population, options.root)
