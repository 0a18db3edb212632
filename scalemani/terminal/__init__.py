"""The `scalemani` program: commands, their options, what they print, and exit codes.

`commands` is the way in, with `placing` and `pictures`; `options` are made from `parameters`, `help` sorts them.
May import: everything; nothing but `__main__` imports it.
"""
