#include "client/upgrade.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/id.h"
#include "base/mem.h"
#include "call/websocket.h"
#include "rest/base64.h"

#define KEY_BYTES 16
#define CONTENT_MAX ((long) 1 << 30)

int upgrade_add_request(struct buf *out, const char *host, const char *path, const char *token, char ret_key[UPGRADE_KEY_MAX],
                        struct err *err)
{
    autodone(buf) struct buf key = BUF_EMPTY;
    uint8_t bytes[KEY_BYTES];
    int r = id_random(bytes, sizeof(bytes));

    if (r < 0)
        return err_errno(err, r, "random bytes");
    base64_add(&key, bytes, sizeof(bytes));
    snprintf(ret_key, UPGRADE_KEY_MAX, "%s", key.data);
    buf_addf(out,
             "GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
             "Sec-WebSocket-Key: %s\r\nUser-Agent: agentfense/" AGENTFENSE_VERSION "\r\n",
             path, host, ret_key);
    if (token)
        buf_addf(out, "Authorization: Bearer %s\r\n", token);
    buf_add_str(out, "\r\n");
    return 0;
}

/* ---- reading the answer ---- */

/* Returns the value of a header without surrounding blanks, or NULL if it is missing. A header that occurs twice is ambiguous and counts as
 * missing. */
static char *dup_header(const char *head, const char *end, const char *name)
{
    size_t name_len = strlen(name);
    char *found = NULL;

    for (const char *line = memchr(head, '\n', (size_t) (end - head)); line && ++line < end;) {
        const char *eol = memchr(line, '\n', (size_t) (end - line));
        const char *stop = eol ? eol : end, *at = line + name_len;

        if ((size_t) (stop - line) > name_len && strncasecmp(line, name, name_len) == 0 && *at == ':') {
            for (at++; at < stop && isblank((unsigned char) *at); at++)
                ;
            while (stop > at && isspace((unsigned char) stop[-1]))
                stop--;
            if (found) {
                free(found);
                return NULL;
            }
            found = xdupn(at, (size_t) (stop - at));
        }
        line = eol;
    }
    return found;
}

/* Parses "HTTP/1.1 101 ...". */
static int read_status(const char *head, size_t len)
{
    if (len < 12 || memcmp(head, "HTTP/1.", 7) != 0 || !isdigit((unsigned char) head[7]) || head[8] != ' ')
        return -EPROTO;
    for (int i = 9; i < 12; i++)
        if (!isdigit((unsigned char) head[i]))
            return -EPROTO;
    return (head[9] - '0') * 100 + (head[10] - '0') * 10 + (head[11] - '0');
}

/* A wrong Sec-WebSocket-Accept means that the answer belongs to another request (a cache), or that the server does not speak the protocol. A
 * sub-protocol or an extension that we did not request would change the meaning of the frames. */
static int check_switch(const char *head, const char *end, const char *key, struct err *err)
{
    autofree char *upgrade = dup_header(head, end, "upgrade"), *connection = dup_header(head, end, "connection");
    autofree char *accept = dup_header(head, end, "sec-websocket-accept");
    autofree char *protocol = dup_header(head, end, "sec-websocket-protocol");
    autofree char *extensions = dup_header(head, end, "sec-websocket-extensions");
    char expected[WEBSOCKET_ACCEPT_MAX];

    if (!websocket_has_token(upgrade, "websocket") || !websocket_has_token(connection, "upgrade"))
        return err_set(err, ERR_UNAVAILABLE, -EPROTO, "what answers there switches to something else than a WebSocket");
    if (!accept || !websocket_accept_key(key, expected) || strcmp(accept, expected) != 0)
        return err_set(err, ERR_UNAVAILABLE, -EPROTO, "what answers there does not answer to the key of this request");
    if (protocol || extensions)
        return err_set(err, ERR_UNAVAILABLE, -EPROTO, "what answers there uses a protocol that was not asked for");
    return 0;
}

static ssize_t read_length(const char *head, const char *end)
{
    autofree char *text = dup_header(head, end, "content-length");
    char *rest;
    long n;

    if (!text || !isdigit((unsigned char) *text))
        return -1;
    n = strtol(text, &rest, 10);
    return *rest || n > CONTENT_MAX ? -1 : n;
}

int upgrade_read(const char *bytes, size_t len, const char *key, struct upgrade_answer *ret, struct err *err)
{
    const char *end = len > 0 ? memmem(bytes, len, "\r\n\r\n", 4) : NULL;
    int status = len >= 12 || end ? read_status(bytes, len) : 0, r;

    if (status < 0 || (len > 0 && bytes[0] != 'H') || (end && memchr(bytes, '\0', (size_t) (end - bytes))))
        return err_set(err, ERR_UNAVAILABLE, -EPROTO, "what answers there does not speak HTTP");
    if (!end && len >= UPGRADE_HEAD_MAX)
        return err_set(err, ERR_UNAVAILABLE, -EMSGSIZE, "what answers there does not come to an end with its headers");
    if (!end)
        return 0;
    r = status == 101 ? check_switch(bytes, end, key, err) : 0;
    if (r < 0)
        return r;
    *ret = (struct upgrade_answer){ .status = status,
                                    .head_len = (size_t) (end - bytes) + 4,
                                    .content_bytes = read_length(bytes, end) };
    return 1;
}
