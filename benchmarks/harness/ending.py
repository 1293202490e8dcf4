"""How the programs in Python of this folder end."""

import os
import signal
import sys

NOBODY_READS = 141  # as a program that SIGPIPE ends

_met = [signal.SIGINT]  # the signal that ended the program


class Refusal(Exception):
    """Why a program ends without what was asked for: one line, and its exit code."""

    def __init__(self, text, code=2):
        super().__init__(text)
        self.code = code


def interrupt(number, _frame):
    """A handler of signals: they end the program as Ctrl-C does, but for the exit code."""
    _met[0] = number
    raise KeyboardInterrupt


def interrupted():
    """The exit code of a program that was interrupted, as the shell has it: 128 and the number of the signal."""
    return 128 + _met[0]


def run(name, main):
    """Exits with the result of main(arguments). What it refuses, or cannot write, is one line that begins with the name."""
    if sys.stdout is None:
        print(f"{name}: standard output: closed", file=sys.stderr)
        sys.exit(2)
    sys.stdout.reconfigure(errors="backslashreplace")  # a name may have letters that the output's encoding has not
    signal.signal(signal.SIGTERM, interrupt)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup
        signal.signal(signal.SIGHUP, interrupt)
    try:
        code = main(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = interrupted()
    except Refusal as refusal:
        print(f"{name}: {refusal}", file=sys.stderr)
        code = refusal.code
    except BrokenPipeError:
        code = NOBODY_READS
        drop_stdout()
    except OSError as error:
        print(f"{name}: {error.filename or 'standard output'}: {error.strerror}", file=sys.stderr)
        code = 2
        if error.filename is None:
            drop_stdout()
    sys.exit(code)


def drop_stdout():
    """The rest of its buffer would fail once more at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
