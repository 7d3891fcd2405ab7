# Traditional approach (fragile)
if user.can_read(path):
    return open(path).read()
else:
    raise PermissionError
