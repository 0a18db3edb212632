"""A finished run as a page: numbers, pictures and warnings in plain words, in one file that opens offline."""
