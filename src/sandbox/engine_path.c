#include "sandbox/engine_path.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "base/mem.h"

#define SCHEME "unix://"

/* $DOCKER_HOST may name an engine elsewhere for other clients. Then ignore it. */
static const char *find(void)
{
    const char *host = getenv("DOCKER_HOST");

    return host && strncmp(host, SCHEME "/", strlen(SCHEME "/")) == 0 ? host : ENGINE_PATH_USUAL;
}

int engine_path_parse(const char *host, char **ret_path, struct err *err)
{
    const char *text = *host ? host : find();
    const char *path = strncmp(text, SCHEME, strlen(SCHEME)) == 0 ? text + strlen(SCHEME) : text;

    if (*path != '/')
        return err_reject(err, -EINVAL, text, "is no engine of this host; it must be unix:///PATH or an absolute path");
    if (strlen(path) >= sizeof(((struct sockaddr_un *) NULL)->sun_path))
        return err_reject(err, -EINVAL, text, "is too long for the path of a socket");
    *ret_path = xdup(path);
    return 0;
}
