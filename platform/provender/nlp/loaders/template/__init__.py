"""A data loader to copy and change; see docs/nlp-loaders.md.

`my_loader.py` is the loader, and `make_data.py` writes a small file and a configuration to try it
with.
"""
