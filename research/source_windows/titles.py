"""What the windows show, in one sentence: the titles of the figures, which pages repeat."""


def _settled(entry):
    """Return -1 or 1 where the adjusted interval lies on one side of zero, else 0."""
    low, high = entry["interval_adjusted"]
    return (low > 0) - (high < 0)


def forest_title(entries):
    """State what the contrasts show, as the message of the figure."""
    signs = [_settled(entry) for entry in entries]
    if not signs:
        return "No contrast has enough documents to resample"
    if signs.count(-1) == len(signs):
        return "Against the baseline, tails gain more than beginnings in every contrast"
    if not any(signs):
        return "Tails and beginnings do not differ: every adjusted interval contains zero"
    return (f"Of {len(signs)} contrasts, tails gain more in {signs.count(-1)} and beginnings in {signs.count(1)}; "
            f"{signs.count(0)} intervals contain zero")


def parts_title(rows):
    """State at which positions the tails change, as the message of the figure."""
    if not rows:
        return "No document of the contrast strata has a tail"
    same_sign = [row for row in rows if row["whole"] and all(part * row["whole"] >= 0 for part in row["parts"])]
    if len(same_sign) < len(rows):
        return "Positions of a tail pull in different directions"
    shares = [100 * row["parts"][-1] / row["whole"] for row in rows]
    return f"The last position bin carries {min(shares):.0f} to {max(shares):.0f} % of the change in tails"
