"""The verifier's own reading of UTF-8, by the Unicode standard's table: what a token's bytes are when decoded alone.

The audit asks Python's decoder; this file does not.
"""

WHOLE = (0x80, 0xBF)
# First byte, low to high: the ranges that the following bytes of a character must lie in (Unicode, table 3-7).
FOLLOWING = (
    (0x00, 0x7F, ()), (0xC2, 0xDF, (WHOLE,)), (0xE0, 0xE0, ((0xA0, 0xBF), WHOLE)), (0xE1, 0xEC, (WHOLE, WHOLE)),
    (0xED, 0xED, ((0x80, 0x9F), WHOLE)), (0xEE, 0xEF, (WHOLE, WHOLE)), (0xF0, 0xF0, ((0x90, 0xBF), WHOLE, WHOLE)),
    (0xF1, 0xF3, (WHOLE, WHOLE, WHOLE)), (0xF4, 0xF4, ((0x80, 0x8F), WHOLE, WHOLE)),
)


def read_character(data, at):
    """(end, whether whole) of the character, or of the longest beginning of one, that starts at `at`."""
    following = next((after for low, high, after in FOLLOWING if low <= data[at] <= high), None)
    end = at + 1
    for low, high in following or ():
        if end == len(data) or not low <= data[end] <= high:
            return end, False
        end += 1
    return end, following is not None


def read_token(data):
    """(bytes when decoded alone, number of partial characters, bytes in whole characters)."""
    at = partial = whole = 0
    while at < len(data):
        end, is_whole = read_character(data, at)
        whole += (end - at) * is_whole
        partial += not is_whole
        at = end
    return whole + 3 * partial, partial, whole


def kind(data):
    _, partial, whole = read_token(data)
    if len(data) == 1:
        return "single_byte"
    return "several_partials" if partial > 1 else "partial_and_text" if whole else "partial_alone"
