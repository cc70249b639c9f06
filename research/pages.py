"""Write the numbers of every page from frozen evidence, or check that they are what the evidence gives.

A page holds generated blocks between the markers `<!-- block NAME -->` and `<!-- end NAME -->`, in a line or around
lines. The file blocks.py of a question maps each NAME to a function of the repository's root that returns markdown.

    python research/pages.py            # write every page
    python research/pages.py --check    # compare, and write nothing

Reads   README.md, REPRODUCE*.md, research/README.md, research/*/*.md; research/*/blocks.py and the frozen evidence that
        they read
Writes  the same pages, where a block differs
Needs   NumPy and tabulate
About   one second

Exit 1, with --check: a block is not what the evidence gives. Exit 2: a marker is wrong; file and line are named.
"""

import importlib
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from evidence import Checks, InputError, parser, run_script, write_atomic

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "REPRODUCE*.md", "research/README.md", "research/*/*.md")
MARKER = re.compile(r"<!-- (block|end) ([\w.]+) -->")


def read_blocks(root):
    """Return {name: function} of all questions below root; InputError when two questions use one name."""
    found = {}
    for path in sorted((root / "research").glob("*/blocks.py")):
        blocks = importlib.import_module(f"research.{path.parent.name}.blocks").BLOCKS
        if shared := found.keys() & blocks:
            raise InputError(f"{path}: {', '.join(sorted(shared))}: another question has a block of that name")
        found |= blocks
    return found


def split_page(text, path):
    """Split a page into [(name, text)], name None between blocks; a block's text lies between its two markers."""
    parts, opened, at = [], None, 0
    for marker in MARKER.finditer(text):
        kind, name = marker.groups()
        where = f"{path}:{text.count(chr(10), 0, marker.start()) + 1}: {marker[0]}"
        if kind == "block" and opened is None:
            parts.append((None, text[at : marker.end()]))
            opened, at = name, marker.end()
        elif kind == "end" and opened == name:
            parts.append((name, text[at : marker.start()]))
            opened, at = None, marker.start()
        else:
            raise InputError(f"{where}: expected {f'the end of {opened}' if opened else 'the beginning of a block'}")
    if opened:
        raise InputError(f"{path}: block {opened} is not closed; write <!-- end {opened} --> after it")
    return [*parts, (None, text[at:])]


def rendered(name, blocks, root, path, old):
    """Return what belongs between the markers: lines of their own, or a part of a line where the old text is one."""
    if name not in blocks:
        raise InputError(f"{path}: no research/*/blocks.py has a block {name}")
    text = compact(blocks[name](root).strip("\n"))
    return f"\n{text}\n" if old.startswith("\n") else text


def compact(text):
    """Remove the padding of table cells, so that one changed number changes one line."""
    lines = [re.sub("-{3,}", "---", re.sub(" {2,}", " ", line)) if line.startswith("|") else line
             for line in text.split("\n")]
    return "\n".join(lines)


def read_pages(root):
    """Return {path: [(block name or None, text)]} of every page below root that holds a block."""
    paths = sorted({path for pattern in PAGES for path in root.glob(pattern)})
    pages = {path: split_page(path.read_text(encoding="utf-8"), path) for path in paths}
    return {path: parts for path, parts in pages.items() if len(parts) > 1}


def check_pages(pages, blocks, root):
    """Compare every block with what the evidence gives; the exit code."""
    checks = Checks()
    for path, parts in pages.items():
        for name, old in parts:
            if name:
                new = rendered(name, blocks, root, path, old)
                where = f"{path.relative_to(root)}: {name}"
                checks.expect(old == new, f"{where}: as the evidence gives it" if old == new else
                              f"{where}: {_first_difference(old, new)}; run python research/pages.py")
    unused = sorted(blocks.keys() - {name for parts in pages.values() for name, _ in parts})
    checks.expect(not unused, f"blocks that no page uses: {', '.join(unused) or 'none'}")
    return checks.close()


def _first_difference(old, new):
    old_lines, new_lines = old.strip("\n").split("\n"), new.strip("\n").split("\n")
    pairs = zip([*old_lines, ""], [*new_lines, ""], strict=False)
    return next((f"found {one!r}, expected {other!r}" for one, other in pairs if one != other), "blank lines differ")


def main(argv=None):
    arguments = parser(__doc__)
    arguments.add_argument("--check", action="store_true", help="compare the pages with the evidence; write nothing")
    arguments.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="the repository (default: this one)")
    options = arguments.parse_args(argv)
    blocks, pages = read_blocks(options.root), read_pages(options.root)
    if options.check:
        return check_pages(pages, blocks, options.root)
    for path, parts in pages.items():
        text = "".join(rendered(name, blocks, options.root, path, old) if name else old for name, old in parts)
        if text != "".join(old for _, old in parts):
            write_atomic(path, text.encode())
            print(f"wrote {path}")
    print(f"{len(pages)} pages hold {sum(name is not None for parts in pages.values() for name, _ in parts)} blocks: "
          f"{options.root}")
    return 0


if __name__ == "__main__":
    sys.exit(run_script(main))
