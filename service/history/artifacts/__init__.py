"""Artifacts: files that the database names by their SHA-256 and does not hold.

store.py   what every store of them can do, and which one the settings name
folder.py  a folder beside the database
bucket.py  a bucket of S3, or of what speaks as it does
"""

from service.history.artifacts.store import ArtifactStore, store_of

__all__ = ["ArtifactStore", "store_of"]
