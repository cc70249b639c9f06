"""A study's source windows: the section `source_windows` of its evaluation protocol, and where the files lie.

A window is a beginning or a tail of one validation document: BOS and up to `context` of its text tokens, each of which
is a target. Windows are rows of an int64 table with the columns below; START and COUNT are a slice of the text.
"""

import itertools
from pathlib import Path

import numpy as np

from evidence import InputError, read_json, require_keys, sha256_file
from protocol import require_prepared

DOCUMENT, LENGTH, STRATUM, TAIL, START, COUNT = range(6)
POPULATIONS = ("development", "confirmation")
KINDS = ("beginning", "tail")
SECTION = {"bins", "bootstrap", "contrast_strata", "per_stratum", "populations", "strata"}
PREPARED = ("validation/lengths.npy", "validation/tokens.npy", "tokenizer/bytes_supplied.npy",
            "tokenizer/bytes_raw.npy", "tokenizer/tokenizer.json")


def _require(holds, where, expected, found):
    if not holds:
        raise InputError(f"{where}: expected {expected}, found {found!r}")


def _whole(value, least=0):
    return type(value) is int and value >= least


def _rising(value):
    return (isinstance(value, list) and value and all(_whole(item, 1) for item in value)
            and all(low < high for low, high in itertools.pairwise(value)))


def strata_of(edges):
    """[{"over", "up_to"}]: a document of BOS-inclusive length over < length <= up_to; the last has no upper end."""
    return [{"over": low, "up_to": high} for low, high in zip([0, *edges], [*edges, None])]


def name_of(stratum):
    """A stratum's lengths as text, such as 129-512."""
    return f"{stratum['over'] + 1}-{stratum['up_to']}" if stratum["up_to"] else f"over {stratum['over']}"


def check_section(section, context, where):
    """InputError naming the key unless the section is complete and consistent with the context."""
    require_keys(section, SECTION, where)
    for key in ("strata", "bins"):
        _require(_rising(section[key]), f"{where}.{key}", "rising positive integers", section[key])
    _require(section["bins"][-1] < context, f"{where}.bins", f"edges below the context, {context}", section["bins"])
    _require(context + 1 in section["strata"], f"{where}.strata", f"the row, {context + 1}, among them",
             section["strata"])
    _require(_whole(section["per_stratum"], 1), f"{where}.per_stratum", "a positive integer", section["per_stratum"])
    require_keys(section["bootstrap"], {"replicates", "seed"}, f"{where}.bootstrap")
    for key, least in (("replicates", 1), ("seed", 0)):
        found = section["bootstrap"][key]
        _require(_whole(found, least), f"{where}.bootstrap.{key}", f"an integer of {least} or more", found)
    long_strata = {name_of(stratum) for stratum in strata_of(section["strata"]) if stratum["over"] > context}
    chosen = section["contrast_strata"]
    _require(isinstance(chosen, list) and chosen and set(chosen) <= long_strata and len(set(chosen)) == len(chosen),
             f"{where}.contrast_strata", f"names among {sorted(long_strata)}", chosen)
    check_populations(section["populations"], f"{where}.populations")


def check_populations(populations, where):
    """InputError unless each is [first, last) and a seed, or null for a study without; confirmation comes later."""
    require_keys(populations, POPULATIONS, where)
    there = {name: population for name, population in populations.items() if population is not None}
    for name, population in there.items():
        at = f"{where}.{name}"
        require_keys(population, {"documents", "seed"}, at)
        _require(_whole(population["seed"]), f"{at}.seed", "an integer of 0 or more", population["seed"])
        span = population["documents"]
        _require(isinstance(span, list) and len(span) == 2 and all(map(_whole, span)) and span[0] < span[1],
                 f"{at}.documents", "[first, last)", span)
    ends = [end for name in POPULATIONS if name in there for end in there[name]["documents"]]
    _require(ends == sorted(ends), where, "confirmation after development", ends)


class Study:
    """Protocol, window section and paths of one population of a study; InputError names what is missing or wrong."""

    def __init__(self, name, population, root):
        self.name, self.population, self.root = name, population, root.resolve()
        protocol, evaluation = (self.root / f"protocols/{prefix}{name}.json" for prefix in ("", "evaluation_"))
        self.paths = [protocol, evaluation]
        self.protocol, sections = read_json(protocol), read_json(evaluation)
        if "source_windows" not in sections:
            raise InputError(f"{evaluation}: missing key source_windows")
        self.section, self.context = sections["source_windows"], self.protocol["packing"]["context"]
        check_section(self.section, self.context, f"{evaluation}: source_windows")
        if self.section["populations"][population] is None:
            raise InputError(f"{evaluation}: source_windows.populations.{population}: null: this study has none")
        self.strata = strata_of(self.section["strata"])
        self.data, self.runs = self.root / "data" / name, self.root / "runs" / name
        self.folder = self.runs / "windows" / population

    def prepared(self, name):
        """Path of a prepared file; InputError saying how to prepare it."""
        require_prepared(self.data / name, self.name)
        return self.data / name

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
        _require(found["documents"] == documents, f"{self.exclusions()}: documents", f"{documents}, as in "
                 f"{self.paths[1]}: source_windows.populations.confirmation", found["documents"])
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
