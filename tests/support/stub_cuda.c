// A CUDA driver without a GPU: what is asked of it is done at once in host memory, and noted in the file that
// STUB_CUDA_LOG names, a call a line. It shows that arguments arrive as the driver's interface wants them.
//
// STUB_CUDA_INIT, STUB_CUDA_VERSION and STUB_CUDA_DEVICES are what cuInit, cuDriverGetVersion and cuDeviceGetCount
// answer.
#define _POSIX_C_SOURCE 200809L
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int Status;
typedef unsigned long long Address;
enum { SUCCESS = 0, INVALID = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, NOT_FOUND = 500, NOT_READY = 600, ILLEGAL = 700 };
static const size_t TOTAL = (size_t)1 << 33, FREE = (size_t)1 << 32;

static long setting(const char *name, long otherwise) {
    const char *value = getenv(name);
    return value ? atol(value) : otherwise;
}

static void note(const char *format, ...) {
    const char *path = getenv("STUB_CUDA_LOG");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (!file) return;
    va_list arguments;
    va_start(arguments, format);
    vfprintf(file, format, arguments);
    va_end(arguments);
    fputc('\n', file);
    fclose(file);
}

// -- devices ----------------------------------------------------------------------------------------------------------

Status cuInit(unsigned flags) {
    note("cuInit %u", flags);
    return (Status)setting("STUB_CUDA_INIT", SUCCESS);
}

Status cuDriverGetVersion(int *version) {
    *version = (int)setting("STUB_CUDA_VERSION", 13000);
    return SUCCESS;
}

Status cuDeviceGetCount(int *count) {
    *count = (int)setting("STUB_CUDA_DEVICES", 2);
    return SUCCESS;
}

Status cuDeviceGet(int *device, int ordinal) {
    *device = ordinal + 40;
    return SUCCESS;
}

Status cuDeviceGetName(char *name, int length, int device) {
    snprintf(name, length, "Stub %d", device);
    return SUCCESS;
}

Status cuDeviceGetUuid(unsigned char *uuid, int device) {
    for (int i = 0; i < 16; ++i) uuid[i] = (unsigned char)(device + 7 * i);
    return SUCCESS;
}

Status cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    *value = attribute == 75 ? 9 : attribute == 76 ? 0 : 1000 + attribute;
    return SUCCESS;
}

Status cuDeviceTotalMem(size_t *bytes, int device) {
    (void)device;
    *bytes = TOTAL;
    return SUCCESS;
}

Status cuDeviceGetPCIBusId(char *bus, int length, int device) {
    snprintf(bus, length, "0000:%02X:00.0", device);
    return SUCCESS;
}

Status cuDevicePrimaryCtxRetain(void **context, int device) {
    *context = (void *)(uintptr_t)(0x1000 + device);
    return SUCCESS;
}

Status cuCtxSetCurrent(void *context) {
    note("cuCtxSetCurrent %#lx", (unsigned long)(uintptr_t)context);
    return SUCCESS;
}

// -- memory -----------------------------------------------------------------------------------------------------------

Status cuMemGetInfo(size_t *free, size_t *total) {
    *free = FREE;
    *total = TOTAL;
    return SUCCESS;
}

Status cuMemAlloc(Address *address, size_t bytes) {
    note("cuMemAlloc %zu", bytes);
    if (bytes == 0) return INVALID;
    if (bytes > FREE) return OUT_OF_MEMORY;
    void *memory = NULL;
    if (posix_memalign(&memory, 256, bytes)) return OUT_OF_MEMORY;
    *address = (Address)(uintptr_t)memory;
    return SUCCESS;
}

Status cuMemFree(Address address) {
    if (address == 0xbad) return INVALID;
    if (address == 0xdead) return ILLEGAL;
    free((void *)(uintptr_t)address);
    return SUCCESS;
}

