"""Who may use the service, and for what.

``token`` and ``permissions`` are pure: what a token looks like, what each kind may do. ``key`` is
the server's secret, ``store`` keeps the tokens, ``rules`` says whether they are asked for at all,
and ``guard`` is the dependency that every route has.
"""
