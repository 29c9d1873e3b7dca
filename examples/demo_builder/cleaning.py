"""How the demo's texts are cleaned; in a module of its own, as helpers often are."""


def clean(text):
    """Removes what surrounds a text."""
    return text.strip()
