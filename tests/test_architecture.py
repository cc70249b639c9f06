"""The rules of the house, read from the source of every Python file: who may import whom, how long, how named.

Each test collects findings ("file:line: what is wrong") and expects none.
"""

import ast
import functools
import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
OWN_FOLDERS = ("bundles", "corpora", "loaders", "protocols", "research")
TESTS = "tests/*"

# Standard library only, or each other: every file may import these three.
GROUND = ("evidence", "files", "manifest")

# The first pattern that fits a file decides what it may import beside the standard library and the ground: modules of
# this repository (a folder allows all of its modules) and installed packages.
MAY_IMPORT = {
    "files.py": "",
    "evidence.py": "files",
    "manifest.py": "files evidence",
    "surroundings.py": "",
    "devices.py": "surroundings",
    "bundles/*": "bundles",
    "protocols/run_files.py": "protocols corpora.prepared",
    "protocols/*": "protocols",
    "loaders/rows.py": "loaders numpy torch",
    "loaders/*": "loaders numpy numba",
    "corpora/*": "corpora protocols surroundings numpy pyarrow requests urllib3 rustbpe tiktoken tqdm",
    "prepare.py": "corpora protocols surroundings numpy tabulate",
    "generate_runs.py": "protocols corpora.prepared",
    "freeze_supplement.py": "bundles protocols",
    "fetch_supplement.py": "bundles corpora.transfer tqdm",
    "verify_all.py": "bundles surroundings",
    "check_manifests.py": "bundles protocols",
    "run_all.py": "devices reservations surroundings",
    "reservations.py": "surroundings",
    "train.py": "run_directory checkpoint captures scoring surroundings loaders numpy torch safetensors tqdm",
    "run_directory.py": "checkpoint surroundings loaders numpy torch safetensors tqdm",
    "checkpoint.py": "loaders torch safetensors",
    "scoring.py": "run_directory loaders numpy torch",
    "captures.py": "",
    "research/*": "research corpora loaders protocols devices surroundings train checkpoint run_directory scoring "
                  "numpy numba torch safetensors pyarrow tiktoken matplotlib tabulate tqdm",
}
WITHOUT_GROUND = ("files.py", "evidence.py", "manifest.py", "loaders/*")
OPTIONAL = {  # what these scripts examine is installed from requirements-extra.txt
    "research/theorem/prove_retention.py": "z3",
    "research/batch_boundaries/real_collators.py": "datasets tokenizers transformers trl",
}
VERIFIERS_MAY_IMPORT = {"numpy"}
JSON_SHAPES = Path("protocols/shapes.py")  # checks the form of any JSON file, and computes nothing


def python_files(*excluded):
    """Every Python file of the repository as a path below ROOT, without those that fit an excluded pattern."""
    found = [path.relative_to(ROOT) for folder in (*OWN_FOLDERS, "tests") for path in (ROOT / folder).rglob("*.py")]
    found += [path.relative_to(ROOT) for path in ROOT.glob("*.py")]
    return [path for path in sorted(found) if not any(fnmatch(path.as_posix(), pattern) for pattern in excluded)]


@functools.cache
def source(path):
    return (ROOT / path).read_text()


@functools.cache
def tree(path):
    return ast.parse(source(path))


def is_script(path):
    return any(isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"
               for node in tree(path).body)


SCRIPTS = [path for path in python_files(TESTS) if is_script(path)]


def module_file(name):
    """The file of this repository that a dotted module name means, or None."""
    path = Path(*name.split(".")).with_suffix(".py")
    return path if (ROOT / path).is_file() else None


@functools.cache
def imports(path):
    """[(line, dotted module)] of every import in a file; `from folder import name` is the module folder.name if any."""
    found = []
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            modules = [name for name in inner if module_file(name)]
            found += [(node.lineno, name) for name in modules or [node.module]]
    return found


def own_imports(path):
    """[(line, file)] of a file's imports from this repository."""
    return [(line, module_file(name)) for line, name in imports(path) if module_file(name)]


def installed_imports(path):
    """[(line, package)] of a file's imports from installed packages."""
    packages = [(line, name.split(".")[0]) for line, name in imports(path) if not module_file(name)]
    return [(line, name) for line, name in packages
            if name not in sys.stdlib_module_names and name not in (*OWN_FOLDERS, "tiny")]


