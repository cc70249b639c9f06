"""The paper's printed numbers and the relations between them, read from the three files and checked for their shape."""

import re

from evidence import InputError, read_json
from protocols.shapes import TEXT, Leaf, check_shape
from research.published_tables.formulas import Formula, exactly, read_printed

QUESTION = "research/published_tables"


def _list_of(holds):
    return lambda value: type(value) is list and all(map(holds, value))


def _same_word_counts(value):
    return type(value) is dict and all(map(NOTE.holds, value.values())) and \
        len({len(words.split()) for words in value.values()}) < 2


# Both lists of objects may be empty, which `check_shape` refuses; so their entries are checked one by one.
NOTE = Leaf("a text", lambda v: type(v) is str)
DECIMAL = Leaf("a decimal as a text", lambda v: NOTE.holds(v) and re.fullmatch(r"\d+(\.\d+)?", v) is not None)
NAMES = Leaf("a list of texts", _list_of(NOTE.holds))
LIST = Leaf("a list", lambda v: type(v) is list)
OBJECT = Leaf("an object", lambda v: type(v) is dict)
NUMBER = Leaf("1 or 2", lambda v: type(v) is int and v in (1, 2))
NUMBERS = Leaf("a list of 1 and 2", _list_of(NUMBER.holds))
COLUMNS = Leaf("an object of texts with as many words each", _same_word_counts)
VERSION = {"groups": {TEXT: {"section": TEXT, "values": OBJECT}}, "identifiers": {TEXT: TEXT}, "status": TEXT,
           "version": NUMBER}
RELATIONS = {"constants": {"source": TEXT, "values": {TEXT: DECIMAL}}, "known_discrepancies": LIST, "relations": LIST,
             "only_bounded": NAMES, "only_in_version_1": NAMES, "uncheckable": NAMES}
ENTRIES = {"known_discrepancies": {"claim": TEXT, "found": TEXT, "note": NOTE, "version": NUMBER},
           "relations": {"claims": NAMES, "each": COLUMNS, "section": TEXT, "versions": NUMBERS, "why": TEXT}}


def _leaves(value, name, path):
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{name}.{key}", path)
    else:
        raise InputError(f"{path}: {name}: expected a printed string, found {value!r}")


def load_version(path):
    """Read one version file: ({name: printed string}, {identifier: string})."""
    data = read_json(path)
    check_shape(data, VERSION, path)
    if data["status"] != "reported by the paper":
        raise InputError(f"{path}: status: expected 'reported by the paper', found {data['status']!r}")
    if path.name != f"version_{data['version']}.json":
        raise InputError(f"{path}: version: expected that of the file's name, found {data['version']!r}")
    strings = {}
    for name, group in data["groups"].items():
        strings |= dict(_leaves(group["values"], name, path))
    return strings, data["identifiers"]


def load_relations(path):
    """Read relations.json and write out every relation: "formulas" is [(section, why, version, Formula)]."""
    data = read_json(path)
    check_shape(data, RELATIONS, path)
    for key, shape in ENTRIES.items():
        for index, entry in enumerate(data[key]):
            check_shape(entry, shape, f"{path}.{key}[{index}]")
    data["formulas"] = []
    for relation in data["relations"]:
        columns = {key: words.split() for key, words in relation["each"].items()}
        steps = [dict(zip(columns, step)) for step in zip(*columns.values(), strict=True)] or [{}]
        data["formulas"] += [
            (relation["section"], relation["why"], version, Formula(claim.format(**step)))
            for version in relation["versions"] for step in steps for claim in relation["claims"]
        ]
    return data


def namespaces(versions, constants):
    """Return {version: {name: Range}}: its own numbers, `recipe.` constants, and version 1's under `first.`."""
    known = {f"recipe.{key}": exactly(value) for key, value in constants["values"].items()}
    ranges = {v: {name: read_printed(text, f"version_{v}.json: {name}") for name, text in strings.items()}
              for v, (strings, _) in versions.items()}
    earlier = {f"first.{name}": value for name, value in ranges[1].items()}
    return {1: ranges[1] | known, 2: ranges[2] | earlier | known}


def reach(formulas, numbers):
    """Return (names that an equation reads, names that any claim reads), over both versions."""
    equated, read = set(), set()
    for _, _, version, formula in formulas:
        names = {name.removeprefix("first.") for name in formula.names(numbers[version])}
        read |= names
        equated |= names if formula.equates else set()
    return equated, read


def read_all(folder):
    """Read the three files: ({version: (numbers, identifiers)}, relations, {version: {name: Range}})."""
    versions = {version: load_version(folder / f"version_{version}.json") for version in (1, 2)}
    relations = load_relations(folder / "relations.json")
    return versions, relations, namespaces(versions, relations["constants"])
