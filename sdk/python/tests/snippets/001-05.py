permissions = [
    {"pattern": "**/*", "permission": "read"},           # Priority: 0 (glob)
    {"pattern": "/secrets/**", "permission": "none"},    # Priority: 0 (glob)
    {"pattern": "/secrets/public.key", "permission": "read"},  # Priority: 0 (file)
]

# Result:
# - /secrets/private.key → none (matched by /secrets/**)
# - /secrets/public.key → read (file pattern overrides glob)
# - /app/main.py → read (matched by **/*) 
