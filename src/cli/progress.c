#include "cli/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/size.h"

#define INTERVAL_NS (200 * CLOCK_NS_PER_MS)
#define BAR_WIDTH 30

void progress_init(struct progress *progress, const char *what, bool is_wanted)
{
    *progress = (struct progress){ .what = what, .is_shown = is_wanted && isatty(STDERR_FILENO), .drawn_ns = clock_now_ns() };
}

void progress_update(struct progress *progress, uint64_t done, uint64_t total)
{
    int64_t now = clock_now_ns();
    char done_text[SIZE_TEXT_MAX], total_text[SIZE_TEXT_MAX];

    if (!progress->is_shown || now - progress->drawn_ns < INTERVAL_NS)
        return;
    progress->drawn_ns = now;
    progress->is_drawn = true;
    size_format(done, done_text);
    if (total == 0) {
        fprintf(stderr, "\r%s %s\033[K", progress->what, done_text);
        return;
    }
    done = done < total ? done : total;
    int filled = (int) (done * BAR_WIDTH / total);
    size_format(total, total_text);
    fprintf(stderr, "\r%s [%.*s%*s] %3d%% %s of %s\033[K", progress->what, filled, "##############################",
            BAR_WIDTH - filled, "", (int) (done * 100 / total), done_text, total_text);
}

void progress_done(struct progress *progress)
{
    if (progress->is_drawn)
        fputs("\r\033[K", stderr);
    progress->is_drawn = false;
}
