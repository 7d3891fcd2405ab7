rules = [
    {"pattern": "**/*", "permission": "read"},                  # Priority: 0, type: glob
    {"pattern": "/secrets/**", "permission": "none"},           # Priority: 0, type: glob
    {"pattern": "/secrets/public.key", "permission": "read"},   # Priority: 0, type: file
]

# Results:
# /app/main.py           → read (matched by **/*) 
# /secrets/private.key   → none (matched by /secrets/**)
# /secrets/public.key    → read (file pattern overrides glob)
