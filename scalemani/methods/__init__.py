"""What is made of a point set: each method is a sequence of steps, and a way to place points that come later.

`base` says what a method is and holds the registry; each other file is one method.
May import: steps and what those may.
"""
