# Good: Start with minimal permissions, add what's needed
permissions = [
    {"pattern": "**/*", "permission": "none"},      # Default: invisible
    {"pattern": "/src/**", "permission": "read"},   # Explicitly allow reading source
    {"pattern": "/output/**", "permission": "write"}, # Explicitly allow writing output
]

# Bad: Over-permissive default
permissions = [
    {"pattern": "**/*", "permission": "write"},     # Everything writable (dangerous)
]
