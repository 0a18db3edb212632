"""What a fit will take, before it starts: memory, disk, tasks and time; and how many neighbours it should have.

`plan` and `scan` are the ways in.
May import: steps and what that may.
"""
