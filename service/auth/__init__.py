"""Who may use the service, and for what.

Pure: ``token`` is what a token looks like, ``permissions`` what each kind may do, ``limits`` how
often. Kept: ``key`` is the server's secret, ``store`` has the tokens, ``enrolment`` the codes that
workers turn into one, ``sessions`` those who signed in on the dashboard, ``audit`` what everybody
did. Asked: ``rules`` says whether tokens are asked for at all, ``browser`` reads what browsers send
by themselves, ``door`` finds out who a ``principal`` is, ``guard`` is what every route
depends on.
"""
