"""Native code that works on Python's objects and on the queue of jobs: modules in a subset of
Python (`launcher`, `walker`, `scan`, `plans`, `operators`, ...) that are compiled as they stand.
Functions elsewhere, in ordinary Python, define what they do; see docs/native.md.
"""