def reached(path):
    """The files of this repository that a file imports, directly or through others, and itself."""
    found, waiting = set(), [path]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += [imported for _, imported in own_imports(path)]
    return found


def expect_none(findings):
    """Fail with one finding a line, if there are any."""
    assert not findings, "\n" + "\n".join(findings)


# ------------------------------------------------------------------------------------------- imports


def test_each_file_imports_only_what_its_room_may():
    findings = []
    for path in python_files(TESTS):
        name = path.as_posix()
        allowed = next(text for pattern, text in MAY_IMPORT.items() if fnmatch(name, pattern)).split()
        allowed += OPTIONAL.get(name, "").split()
        if not any(fnmatch(name, pattern) for pattern in WITHOUT_GROUND):
            allowed += GROUND
        for line, name in imports(path):
            parts = name.split(".")
            standard = parts[0] in sys.stdlib_module_names
            if not standard and not any(".".join(parts[:n]) in allowed for n in range(1, len(parts) + 1)):
                findings.append(f"{path}:{line}: imports {name}")
    expect_none(findings)


def test_no_script_imports_a_script():
    """A run directory must work alone, so train.py is both the script and the module that defines the model."""
    findings = [f"{path}:{line}: imports the script {imported}" for path in python_files(TESTS)
                for line, imported in own_imports(path)
                if imported in SCRIPTS and not (imported == Path("train.py") and path.parts[0] == "research")]
    expect_none(findings)


def test_a_verifier_reaches_numpy_and_what_questions_share_and_no_other_code():
    """A verifier must not depend on the code that it checks."""
    findings = []
    for script in python_files(TESTS):
        if not script.match("research/*/verify_*.py") and script != Path("research/reference_packer.py"):
            continue
        for path in sorted(reached(script)):
            shared = path.stem in GROUND or path == JSON_SHAPES or path.parent in (Path("research"), script.parent)
            findings += [] if shared else [f"{script}: reaches {path}"]
            findings += [f"{script}: reaches {name} through {path}" for _, name in installed_imports(path)
                         if name not in VERIFIERS_MAY_IMPORT]
    expect_none(findings)


def test_the_questions_of_research_import_each_other_in_no_circle():
    """A folder that another folder needs must not need it back, through however many others."""
    folders = {}
    for path in python_files(TESTS, "protocols/*"):
        if path.parts[0] == "research" and len(path.parts) == 3:
            folders.setdefault(path.parent, set()).update(
                imported.parent for _, imported in own_imports(path) if len(imported.parts) == 3)
    while folders:
        ends = {folder for folder, needed in folders.items() if not needed - {folder} & folders.keys()}
        assert ends, f"circle among {sorted(map(str, folders))}"
        folders = {folder: needed - ends for folder, needed in folders.items() if folder not in ends}


def test_every_installed_package_that_is_imported_is_pinned():
    def pinned(name):
        return set(re.findall(r"^([\w-]+)==", (ROOT / name).read_text(), re.MULTILINE))

    assert "torch==2.13.0" in (ROOT / "requirements.txt").read_text()
    # what a pinned package requires itself
    brought = {"urllib3": "requests", "regex": "tiktoken", "z3": "z3-solver", "datasets": "trl",
               "tokenizers": "transformers"}
    everything, extra = pinned("requirements.txt"), pinned("requirements-extra.txt")
    findings = []
    for path in python_files():
        wanted = everything | extra if path.as_posix() in OPTIONAL or path.match(TESTS) else everything
        findings += [f"{path}:{line}: {name} is not pinned" for line, name in installed_imports(path)
                     if brought.get(name, name) not in wanted]
    expect_none(findings)


def test_every_script_and_test_helper_finds_the_repository_by_one_line():
    """Python started with -I, or in a folder of research/, has only this line to find the root by."""
    findings = []
    for path in SCRIPTS:
        depth = len(path.parts) - 1
        folder = f"parents[{depth}]" if depth else "parent"
        line = f"sys.path.insert(0, str(Path(__file__).resolve().{folder}))"
        others = [node.lineno for node in ast.walk(tree(path))
                  if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("sys.path.")]
        if own_imports(path) and f"\n{line}" not in source(path):
            findings.append(f"{path}:1: lacks {line}")
        findings += [f"{path}:{number}: changes sys.path again" for number in others[1:]]
    for path in python_files():
        findings += [f"{path}:{node.lineno}: imports relatively" for node in ast.walk(tree(path))
                     if isinstance(node, ast.ImportFrom) and node.level]
    expect_none(findings)


