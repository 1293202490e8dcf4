"""Where a program in Python writes: a file that is there is not replaced without a word."""

import pathlib
import sys


def announce(path):
    if path and pathlib.Path(path).is_file() and pathlib.Path(path).stat().st_size:
        print(f"'{path}' is there, and is replaced at the end", file=sys.stderr, flush=True)


def output(text):
    """For argparse: the path, before anything is measured."""
    announce(text)
    return pathlib.Path(text)
