"""The generated block of README.md: the smallest case in which each changed rule lets a protected document start."""

from tabulate import tabulate

from research.theorem.counterexamples import COUNTEREXAMPLES, smallest_witness

REASONS = {
    "PreSegmented": "no piece is longer than a row, so no document is long",
    "Flushing": "fewer than B spans are buffered",
    "FirstInLine": "the cropped span is not the one with the smallest key",
    "LongestFirst": "the cropped span is not the one with the smallest key",
    "TwoActiveSpans": "B spans are not B documents, and the documents of K are not whole",
    "AgeBased": "a span is selected that neither fits nor has the smallest key",
}


def counterexamples(root):
    """Return the table of changed rules, with the witnesses that the search finds now."""
    rows = [[name, REASONS[rule.__name__], smallest_witness(rule, lossless=False)[1]]
            for name, rule in COUNTEREXAMPLES.items()]
    return tabulate(rows, ["change of the rule", "what fails in the proof", "smallest case"], tablefmt="github")


BLOCKS = {"theorem.counterexamples": counterexamples}
