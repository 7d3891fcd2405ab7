/*
 * What a coverage build has counted is written by exit(). Who ends without it says so first, by this.
 */
#pragma once

#include <unistd.h>

#ifdef AGENTFENSE_COVERAGE
void __gcov_dump(void); /* of gcc's run-time, which has no header for it */
#define covered_save() __gcov_dump()
#else
#define covered_save() ((void) 0)
#endif

/* _exit(), and what is counted while the code is found out counts too. */
#define covered_exit(code)                                                                                                     \
    do {                                                                                                                       \
        int covered_code = (code);                                                                                             \
        covered_save();                                                                                                        \
        _exit(covered_code);                                                                                                   \
    } while (0)
