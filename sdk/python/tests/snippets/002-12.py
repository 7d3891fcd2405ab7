# Problem: .git may contain sensitive commit history
permissions = [
    {"pattern": "**/*", "permission": "read"},
]

# Solution: Explicitly hide .git
permissions = [
    {"pattern": "**/*", "permission": "read"},
    {"pattern": "**/.git/**", "permission": "none"},  # Hide git history
]
