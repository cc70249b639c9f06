"""Generated blocks of this question's page (research/pages.py writes them from the reported numbers)."""

from research.published_tables.printed import QUESTION, read_all


def counts(root):
    """(relations, names of all printed numbers) of the three files."""
    versions, relations, _ = read_all(root / QUESTION)
    return relations, versions[1][0].keys() | versions[2][0].keys()


def answer(root):
    """How many claims hold over how many numbers."""
    relations, names = counts(root)
    exceptions = {entry["claim"] for entry in relations["known_discrepancies"]}
    return (f"**Answer.** {len(relations['formulas'])} claims over {len(names)} numbers were checked. All hold within "
            f"the last printed digit, except {len(exceptions)} percentages in each version (below).")


def reach(root):
    """How tightly the relations bind the numbers."""
    relations, names = counts(root)
    bounded, free = len(relations["only_bounded"]), len(relations["uncheckable"])
    return ("The claims say more about some numbers than about others. "
            f"{len(names) - bounded - free} numbers are in at least one equation. {bounded} are only in inequalities "
            "(`only_bounded`), such as the ends of an interval, which must enclose their estimate. "
            f"{free} are in no claim (`uncheckable`).")


BLOCKS = {"published_tables.answer": answer, "published_tables.reach": reach}
