/* Directories that git takes for a repository though they are not called `.git`: it looks for HEAD, objects and refs in each that it is
 * run in or below, and then obeys the `config` there, which may name programs to run. */
#pragma once

#include <stdbool.h>

/* Whether the change of this path makes one, or is in one. Looks beneath both, the new files and those they cover. */
bool repository_holds(int data_fd, int base_fd, const char *path);
