/* Reads the request: a line a thing, written by our own Python (request.py). */
#include "recorder.h"
#include <stdlib.h>
#include <string.h>

struct request request;

static char *line;
static size_t room;
static char *rest;

void broken(const char *what) {
    fprintf(stderr, "recorder: %s\n", what);
    exit(3);
}

static void *grown(void *items, size_t count, size_t size) {
    if (count & (count - 1))
        return items;
    items = realloc(items, (count ? 2 * count : 1) * size);
    if (!items)
        broken("out of memory");
    return items;
}

static void *taken(size_t count, size_t size) {
    void *items = calloc(count ? count : 1, size);
    if (!items)
        broken("out of memory");
    return items;
}

static char *word(void) {
    char *text = strtok_r(NULL, " ", &rest);
    if (!text)
        broken("a request line is too short");
    return text;
}

static uint64_t number(void) { return strtoull(word(), NULL, 16); }
static char *name(void) { return strdup(word()); }

static void read_device(struct vcudart_device *device) {
    const char *digits = word();
    unsigned char *bytes = (unsigned char *)device;
    if (strlen(digits) != 2 * sizeof *device)
        broken("struct vcudart_device has a different size");
    for (size_t i = 0; i < sizeof *device; ++i) {
        const char pair[3] = {digits[2 * i], digits[2 * i + 1], 0};
        bytes[i] = (unsigned char)strtoul(pair, NULL, 16);
    }
}

static void read_kernel(void) {
    request.kernels = grown(request.kernels, request.kernel_count, sizeof *request.kernels);
    struct kernel *kernel = &request.kernels[request.kernel_count++];
    *kernel = (struct kernel){.name = name(), .carveout = -1};
    kernel->registers = (int)number();
    kernel->static_shared_bytes = (int)number();
    kernel->max_threads = (int)number();
    kernel->barriers = (int)number();
    for (int i = 0; i < 3; ++i)
        kernel->cluster[i] = (int)number();
    kernel->max_cluster = (int)number();
    kernel->parameter_bytes = (uint32_t)number();
    kernel->count = (uint32_t)number();
    kernel->parameters = taken(kernel->count, sizeof *kernel->parameters);
    for (uint32_t i = 0; i < kernel->count; ++i) {
        kernel->parameters[i].offset = (uint32_t)number();
        kernel->parameters[i].bytes = (uint32_t)number();
    }
}

static void read_variable(void) {
    request.variables = grown(request.variables, request.variable_count, sizeof *request.variables);
    struct variable *variable = &request.variables[request.variable_count++];
    variable->name = name();
    variable->address = number();
    variable->bytes = number();
}

static void read_call(void) {
    request.calls = grown(request.calls, request.call_count, sizeof *request.calls);
    struct call *call = &request.calls[request.call_count++];
    call->index = number();
    call->pattern = number();
    call->state = number();
    call->stream = number();
    call->reserved_count = number();
    if (call->reserved_count > MAX_RESERVED)
        broken("too many buffers");
    call->reserved = taken(call->reserved_count, sizeof *call->reserved);
    for (size_t i = 0; i < call->reserved_count; ++i) {
        call->reserved[i].name = name();
        call->reserved[i].address = number();
        call->reserved[i].bytes = number();
    }
    call->word_count = number();
    call->words = taken(call->word_count, sizeof *call->words);
    for (size_t i = 0; i < call->word_count; ++i)
        call->words[i] = number();
}

static void read_line(struct vcudart_device *device) {
    const char *kind = strtok_r(line, " ", &rest);
    if (!strcmp(kind, "runtime"))
        request.runtime = strdup(rest); /* a path may hold spaces */
    else if (!strcmp(kind, "library"))
        request.library = strdup(rest);
    else if (!strcmp(kind, "stub"))
        request.stub = strdup(rest);
    else if (!strcmp(kind, "locale"))
        request.locale = name();
    else if (!strcmp(kind, "entry"))
        request.entry = name();
    else if (!strcmp(kind, "lock"))
        request.lock = (int)number();
    else if (!strcmp(kind, "lazy"))
        request.lazy = (int)number();
    else if (!strcmp(kind, "device"))
        read_device(device);
    else if (!strcmp(kind, "kernel"))
        read_kernel();
    else if (!strcmp(kind, "variable"))
        read_variable();
    else if (!strcmp(kind, "call"))
        read_call();
    else
        broken("an unknown request line");
}

void read_request(const char *path, struct vcudart_device *device) {
    FILE *file = fopen(path, "r");
    ssize_t length;
    if (!file)
        broken("no request");
    while ((length = getline(&line, &room, file)) > 0) {
        if (line[length - 1] == '\n')
            line[length - 1] = 0;
        read_line(device);
    }
    fclose(file);
    if (!request.runtime || !request.library || !request.stub || !request.entry || !request.locale)
        broken("the request is incomplete");
}

struct kernel *find_kernel(const char *wanted) {
    for (size_t i = 0; i < request.kernel_count; ++i)
        if (!strcmp(request.kernels[i].name, wanted))
            return &request.kernels[i];
    return NULL;
}
