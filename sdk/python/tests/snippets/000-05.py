{"pattern": "/configs/**", "permission": "view"}