Status cuMemHostRegister(void *address, size_t bytes, unsigned flags) {
    note("cuMemHostRegister %#lx %zu %u", (unsigned long)(uintptr_t)address, bytes, flags);
    return bytes > FREE ? OUT_OF_MEMORY : SUCCESS;
}

Status cuMemHostUnregister(void *address) {
    note("cuMemHostUnregister %#lx", (unsigned long)(uintptr_t)address);
    return SUCCESS;
}

Status cuMemsetD8Async(Address address, unsigned char byte, size_t bytes, void *stream) {
    (void)stream;
    memset((void *)(uintptr_t)address, byte, bytes);
    return SUCCESS;
}

Status cuMemcpyAsync(Address target, Address source, size_t bytes, void *stream) {
    note("cuMemcpyAsync %zu %#lx", bytes, (unsigned long)(uintptr_t)stream);
    memcpy((void *)(uintptr_t)target, (void *)(uintptr_t)source, bytes);
    return SUCCESS;
}

typedef struct {
    size_t x, y, z, level;
    int kind;
    const void *host;
    Address device;
    void *array, *reserved;
    size_t pitch, height;
} End;

typedef struct {
    End source, target;
    size_t width, height, depth;
} Box;

Status cuMemcpy3DAsync(const Box *box, void *stream) {
    const End *ends[2] = {&box->source, &box->target};
    note("cuMemcpy3DAsync %zu %zu %zu pitch %zu %zu height %zu %zu", box->width, box->height, box->depth,
         box->source.pitch, box->target.pitch, box->source.height, box->target.height);
    (void)stream;
    for (int i = 0; i < 2; ++i) {
        const End *end = ends[i];
        const size_t unused = end->x | end->y | end->z | end->level | (size_t)end->host | (size_t)end->array;
        if (end->kind != 4 || unused || end->reserved || end->pitch < box->width || end->height < box->height)
            return INVALID;
    }
    for (size_t plane = 0; plane < box->depth; ++plane)
        for (size_t row = 0; row < box->height; ++row) {
            char *target = (char *)(uintptr_t)box->target.device;
            const char *source = (const char *)(uintptr_t)box->source.device;
            memcpy(target + (plane * box->target.height + row) * box->target.pitch,
                   source + (plane * box->source.height + row) * box->source.pitch, box->width);
        }
    return SUCCESS;
}

typedef struct {
    char bytes[64];
} Handle;

Status cuIpcGetMemHandle(Handle *handle, Address address) {
    for (int i = 0; i < 64; ++i) handle->bytes[i] = (char)(i - 32);
    memcpy(handle->bytes + 8, &address, sizeof address);
    return SUCCESS;
}

Status cuIpcOpenMemHandle(Address *address, Handle handle, unsigned flags) {
    note("cuIpcOpenMemHandle %u", flags);
    for (int i = 16; i < 64; ++i)
        if (handle.bytes[i] != (char)(i - 32)) return INVALID;
    memcpy(address, handle.bytes + 8, sizeof *address);
    return SUCCESS;
}

Status cuIpcCloseMemHandle(Address address) {
    note("cuIpcCloseMemHandle %#llx", address);
    return SUCCESS;
}

// -- streams and events -----------------------------------------------------------------------------------------------

static uintptr_t handles = 0x5000;

Status cuStreamCreate(void **stream, unsigned flags) {
    *stream = (void *)++handles;
    note("cuStreamCreate %u %#lx", flags, (unsigned long)handles);
    return SUCCESS;
}

Status cuCtxGetStreamPriorityRange(int *least, int *most) {
    *least = 0;
    *most = -5;
    return SUCCESS;
}

Status cuStreamCreateWithPriority(void **stream, unsigned flags, int priority) {
    *stream = (void *)++handles;
    note("cuStreamCreateWithPriority %u %d %#lx", flags, priority, (unsigned long)handles);
    return SUCCESS;
}

