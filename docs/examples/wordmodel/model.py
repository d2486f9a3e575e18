"""The next word from the words before it: Bengio et al. 2003, with one hidden layer."""

from __future__ import annotations

from torch import Tensor, nn


class WordModel(nn.Module):
    """Words in, logits of the next word out."""

    def __init__(self, vocabulary: int, width: int, context: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.hidden = nn.Linear(context * width, width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, words: Tensor) -> Tensor:  # int64 [B, T]
        """Return the logits of each next word, [B, vocabulary]."""
        hidden = self.hidden(self.embedding(words).flatten(1)).tanh()  # [B, width]
        logits: Tensor = self.head(hidden)
        return logits
