"""The colour of each allocator, in every picture. Those of Okabe and Ito, told apart with every kind of colour blindness, a brown and a violet."""

COLOURS = {
    "tslab": "#0072B2", "malloc": "#E69F00", "jemalloc": "#009E73", "tcmalloc": "#CC79A7", "mimalloc": "#D55E00", "snmalloc": "#8C510A", "google": "#5E3C99",
    "apr": "#56B4E9", "pmr": "#000000", "bumpalo": "#F0E442", "talloc": "#999999",
}
ALSO = {"temporal-slab": "tslab", "glibc": "malloc", "gperftools": "tcmalloc"}


def colour(name):
    """By the name of an allocator, of one of its versions (`mimalloc-3.3.2`), or of one of its ways (`apr_clear`, `jemalloc bg`)."""
    first = name.split(" ")[0]
    first = first if first in ALSO else first.split("-")[0].split("_")[0]
    return COLOURS.get(ALSO.get(first, first), "#666666")