#define NOTING(name)                                                      \
    Status name(void *handle) {                                           \
        note(#name " %#lx", (unsigned long)(uintptr_t)handle);            \
        return SUCCESS;                                                   \
    }
NOTING(cuStreamDestroy)
NOTING(cuStreamSynchronize)
NOTING(cuEventDestroy)
NOTING(cuEventSynchronize)
NOTING(cuGraphDestroy)
NOTING(cuGraphExecDestroy)
NOTING(cuModuleUnload)

Status cuDeviceGetP2PAttribute(int *value, int attribute, int source, int target) {
    *value = attribute == 3 && source == target + 1;
    return SUCCESS;
}

#define NOTING_TWO(name)                                                                                         \
    Status name(void *first, void *second) {                                                                     \
        note(#name " %#lx %#lx", (unsigned long)(uintptr_t)first, (unsigned long)(uintptr_t)second);             \
        return SUCCESS;                                                                                          \
    }
NOTING_TWO(cuEventRecord)
NOTING_TWO(cuGraphLaunch)

Status cuEventCreate(void **event, unsigned flags) {
    *event = (void *)++handles;
    note("cuEventCreate %u %#lx", flags, (unsigned long)handles);
    return SUCCESS;
}

// An event is reached when it is asked for the second time.
Status cuEventQuery(void *event) {
    static void *asked = NULL;
    if (asked == event) return SUCCESS;
    asked = event;
    return NOT_READY;
}

Status cuStreamQuery(void *stream) { return cuEventQuery(stream); }

Status cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
    note("cuStreamWaitEvent %#lx %#lx %u", (unsigned long)(uintptr_t)stream, (unsigned long)(uintptr_t)event, flags);
    return SUCCESS;
}

Status cuEventElapsedTime(float *milliseconds, void *first, void *last) {
    *milliseconds = (float)((uintptr_t)last - (uintptr_t)first) * 1.5f;
    return SUCCESS;
}

// -- code -------------------------------------------------------------------------------------------------------------

Status cuModuleLoadData(void **module, const void *image) {
    note("cuModuleLoadData %s", (const char *)image);
    *module = (void *)0x7000;
    return SUCCESS;
}

Status cuModuleGetFunction(void **function, void *module, const char *name) {
    note("cuModuleGetFunction %#lx %s", (unsigned long)(uintptr_t)module, name);
    *function = (void *)0x7100;
    return strcmp(name, "missing") ? SUCCESS : NOT_FOUND;
}

Status cuFuncGetAttribute(int *value, int attribute, void *function) {
    (void)function;
    *value = 100 + attribute;
    return SUCCESS;
}

Status cuFuncSetAttribute(void *function, int attribute, int value) {
    note("cuFuncSetAttribute %#lx %d %d", (unsigned long)(uintptr_t)function, attribute, value);
    return SUCCESS;
}

Status cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads, size_t shared) {
    note("cuOccupancy %#lx %d %zu", (unsigned long)(uintptr_t)function, threads, shared);
    *blocks = 2048 / threads;
    return SUCCESS;
}

Status cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared, void *stream, void **parameters, void **extra) {
    char text[4096] = "none";
    const int noted = getenv("STUB_CUDA_LOG") != NULL;
    if (extra) {
        if (extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4] != NULL) return INVALID;
        const unsigned char *bytes = extra[1];
        const size_t count = *(const size_t *)extra[3];
        for (size_t i = 0; noted && i < count && i < 2000; ++i) sprintf(text + 2 * i, "%02x", bytes[i]);
    }
    note("cuLaunchKernel %#lx grid %u %u %u block %u %u %u shared %u stream %#lx parameters %d arguments %s",
         (unsigned long)(uintptr_t)function, gx, gy, gz, bx, by, bz, shared, (unsigned long)(uintptr_t)stream,
         parameters != NULL, text);
    return bx * by * bz > 1024 ? INVALID : SUCCESS;
}

// -- graphs -----------------------------------------------------------------------------------------------------------

Status cuStreamBeginCapture(void *stream, int mode) {
    note("cuStreamBeginCapture %#lx %d", (unsigned long)(uintptr_t)stream, mode);
    return SUCCESS;
}

