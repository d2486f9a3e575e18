"""A tagger: embeddings, one bidirectional GRU, a tag for every word."""

from __future__ import annotations

from torch import Tensor, nn


class Tagger(nn.Module):
    """Words in, tags out."""

    def __init__(self, words: int, tags: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.gru = nn.GRU(width, width // 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(width, tags)

    def forward(self, sentences: Tensor) -> Tensor:  # int64 [B, T]
        """Return the logits of each word's tag, [B, T, tags]."""
        mixed, _ = self.gru(self.embedding(sentences))  # [B, T, width]
        logits: Tensor = self.head(mixed)
        return logits
