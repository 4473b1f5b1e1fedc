"""Values: the interpreter's stand-ins for Python objects, one file per family."""
