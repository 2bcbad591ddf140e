"""What runs the course: checks, bets and claims, the microscope, learners' copies, the start."""

import io
import sys

# A script or console in the encoding of Western Windows shows ? for ✓, and goes on.
for _stream in (sys.stdout, sys.stderr):
    if isinstance(_stream, io.TextIOWrapper):
        _stream.reconfigure(errors="replace")


def utf8_output() -> None:
    """Print in UTF-8 from now on.

    A pipe or file in the encoding of Western Windows refuses ✓ and ≥.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")
