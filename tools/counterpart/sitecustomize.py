"""Loaded by Python itself: sentences are cut here, without the data that nltk would fetch."""

import re

try:
    import nltk
except ImportError:
    # Another Python than the counterpart's.
    nltk = None


def sent_tokenize(text, language="english"):
    return [sentence for sentence in re.split(r"(?<=[.!?])\s+", text) if sentence]


if nltk is not None:
    nltk.sent_tokenize = sent_tokenize
    nltk.download = lambda *_, **__: True
