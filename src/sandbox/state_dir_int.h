#pragma once

#include "sandbox/state_dir.h"

int state_dir_refuse_name(const char *name, struct err *err);
