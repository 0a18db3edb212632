"""What a fit will take, before it starts: memory, disk, tasks and time; what does not fit is refused.

`plan` is the way in.
May import: steps and what that may.
"""
