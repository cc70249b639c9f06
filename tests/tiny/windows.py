"""The evaluation protocol of the small study: windows of texts, and prefixes of the official score."""

from tiny.corpus import CONTEXT

EVALUATION = {
    "source_windows": {
        "strata": [8, 16, CONTEXT + 1, 50, 80, 5000], "bins": [4, 16], "per_stratum": 5,
        "contrast_strata": ["34-50", "51-80"], "bootstrap": {"replicates": 200, "seed": 3},
        "populations": {"development": {"documents": [0, 45], "seed": 1},
                        "confirmation": {"documents": [45, 60], "seed": 2}},
    },
    "prefix_ranking": {"prefixes": [CONTEXT * rows for rows in (3, 12)], "subsets": 50, "seed": 4},
}
