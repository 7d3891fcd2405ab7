# WRONG: Typo in pattern (secrets still visible)
{"pattern": "/secret/**", "permission": "none"},  # Typo: "secret" not "secrets"

# CORRECT:
{"pattern": "/secrets/**", "permission": "none"},
