"""The one exception for input that cannot be used."""


class InputError(ValueError):
    """Bad input from a person or a file; the message is one line that names the file, key or line, and the fix.

    The command line prints it on stderr and exits with status 2.
    """
