rules = [
    {"pattern": "**/*", "permission": "read"},           # Priority: 1 (glob)
    {"pattern": "/secrets/**", "permission": "none"},    # Priority: 1 (glob, but more specific)
    {"pattern": "/secrets/public.key", "permission": "read"},  # Priority: 3 (file)
]

# Query: /secrets/public.key
# Match: All 3 rules match
# Winner: /secrets/public.key (highest priority: file > glob)
# Result: read (public key is readable exception)
