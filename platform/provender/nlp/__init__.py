"""The text pipeline of TF-NLP style model code, on published versions and on files."""
