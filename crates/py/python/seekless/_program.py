"""The program ``seekless``, in this process."""

import signal
import sys

from . import _seekless


def main() -> int:
    """Run the program with the arguments of this process; returns its exit code."""
    # Ctrl-C ends it as it ends the program, at once; commands that serve have handlers of their own.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    by = [sys.executable, "-m", "seekless"]
    return _seekless.program(by, _seekless.__file__, sys.argv[1:])
