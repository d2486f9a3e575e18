"""The service: stores results, analyses their histories and shows them."""
