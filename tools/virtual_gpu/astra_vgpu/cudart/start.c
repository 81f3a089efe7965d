/* A program that astra-vgpu-nvcc linked brings its virtual GPU along: the first call of the runtime loads
 * Python into the process, which attaches itself. The names of what to load are defined when this is built. */
#define _GNU_SOURCE
#include "vcudart.h"

#ifndef VCUDART_LIBPYTHON
void vcudart_start(void) {}
#else
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ENVIRONMENT_LACKS = 3 };

static void *python;

static void *function(const char *name) {
    void *found = dlsym(python, name);
    if (!found) {
        fprintf(stderr, "virtual GPU: %s has no %s\n", VCUDART_LIBPYTHON, name);
        _exit(ENVIRONMENT_LACKS);
    }
    return found;
}

static void initialize(void) {
    const char *before = getenv("PYTHONHOME");
    char *kept = before ? strdup(before) : NULL;
    setenv("PYTHONHOME", VCUDART_PYTHONHOME, 1);
    ((void (*)(int))function("Py_InitializeEx"))(0);
    if (kept)
        setenv("PYTHONHOME", kept, 1);
    else
        unsetenv("PYTHONHOME");
    free(kept);
}

static void start(void) {
    /* In a Python process its own interpreter is taken. */
    python = dlsym(RTLD_DEFAULT, "Py_InitializeEx") ? dlopen(NULL, RTLD_NOW) : dlopen(VCUDART_LIBPYTHON, RTLD_NOW | RTLD_GLOBAL);
    if (!python) {
        fprintf(stderr, "virtual GPU: cannot load Python: %s\n", dlerror());
        _exit(ENVIRONMENT_LACKS);
    }
    const int there = ((int (*)(void))function("Py_IsInitialized"))();
    int state = 0;
    if (there)
        state = ((int (*)(void))function("PyGILState_Ensure"))();
    else
        initialize();
    if (((int (*)(const char *))function("PyRun_SimpleString"))(VCUDART_PROGRAM))
        _exit(ENVIRONMENT_LACKS);
    if (there)
        ((void (*)(int))function("PyGILState_Release"))(state);
    else
        ((void *(*)(void))function("PyEval_SaveThread"))();
}

void vcudart_start(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start);
}
#endif
