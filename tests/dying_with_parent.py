"""Ends a broker with the test process, even where that is killed by SIGKILL.

Run as a script: `dying_with_parent.py PARENT_PID COMMAND...` becomes COMMAND. It asks the kernel
first, which a `preexec_fn` could do too, but not beside threads. Elsewhere than on Linux there is
nothing to ask, and a broker outlives a test process that is killed.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def guarded(*command: str) -> list[str]:
    """The command, so that it ends with this process."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def main(parent: int, command: list[str]) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the kernel knew
        sys.exit("the test process is gone")
    os.execv(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
