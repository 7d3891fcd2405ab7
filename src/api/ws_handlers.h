/* Handlers of the workspace routes, by the file that they are in. */
#pragma once

#include "api/ws_call.h"

/* ws_about.c */
int ws_about(struct ws *ws, struct err *err);

/* ws_sandbox.c */
int ws_create(struct ws *ws, struct err *err);
int ws_list(struct ws *ws, struct err *err);
int ws_get(struct ws *ws, struct err *err);
int ws_delete(struct ws *ws, struct err *err);
int ws_stop(struct ws *ws, struct err *err);
int ws_start(struct ws *ws, struct err *err);
int ws_workspace(struct ws *ws, struct err *err);
int ws_validate_path(struct ws *ws, struct err *err);

/* ws_gc.c */
extern const char *const ws_gc_keys[];
int ws_gc(struct ws *ws, struct err *err);
int ws_gc_preview(struct ws *ws, struct err *err);

/* ws_status.c */
int ws_health(struct ws *ws, struct err *err);
int ws_stats(struct ws *ws, struct err *err);
int ws_metrics(struct ws *ws, struct err *err);
int ws_audit(struct ws *ws, struct err *err);
int ws_audit_one(struct ws *ws, struct err *err);

/* ws_driver.c */
int ws_driver_info(struct ws *ws, struct err *err);
int ws_driver_options(struct ws *ws, struct err *err);
int ws_driver_select(struct ws *ws, struct err *err);
int ws_driver_preference(struct ws *ws, struct err *err);
int ws_driver_bwrap(struct ws *ws, struct err *err);
