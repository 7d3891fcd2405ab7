#pragma once

#include "service/home.h"

int home_refuse_name(const char *name, struct err *err);
