"""Access to the service: its clients and their permissions.

Pure: ``token_format`` is the form of a token, ``permissions`` what each kind may do. Kept:
``signing_key`` is the server's secret, ``token_store`` has the tokens, ``enrolment`` the codes that
workers turn into one, ``sessions`` those who signed in on the dashboard, ``audit`` what everybody
did. Asked: ``access_mode`` says whether tokens are asked for at all, ``csrf`` reads what browsers
send by themselves, ``authenticate`` finds out who a ``principal`` is, whether they may call a
route, and how often.
"""
