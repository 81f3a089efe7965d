/* What the launcher's own text says while it is called: why it fails, what memory it asks for. A
 * launcher that Astra made calls it (build/extension_sources/memory.h); no plan depends on it. */
#include "recorder.h"
#include <string.h>

static char said[4096];
static size_t used;

EXPORT void astra_say(const char *text) {
    const size_t length = strnlen(text, sizeof said - used - 2);
    memcpy(said + used, text, length);
    used += length;
    if (used < sizeof said - 2)
        said[used++] = '\n';
    said[used] = 0;
}

void forget_said(void) { said[used = 0] = 0; }

void report_said(void) {
    fputs(",\"said\":", report);
    put_text(said);
}