Status cuStreamEndCapture(void *stream, void **graph) {
    *graph = (void *)((uintptr_t)stream + 0x100);
    return SUCCESS;
}

Status cuGraphInstantiate(void **executable, void *graph, unsigned long long flags) {
    note("cuGraphInstantiate %#lx %llu", (unsigned long)(uintptr_t)graph, flags);
    *executable = (void *)((uintptr_t)graph + 0x100);
    return SUCCESS;
}

// -- errors and symbols -----------------------------------------------------------------------------------------------

Status cuGetErrorName(Status status, const char **name) {
    *name = status == INVALID         ? "CUDA_ERROR_INVALID_VALUE"
            : status == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
            : status == NOT_FOUND     ? "CUDA_ERROR_NOT_FOUND"
            : status == ILLEGAL       ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                                      : NULL;
    return *name ? SUCCESS : INVALID;
}

Status cuGetErrorString(Status status, const char **text) {
    *text = "as the stub says";
    return status ? SUCCESS : INVALID;
}

#define KNOWN(name) {#name, (void *)name}
static const struct {
    const char *name;
    void *function;
} SYMBOLS[] = {
    KNOWN(cuInit), KNOWN(cuDeviceGetP2PAttribute), KNOWN(cuDriverGetVersion), KNOWN(cuDeviceGetCount), KNOWN(cuDeviceGet), KNOWN(cuDeviceGetName),
    KNOWN(cuDeviceGetUuid), KNOWN(cuDeviceGetAttribute), KNOWN(cuDeviceTotalMem), KNOWN(cuDeviceGetPCIBusId),
    KNOWN(cuDevicePrimaryCtxRetain), KNOWN(cuCtxSetCurrent), KNOWN(cuMemGetInfo), KNOWN(cuMemAlloc), KNOWN(cuMemFree),
    KNOWN(cuMemHostRegister), KNOWN(cuMemHostUnregister), KNOWN(cuMemsetD8Async), KNOWN(cuMemcpyAsync),
    KNOWN(cuMemcpy3DAsync), KNOWN(cuIpcGetMemHandle), KNOWN(cuIpcOpenMemHandle), KNOWN(cuIpcCloseMemHandle),
    KNOWN(cuStreamCreate), KNOWN(cuStreamDestroy), KNOWN(cuStreamSynchronize), KNOWN(cuEventCreate),
    KNOWN(cuEventDestroy), KNOWN(cuEventRecord), KNOWN(cuEventQuery), KNOWN(cuStreamQuery), KNOWN(cuEventSynchronize),
    KNOWN(cuStreamWaitEvent), KNOWN(cuEventElapsedTime), KNOWN(cuModuleLoadData), KNOWN(cuModuleUnload),
    KNOWN(cuModuleGetFunction), KNOWN(cuFuncGetAttribute), KNOWN(cuFuncSetAttribute),
    KNOWN(cuOccupancyMaxActiveBlocksPerMultiprocessor), KNOWN(cuLaunchKernel), KNOWN(cuStreamBeginCapture),
    KNOWN(cuStreamEndCapture), KNOWN(cuGraphInstantiate), KNOWN(cuGraphLaunch), KNOWN(cuGraphDestroy),
    KNOWN(cuGraphExecDestroy), KNOWN(cuGetErrorName), KNOWN(cuGetErrorString), KNOWN(cuCtxGetStreamPriorityRange),
    KNOWN(cuStreamCreateWithPriority),
    {"cuGraphInstantiateWithFlags", (void *)cuGraphInstantiate},
};

Status cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *found) {
    (void)version, (void)flags;
    *function = NULL;
    for (size_t i = 0; i < sizeof SYMBOLS / sizeof *SYMBOLS; ++i)
        if (!strcmp(name, SYMBOLS[i].name)) *function = SYMBOLS[i].function;
    if (found) *found = *function ? 0 : 1;
    return *function ? SUCCESS : NOT_FOUND;
}
