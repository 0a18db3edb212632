"""What workflows/million.py is made of: arrays of any length, stages with their time and memory, tables, claims."""
