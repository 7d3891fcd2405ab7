/*
 * The defaults that people see, in one place: programs take them from here. docs/defaults.md is this table with a column that says why the sides
 * differ; a test compares the two, the settings of the server and the Python package.
 */
#pragma once

#define DEFAULT_PRESET "development"
#define DEFAULT_PRESET_SDK "agent-safe"
#define DEFAULT_EXEC_TIMEOUT "30s"
#define DEFAULT_EXEC_TIMEOUT_MAX "10m"
#define DEFAULT_SDK_TIMEOUT "60s"
#define DEFAULT_OUTPUT "4M"
#define DEFAULT_PIDS 1024
#define DEFAULT_DISK_GIB 64
#define DEFAULT_DIRECTORY_DISK "10G"
#define DEFAULT_FILES 1000000
#define DEFAULT_EXPIRATION "24h"
#define DEFAULT_DIRECTORY_EXPIRATION "24h"
#define DEFAULT_DIRECTORY_IDLE "4h"
#define DEFAULT_STOPPED_RETENTION "168h"
#define DEFAULT_DECIDED_DELAY "1h"
#define DEFAULT_TRASH "24h"
#define DEFAULT_UNDO_WINDOW "168h"
#define DEFAULT_EVENTS "2160h"
#define DEFAULT_VERSIONS 50
#define DEFAULT_VERSIONS_AGE "168h"

#define DEFAULT_TEXT_OF(value) #value
#define DEFAULT_TEXT(value) DEFAULT_TEXT_OF(value) /* a number of these as a string literal */

struct default_row {
    const char *name;
    const char *run;     /* 'agentfense run' */
    const char *server;  /* 'agentfense create', gRPC and REST */
    const char *sdk;     /* the class Sandbox of the Python package */
    const char *setting; /* of the server, which changes `server`; "": none does */
};

/* Ended by a row without a name. */
extern const struct default_row defaults_table[];
