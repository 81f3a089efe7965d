/* The report: one JSON object a line. Python reads it as hostile data, for the candidate's code
 * shares this process. */
#include "recorder.h"
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

FILE *report;
int report_file = -1;
static int nodes;

void open_report(const char *path) {
    static char buffer[1 << 16];
    report_file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    report = report_file < 0 ? NULL : fdopen(report_file, "a");
    if (!report)
        broken("cannot write the report");
    setvbuf(report, buffer, _IOFBF, sizeof buffer);
}

void begin_call(const struct call *call) {
    fprintf(report, "{\"kind\":\"start\",\"index\":%llu}\n", (unsigned long long)call->index);
    fflush(report);
    fprintf(report, "{\"kind\":\"call\",\"index\":%llu,\"nodes\":[", (unsigned long long)call->index);
    nodes = 0;
}

void end_call(int status, int left) {
    const char *(*text_of)(int);
    *(void **)&text_of = next_symbol("cudaGetErrorString");
    fprintf(report, "],\"status\":%d,\"left\":%d,\"strayed\":%d,\"refused\":", status, left, strayed);
    put_text(refused);
    fputs(",\"error\":", report);
    put_text(text_of(status ? status : left));
    report_failure();
    report_said();
    fputs("}\n", report);
    fflush(report);
}

void report_unloadable(const char *why) {
    fputs("{\"kind\":\"unloadable\",\"why\":", report);
    put_text(why);
    fputs("}\n", report);
    fflush(report);
}

int begin_node(const char *kind) {
    if (nodes == MAX_NODES) {
        refuse("more than 256 launches, memsets and copies in one call");
        return 0;
    }
    fprintf(report, "%s{\"kind\":\"%s\"", nodes++ ? "," : "", kind);
    return 1;
}

int nodes_begun(void) { return nodes; }

void put_text(const char *text) {
    fputc('"', report);
    for (; *text; ++text) {
        const unsigned char letter = (unsigned char)*text;
        if (letter == '\n')
            fputs("\\n", report);
        else if (letter < 32 || letter > 126)
            fputs("?", report);
        else if (letter == '"' || letter == '\\')
            fprintf(report, "\\%c", letter);
        else
            fputc(letter, report);
    }
    fputc('"', report);
}

void put_hex(const unsigned char *bytes, size_t count) {
    static const char digits[] = "0123456789abcdef";
    fputc('"', report);
    for (size_t i = 0; i < count; ++i) {
        fputc(digits[bytes[i] >> 4], report);
        fputc(digits[bytes[i] & 15], report);
    }
    fputc('"', report);
}

void put_numbers(const char *name, const uint64_t *values, size_t count) {
    fprintf(report, ",\"%s\":[", name);
    for (size_t i = 0; i < count; ++i)
        fprintf(report, "%s%llu", i ? "," : "", (unsigned long long)values[i]);
    fputc(']', report);
}

/* What a launcher that Astra made tells the recorder (build/extension_sources/memory.h): why it fails
 * and what memory it asks for; and when it calls the user's function only to see which of the tensors
 * that it makes it returns. What is launched then is no part of a plan, so nobody replays it. */
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

int dry;
EXPORT void astra_dry(int on) { dry = on; }

void forget_said(void) { said[used = dry = 0] = 0; }

void report_said(void) {
    fputs(",\"said\":", report);
    put_text(said);
}
