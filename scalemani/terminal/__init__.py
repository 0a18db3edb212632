"""The `scalemani` program: commands, their options, what they print, and exit codes.

`commands` is the way in.
May import: everything; nothing but `__main__` imports it.
"""