# ------------------------------------------------------------------------------------------- scripts

HELP = """
import contextlib, importlib, io, sys
sys.path.insert(0, sys.argv[1])
for name in sys.argv[2:]:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        module = importlib.import_module(name)
        try:
            module.main(["--help"])
        except SystemExit as stop:
            code = stop.code
        else:
            code = "none: main returned"
    first = (module.__doc__ or "").split("\\n")[0]
    shown = bool(first) and first in output.getvalue()
    print(name, "ok" if code in (0, None) and shown else f"exit {code}, docstring shown: {shown}", flush=True)
"""


def test_every_script_answers_help_with_nothing_prepared(tmp_path):
    """One process, in an empty folder, imports all scripts and asks each main for its help; nothing may be written."""
    scripts = [path for path in SCRIPTS if path.as_posix() not in OPTIONAL]
    names = {".".join(path.with_suffix("").parts): path for path in scripts}
    done = subprocess.run([sys.executable, "-I", "-c", HELP, str(ROOT), *names], cwd=tmp_path, text=True,
                          capture_output=True)
    answers = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    findings = [f"{names[name]}: --help: {answers.get(name, done.stderr[-2000:])}" for name in names
                if answers.get(name) != "ok"]
    expect_none(findings)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", sorted(OPTIONAL))
def test_scripts_for_optional_packages_answer_help_without_them(path, tmp_path):
    done = subprocess.run([sys.executable, str(ROOT / path), "--help"], cwd=tmp_path, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert source(Path(path)).split("\n")[0].strip('"') in done.stdout


def test_every_script_has_a_main_with_optional_arguments_and_one_form_of_docstring():
    findings = []
    for path in SCRIPTS:
        text = ast.get_docstring(tree(path)) or ""
        findings += [f"{path}:1: the docstring has no line {word!r}" for word in ("Reads", "Writes", "Needs", "About")
                     if not re.search(rf"^{word} +\S", text, re.MULTILINE)]
        if not re.search(rf"^    .*{path.name}", text, re.MULTILINE):
            findings.append(f"{path}:1: the docstring has no command line")
        mains = [node for node in tree(path).body if isinstance(node, ast.FunctionDef) and node.name == "main"]
        if [ast.unparse(node.args) for node in mains] != ["argv=None"]:
            findings.append(f"{path}:1: has no main(argv=None)")
        if "ArgumentParser(" in source(path):
            findings.append(f"{path}:1: makes its own ArgumentParser; use evidence.parser(__doc__)")
    expect_none(findings)


@pytest.mark.parametrize("path", [path for path in SCRIPTS if path.match("research/*/verify_*.py")], ids=str)
def test_verifiers_only_read(path):
    """A verifier names no function that writes a file."""
    writers = {"write_json", "write_atomic", "write_text", "write_bytes", "mkdir", "unlink", "rename", "savefig",
               "rmtree", "copy"}
    calls = [node for node in ast.walk(tree(path)) if isinstance(node, ast.Call)]
    findings = [f"{path}:{call.lineno}: calls {ast.unparse(call.func)}" for call in calls
                if ast.unparse(call.func).split(".")[-1] in writers]
    expect_none(findings)


# ------------------------------------------------------------------------------------------- sizes and leftovers


def test_files_are_at_most_250_lines_and_the_trainer_600():
    findings = []
    for path in python_files(TESTS):
        lines, most = len(source(path).splitlines()), 600 if path == Path("train.py") else 250
        findings += [f"{path}: {lines} lines, at most {most}"] if lines > most else []
    expect_none(findings)


def test_functions_are_at_most_40_lines():
    functions = [(path, node) for path in python_files() for node in ast.walk(tree(path))
                 if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    findings = [f"{path}:{node.lineno}: {node.name} has {node.end_lineno - node.lineno + 1} lines"
                for path, node in functions if node.end_lineno - node.lineno >= 40]
    expect_none(findings)


def defined_names(path):
    """[(line, name)] of a file's functions, classes and constants at module level."""
    found = []
    for node in tree(path).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.append((node.lineno, node.name))
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found += [(node.lineno, name.id) for target in targets for name in ast.walk(target)
                      if isinstance(name, ast.Name)]
    return found


@functools.cache
def used_names(*excluded):
    """Every name that some file reads, as a variable, an attribute, an import, a parameter or a word of a string."""
    found = set()
    for path in python_files(*excluded):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
                found.add(node.id)
            elif isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.ImportFrom):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.arg):
                found.add(node.arg)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
                found.add(node.value)
    return found


