"""Text of C, taken apart: its comments, its code, its functions. The layout is clang-format's."""
import re

PIECES = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*.*?\*/|//[^\n]*', re.S)


def comments(text):
    """[(line, comment)]; comments of whole lines that follow each other are one."""
    found = []
    end = 0
    for match in PIECES.finditer(text):
        piece = match.group()
        if piece[0] != "/":
            continue
        words = re.sub(r"\n\s*(?:\*|//)?[ ]?", "\n", re.sub(r"^/\*+|\*/$|^//+", "", piece))
        between = text[end:match.start()]
        if found and between.strip() == "" and between.count("\n") == 1 and piece.startswith("//"):
            found[-1][1] += "\n" + words
        else:
            found.append([text.count("\n", 0, match.start()) + 1, words])
        end = match.end()
    return found


def code(text):
    return PIECES.sub(lambda m: m.group() if m.group()[0] != "/" else " ", text)


def functions(text):
    """(name, lines, line); a function ends with the first brace at the left margin."""
    name, begin = None, 0
    for number, line in enumerate(text.split("\n"), 1):
        if line[:1].isalpha() or line[:1] == "_":
            if begin == 0 or not line.endswith(":"):
                heads = re.findall(r"\b(\w+)\(", line)
                heads = [h for h in heads if not h.isupper() and h not in ("__attribute__", "_Static_assert")]
                name, begin = (heads[0], number) if heads else (None, 0)
        if line == "}" or (begin == number and line.endswith("}") and ") {" in line):
            if name:
                yield name, number - begin + 1, begin
            name, begin = None, 0
        elif line.endswith(";") and line[:1] not in (" ", "\t", "}"):
            name, begin = None, 0
