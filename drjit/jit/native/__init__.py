"""Native code that works on objects of Python's and on the queue of jobs: modules of Python source
(`launcher`, `walker`, `performer`, `operators`, ...) which are compiled as they stand. Python's own
functions define what they do; see docs/native.md.
"""