def test_every_name_of_a_module_is_used():
    """What only tests use is not used; pytest itself calls tests, hooks and automatic fixtures."""
    called = re.compile(r"main|__\w+__|pytest_\w+|test_\w+|pytestmark")
    findings = []
    for path in python_files():
        used = used_names() if path.match("tests/*.py") or path.match("tests/tiny/*.py") else used_names(TESTS)
        automatic = {node.name for node in tree(path).body if isinstance(node, ast.FunctionDef)
                     and "autouse=True" in "".join(map(ast.unparse, node.decorator_list))}
        findings += [f"{path}:{line}: nobody uses {name}" for line, name in defined_names(path)
                     if name not in used | automatic and not called.fullmatch(name)]
    expect_none(findings)


def test_only_the_reference_packer_and_the_words_of_the_theorem_place_documents():
    """One packer beside the loaders: a sorted buffer elsewhere would be a second one."""
    findings = [f"{path}: keeps a sorted buffer" for path in python_files("research/theorem/*", TESTS)
                if path != Path("research/reference_packer.py") and "insort" in source(path)]
    expect_none(findings)


def test_no_finding_of_ruff_is_silenced_in_a_line():
    findings = [f"{path}:{number}: silences ruff" for path in python_files()
                for number, line in enumerate(source(path).splitlines(), 1) if re.search(r"#\s*" + "noqa", line)]
    expect_none(findings)


def test_no_file_names_a_machine_or_a_package_registry():
    """Paths of one machine and addresses of registries and mirrors mean nothing to a reader elsewhere."""
    words = ["/" + "work/", "/" + "home/", "pypi" + ".org", "python" + "hosted.org", "index" + "-url"]
    suffixes = {".py", ".md", ".txt", ".toml", ".json", ".cff", ".sha256", ""}
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    findings = []
    for name in listed.split("\0")[:-1]:
        path = ROOT / name
        if not name.startswith("supplement_v") and path.suffix in suffixes and path.is_file():
            text = path.read_text()
            findings += [f"{name}: contains {word}" for word in words if word in text]
    expect_none(findings)


# ------------------------------------------------------------------------------------------- tests


def test_no_test_imports_a_test_and_helpers_are_imported_from_tiny():
    findings = [f"{path}:{line}: imports {name}" for path in python_files() for line, name in imports(path)
                if name.split(".")[0].startswith("test_") or name.split(".")[0] in ("tests", "conftest")]
    expect_none(findings)


@functools.cache
def functions_of(path):
    """[(line, name, whether it has an assertion of its own, names that it calls)] of all functions in a file."""
    found = []
    for function in ast.walk(tree(path)):
        if isinstance(function, ast.FunctionDef):
            nodes = list(ast.walk(function))
            calls = {ast.unparse(node.func).split(".")[-1] for node in nodes if isinstance(node, ast.Call)}
            asserts = any(isinstance(node, ast.Assert) for node in nodes) or bool(calls & {"raises", "fail"})
            found.append((function.lineno, function.name, asserts, calls))
    return found


def test_every_test_asserts_something():
    """A test may assert through functions of its file or of tiny/."""
    helpers = [function for path in python_files() if path.match("tests/tiny/*.py") for function in functions_of(path)]
    findings = []
    for path in python_files():
        functions = functions_of(path) + helpers if path.match("tests/test_*.py") else []
        asserting, before = {name for _, name, asserts, _ in functions if asserts}, set()
        while asserting != before:
            before = set(asserting)
            asserting |= {name for _, name, _, calls in functions if calls & before}
        findings += [f"{path}:{line}: {name} asserts nothing" for line, name, _, _ in functions
                     if name.startswith("test_") and name not in asserting]
    expect_none(findings)


def test_a_skipped_test_names_what_is_missing():
    findings = []
    for path in python_files():
        for call in ast.walk(tree(path)):
            name = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
            if name in ("pytest.skip", "pytest.mark.skip", "pytest.mark.skipif", "pytest.mark.xfail"):
                reason = [keyword for keyword in call.keywords if keyword.arg == "reason"]
                if not reason and not (name == "pytest.skip" and call.args):
                    findings.append(f"{path}:{call.lineno}: {name} without a reason")
    expect_none(findings)
