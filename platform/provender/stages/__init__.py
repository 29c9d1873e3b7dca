"""The work of a build, one file a stage.

Every module here has the same three parts: a pure function that gives the stage's fingerprint
tree, a function that does the work from JSON arguments (in any process, on any machine that
reaches the store), and, where outputs are files, what proves that they are still there.
"""
