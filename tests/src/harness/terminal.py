"""Runs a command on a terminal of so many columns, and writes what it shows there to standard output.

At the signal USR1 the terminal gets half as many columns; at USR2 Ctrl-C is pressed.
"""

import fcntl
import os
import pty
import signal
import struct
import sys
import termios

master, terminal = pty.openpty()


def resize(columns: int) -> None:
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


resize(int(sys.argv[1]))
signal.signal(signal.SIGUSR1, lambda *_: resize(int(sys.argv[1]) // 2))
signal.signal(signal.SIGUSR2, lambda *_: os.write(master, b"\x03"))
child = os.fork()
if child == 0:
    os.close(master)
    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    for descriptor in (0, 1, 2):
        os.dup2(terminal, descriptor)
    os.execv(sys.argv[2], sys.argv[2:])
os.close(terminal)
while True:
    try:
        shown = os.read(master, 1 << 16)
    except OSError:
        # The last program on the terminal has ended.
        break
    if not shown:
        break
    os.write(1, shown)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
