"""Processes that a test has started, and their children."""

import psutil


def children(pid: int, word: str = "") -> list[psutil.Process]:
    """Returns all descendants of a process that were started with a word."""
    return [child for child in psutil.Process(pid).children(recursive=True) if word in command(child)]


def command(process: psutil.Process) -> str:
    """Returns the words that a process was started with; empty for one that has ended, or of which only remains are there."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""
