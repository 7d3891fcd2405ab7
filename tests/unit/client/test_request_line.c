/* Requests as HTTP has them, from the table that the server finds them by. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/methods.h"
#include "client/request_line.h"
#include <sandbox/v1/codebase.pb-c.h>
#include <sandbox/v1/sandbox.pb-c.h>

static const struct method *find(const char *name)
{
    size_t count;
    const struct method *methods = api_methods(&count);

    for (size_t i = 0; i < count; i++) {
        if (strcmp(methods[i].name, name) == 0)
            return &methods[i];
    }
    fail();
    return NULL;
}

static void expect(const char *method, const ProtobufCMessage *request, const char *verb, const char *path)
{
    autodone(buf) struct buf out = BUF_EMPTY;
    autodone(buf) struct buf body = BUF_EMPTY;
    const struct method_route *route = NULL;
    struct err err = ERR_NONE;

    assert_int_equal(request_line_add(find(method), request, &route, &out, &body, &err), 0);
    assert_string_equal(route->verb, verb);
    assert_string_equal(out.data, path);
    assert_int_equal(body.len > 0, route->body == METHOD_BODY_JSON);
}

static void variables_of_the_path_are_fields(void **state)
{
    Sandbox__V1__StartSandboxRequest start = SANDBOX__V1__START_SANDBOX_REQUEST__INIT;
    Sandbox__V1__RestoreVersionRequest restore = SANDBOX__V1__RESTORE_VERSION_REQUEST__INIT;
    static char id[] = "sb/../x", codebase[] = "cb_1";

    (void) state;
    start.sandbox_id = id;
    expect("StartSandbox", &start.base, "POST", "/v1/sandboxes/sb%2F..%2Fx/start");
    restore.codebase_id = codebase;
    restore.version = 12;
    expect("RestoreVersion", &restore.base, "POST", "/v1/codebases/cb_1/versions/12/restore");
}

static void names_of_files_keep_their_slashes_and_nothing_else(void **state)
{
    Sandbox__V1__DownloadFileRequest request = SANDBOX__V1__DOWNLOAD_FILE_REQUEST__INIT;
    static char id[] = "cb_1", path[] = "a b/c?d=%41&e#f/\xC3\xA9";

    (void) state;
    request.codebase_id = id;
    request.file_path = path;
    request.version = 3;
    expect("DownloadFile", &request.base, "GET", "/v1/codebases/cb_1/files/a%20b/c%3Fd%3D%2541%26e%23f/%C3%A9?version=3");
}

static void what_stands_nowhere_else_is_the_query(void **state)
{
    Sandbox__V1__ListEventsRequest request = SANDBOX__V1__LIST_EVENTS_REQUEST__INIT;
    Google__Protobuf__Timestamp since = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
    Sandbox__V1__ListFilesRequest files = SANDBOX__V1__LIST_FILES_REQUEST__INIT;
    static char id[] = "cb_1", type[] = "a&b";

    (void) state;
    expect("ListEvents", &request.base, "GET", "/v1/events");
    since.seconds = 1;
    request.since = &since;
    request.type = type;
    request.page_size = 5;
    expect("ListEvents", &request.base, "GET", "/v1/events?type=a%26b&since=1970-01-01T00%3A00%3A01Z&page_size=5");
    files.codebase_id = id;
    files.recursive = true;
    expect("ListFiles", &files.base, "GET", "/v1/codebases/cb_1/files?recursive=true");
}

static void of_content_the_metadata_is_told(void **state)
{
    Sandbox__V1__ArchiveChunk chunk = SANDBOX__V1__ARCHIVE_CHUNK__INIT;
    Sandbox__V1__ArchiveChunk__Metadata metadata = SANDBOX__V1__ARCHIVE_CHUNK__METADATA__INIT;
    static char id[] = "cb_1";

    (void) state;
    metadata.codebase_id = id;
    metadata.replace = true;
    chunk.content_case = SANDBOX__V1__ARCHIVE_CHUNK__CONTENT_METADATA;
    chunk.metadata = &metadata;
    expect("UploadArchive", &chunk.base, "PUT", "/v1/codebases/cb_1/archive?replace=true");
}

static void a_path_without_its_variable_is_refused(void **state)
{
    Sandbox__V1__GetSandboxRequest request = SANDBOX__V1__GET_SANDBOX_REQUEST__INIT;
    autodone(buf) struct buf out = BUF_EMPTY;
    autodone(buf) struct buf body = BUF_EMPTY;
    const struct method_route *route = NULL;
    struct err err = ERR_NONE;

    (void) state;
    assert_int_equal(request_line_add(find("GetSandbox"), &request.base, &route, &out, &body, &err), -EINVAL);
    assert_string_equal(err.text, "sandbox_id is required");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables_of_the_path_are_fields),
        cmocka_unit_test(names_of_files_keep_their_slashes_and_nothing_else),
        cmocka_unit_test(what_stands_nowhere_else_is_the_query),
        cmocka_unit_test(of_content_the_metadata_is_told),
        cmocka_unit_test(a_path_without_its_variable_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
