"""Loaders: one packing algorithm a file, each a pure function from document lengths to a table of segments."""
