"""Generated blocks of this question's page (research/pages.py writes them from the frozen rankings)."""

from evidence import read_json


def _rankings(root, study):
    return read_json(root / f"research/prefix_ranking/{study}.json")


def _list(names):
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


def finding(found):
    """State how many comparisons the prefixes reverse, and how many differences lie outside random subsets."""
    prefixes = found["prefixes"]
    reversed_ = sum(len(entry["reversals"]) for entry in prefixes)
    outside = sum(contrast["outside"] for contrast in found["contrasts"])
    sizes = _list([f"{entry['targets']:,}" for entry in prefixes])
    contrasts, comparisons = found["contrasts"], found["pairs"] * len(prefixes)
    return (f"**Study `{found['study']}`**, its {len(found['runs'])} checkpoints, on the first {sizes} of "
            f"{found['targets']:,} targets: the prefixes reverse {reversed_} of {comparisons} comparisons "
            f"({found['pairs']} pairs of models, {len(prefixes)} prefixes). For {outside} of {len(contrasts)} "
            "differences from the baseline, the prefix lies outside the central 95 % of random subsets of rows of its "
            "size.")


def summary(root, study):
    """State the finding of a study."""
    return finding(_rankings(root, study))


def detail(root, study):
    """Name the reversed pairs, the conditions outside, and the difference that lies nearest to the edge."""
    found = _rankings(root, study)
    reversed_ = [f"{_list([f'`{name}`' for name in pair])} (first {entry['targets']:,} targets)"
                 for entry in found["prefixes"] for pair in entry["reversals"]]
    outside = [contrast["checkpoint"].rpartition("_s")[0] for contrast in found["contrasts"] if contrast["outside"]]
    counts = _list([f"{outside.count(name)} of `{name}`" for name in sorted(set(outside), key=outside.count)[::-1]])
    near = min(found["contrasts"], key=_distance)
    low, high = near["subsets_95"]
    side = "outside" if near["outside"] else "inside"
    return (f"* Reversed pairs: {'; '.join(reversed_)}.\n"
            f"* Outside are {counts}.\n"
            f"* Nearest to the edge is `{near['checkpoint']}` on the first {near['targets']:,} targets: its difference "
            f"is {near['prefix']:+.6f}, the central 95 % reach from {low:+.6f} to {high:+.6f}, so it lies "
            f"{_distance(near):.6f} {side}. Another draw of the subsets could decide it otherwise.")


def _distance(contrast):
    return min(abs(contrast["prefix"] - bound) for bound in contrast["subsets_95"])


def subsets(root):
    """How many subsets are drawn, and how many contrasts chance puts outside."""
    found = _rankings(root, "wheels")
    contrasts = len(found["contrasts"])
    return (f"the same difference on {found['subsets']:,} random subsets of rows of the prefix's size, drawn without "
            "replacement. A difference is *outside* when it does not lie in the central 95 % of them. No correction "
            f"for the number of differences is made: of {contrasts}, {0.05 * contrasts:.1f} lie outside by chance")


BLOCKS = {f"prefix_ranking.{study}_{part.__name__}": (lambda root, study=study, part=part: part(root, study))
          for study in ("wheels", "demo") for part in (summary, detail)} | {"prefix_ranking.subsets": subsets}
