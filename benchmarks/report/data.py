"""Reading CSV files: every field is what its column demands, and what is not is named with file and line."""

import csv
import math
import re

from harness.ending import Refusal

NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)


class InputError(Refusal):
    """A file that cannot be used; the message names the file and the line."""


def read_utf8(path):
    """A file of UTF-8 text as it is."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}:{data.count(10, 0, error.start) + 1}: not UTF-8 text") from error


def read_lines(path):
    """[(number, line)] of those that are neither empty nor about the run, without a byte order mark."""
    lines = read_utf8(path).removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    return [(number, line) for number, line in enumerate(lines, 1) if line.strip() and not line.startswith("#")]


def split(path, number, line):
    """The fields of one line."""
    try:
        return next(csv.reader([line], strict=True))
    except csv.Error as error:
        raise InputError(f"{path}:{number}: {error}") from error


def real(text):
    """The number that the text is, in plain notation: no blanks, no underscores, no infinity."""
    if not NUMBER.fullmatch(text) or math.isinf(float(text)):
        raise ValueError(text)
    return float(text)


# The requirement on the fields of a column. A question mark: they may be empty.
RULES = {
    "any": ("", lambda value: True),
    "text": ("no name", lambda value: value.strip() != "" and value.isprintable()),
    "count": ("no whole number from 1 up", lambda value: re.fullmatch("[0-9]+", value) and int(value) > 0),
    "amount": ("no whole number from 0 up", lambda value: re.fullmatch("[0-9]+", value)),
    "whole": ("no whole number", lambda value: re.fullmatch("-?[0-9]+", value)),
    "number": ("no number", lambda value: math.isfinite(real(value))),
    "from 0": ("no number from 0 up", lambda value: real(value) >= 0),
    "positive": ("no number above 0", lambda value: real(value) > 0),
    "several": ("no numbers from 0 up with blanks between", lambda value: all(real(part) >= 0 for part in value.split(" "))),
}


def check(where, column, value, rule):
    """Refuses a field that is not what its column must have."""
    if rule.endswith("?") and value == "":
        return
    what, test = RULES[rule.removesuffix("?")]
    try:
        good = test(value)
    except ValueError:
        good = False
    if not good:
        raise InputError(f"{where}: {column} '{value}' is {what}")


class Row(dict):
    """The fields of a line by their columns."""

    where = ""

    def number(self, column):
        """A field as a number; None if it is empty."""
        check(self.where, column, self[column], "number?")
        return float(self[column]) if self[column] else None


def read(path, keys, values, optional=()):
    """The rows of a file. keys, with `round` and `allocator`: the columns that tell rows apart; values:
    others that must be there; optional: those that may be. Each is {column: rule}."""
    lines = read_lines(path)
    if not lines:
        raise InputError(f"{path}:1: no heading")
    (first, line), *lines = lines
    heading = split(path, first, line)
    for column in (*keys, *values):
        if heading.count(column) != 1:
            raise InputError(f"{path}:{first}: the heading has no column {column}, or several")
    rules = {**{column: rule for column, rule in dict(optional).items() if column in heading}, **keys, **values}
    apart = dict.fromkeys(column for column in ("round", "allocator", *keys) if column in heading)
    seen, rows = {}, []
    for number, line in lines:
        fields = split(path, number, line)
        if len(fields) != len(heading):
            raise InputError(f"{path}:{number}: {len(fields)} fields, {len(heading)} expected")
        row = Row(zip(heading, fields))
        row.where = f"{path}:{number}"
        for column, rule in rules.items():
            check(row.where, column, row[column], rule)
        key = tuple(row[column] for column in apart)
        if key in seen:
            raise InputError(f"{row.where}: the same {', '.join(apart)} as in line {seen[key]}")
        seen[key] = number
        rows.append(row)
    return rows
