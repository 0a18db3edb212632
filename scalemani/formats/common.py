"""Text from files on a terminal: takes any text, gives it with nothing in it that a terminal obeys."""

__all__ = ["cause", "printable"]


def printable(text: str) -> str:
    r"""The text with control characters, escapes and marks of direction written out, as Python writes them.

    A name in a file can hold the signs by which a terminal moves its cursor, changes its title or types for its user;
    halves of surrogate pairs, of which Python makes the bytes of a name that are not UTF-8, can't be printed at all.

    >>> printable("a\x1b[2Jb"), printable("Gauß, K."), printable("gnp.x\u202e")
    ('a\\x1b[2Jb', 'Gauß, K.', 'gnp.x\\u202e')
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def cause(error: BaseException) -> str:
    """What a library's error says, in one line of no more than 200 letters; its kind where it says nothing.

    >>> cause(OSError("a\\nb")), cause(EOFError())
    ('a b', 'EOFError')
    """
    return printable(" ".join(str(error).split())[:200]) or type(error).__name__
