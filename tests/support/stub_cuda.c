// A CUDA driver without a GPU: what is asked of it is done at once in host memory, and noted in the file that
// STUB_CUDA_LOG names, a call a line. It shows that arguments arrive as the driver's interface wants them. What NVIDIA's
// driver refuses is refused with the same status and text.
//
// STUB_CUDA_INIT, STUB_CUDA_VERSION and STUB_CUDA_DEVICES are what cuInit, cuDriverGetVersion and cuDeviceGetCount
// answer.
#define _DEFAULT_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef int Status;
typedef unsigned long long Address;

// Status, name and text, as cuda.h and cuGetErrorString of CUDA 12 and 13 have them.
#define STATUSES(_)                                                                                                   \
    _(SUCCESS, 0, "no error")                                                                                         \
    _(INVALID_VALUE, 1, "invalid argument")                                                                           \
    _(OUT_OF_MEMORY, 2, "out of memory")                                                                              \
    _(NO_DEVICE, 100, "no CUDA-capable device is detected")                                                           \
    _(INVALID_DEVICE, 101, "invalid device ordinal")                                                                  \
    _(INVALID_IMAGE, 200, "device kernel image is invalid")                                                           \
    _(INVALID_CONTEXT, 201, "invalid device context")                                                                 \
    _(INVALID_HANDLE, 400, "invalid resource handle")                                                                 \
    _(ILLEGAL_STATE, 401, "the operation cannot be performed in the present state")                                   \
    _(NOT_FOUND, 500, "named symbol not found")                                                                       \
    _(NOT_READY, 600, "device not ready")                                                                             \
    _(ILLEGAL_ADDRESS, 700, "an illegal memory access was encountered")                                               \
    _(HOST_MEMORY_ALREADY_REGISTERED, 712, "part or all of the requested memory range is already mapped")             \
    _(HOST_MEMORY_NOT_REGISTERED, 713, "pointer does not correspond to a registered memory region")                   \
    _(STREAM_CAPTURE_UNSUPPORTED, 900, "operation not permitted when stream is capturing")                            \
    _(CAPTURED_EVENT, 907, "operation not permitted on an event last recorded in a capturing stream")
#define AS_NUMBER(name, number, text) name = number,
enum { STATUSES(AS_NUMBER) };

static const size_t TOTAL = (size_t)1 << 33, FREE = (size_t)1 << 32;
static const unsigned MOST_SHARED = 227 << 10;

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
    if (ordinal < 0 || ordinal >= setting("STUB_CUDA_DEVICES", 2)) return INVALID_DEVICE;
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

typedef struct {
    Address first;
    size_t bytes;
} Range;

// Ranges of memory, as they were given: a few thousand at most, or the test is not for this driver.
typedef struct {
    Range ranges[4096];
    size_t count;
} Ranges;

static Ranges allocated, registered;

static Range *range_at(Ranges *of, Address address) {
    for (size_t i = 0; i < of->count; ++i)
        if (of->ranges[i].first == address) return of->ranges + i;
    return NULL;
}

static Status add_range(Ranges *to, Address first, size_t bytes) {
    if (to->count == sizeof to->ranges / sizeof *to->ranges) return OUT_OF_MEMORY;
    to->ranges[to->count++] = (Range){first, bytes};
    return SUCCESS;
}

static void drop_range(Ranges *of, Range *range) { *range = of->ranges[--of->count]; }

// Whether all pages of a range are mapped in this process.
static int is_mapped(Address address, size_t bytes) {
    const Address page = (Address)sysconf(_SC_PAGESIZE), first = address / page * page;
    for (Address at = first; at < address + bytes; at += page) {
        unsigned char resident;
        if (mincore((void *)(uintptr_t)at, (size_t)page, &resident)) return 0;
    }
    return 1;
}

static int is_pageable(Address address, size_t bytes) {
    for (int i = 0; i < 2; ++i) {
        const Ranges *of = i ? &registered : &allocated;
        for (size_t k = 0; k < of->count; ++k)
            if (address >= of->ranges[k].first && address + bytes <= of->ranges[k].first + of->ranges[k].bytes) return 0;
    }
    return 1;
}

Status cuMemGetInfo(size_t *free, size_t *total) {
    *free = FREE;
    *total = TOTAL;
    return SUCCESS;
}

Status cuMemAlloc(Address *address, size_t bytes) {
    note("cuMemAlloc %zu", bytes);
    if (bytes == 0) return INVALID_VALUE;
    if (bytes > FREE) return OUT_OF_MEMORY;
    void *memory = NULL;
    if (posix_memalign(&memory, 256, bytes)) return OUT_OF_MEMORY;
    *address = (Address)(uintptr_t)memory;
    return add_range(&allocated, *address, bytes);
}

Status cuMemFree(Address address) {
    if (address == 0xdead) return ILLEGAL_ADDRESS;  // as after a kernel that wrote there
    Range *range = range_at(&allocated, address);
    if (!range) return INVALID_VALUE;
    drop_range(&allocated, range);
    free((void *)(uintptr_t)address);
    return SUCCESS;
}

Status cuMemHostRegister(void *address, size_t bytes, unsigned flags) {
    note("cuMemHostRegister %#lx %zu %u", (unsigned long)(uintptr_t)address, bytes, flags);
    if (bytes > FREE) return OUT_OF_MEMORY;
    const Address first = (Address)(uintptr_t)address;
    if (!bytes || !is_mapped(first, bytes)) return INVALID_VALUE;
    for (size_t i = 0; i < registered.count; ++i) {
        const Range *old = registered.ranges + i;
        if (old->first < first + bytes && first < old->first + old->bytes) return HOST_MEMORY_ALREADY_REGISTERED;
    }
    return add_range(&registered, first, bytes);
}

Status cuMemHostUnregister(void *address) {
    note("cuMemHostUnregister %#lx", (unsigned long)(uintptr_t)address);
    Range *range = range_at(&registered, (Address)(uintptr_t)address);
    if (!range) return HOST_MEMORY_NOT_REGISTERED;
    drop_range(&registered, range);
    return SUCCESS;
}

Status cuMemsetD8Async(Address address, unsigned char byte, size_t bytes, void *stream) {
    (void)stream;
    memset((void *)(uintptr_t)address, byte, bytes);
    return SUCCESS;
}

static void *capturing = NULL;  // the stream whose work is captured

Status cuMemcpyAsync(Address target, Address source, size_t bytes, void *stream) {
    note("cuMemcpyAsync %zu %#lx", bytes, (unsigned long)(uintptr_t)stream);
    if (capturing && stream == capturing)
        return is_pageable(target, bytes) || is_pageable(source, bytes) ? STREAM_CAPTURE_UNSUPPORTED : SUCCESS;
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
            return INVALID_VALUE;
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
    if (!range_at(&allocated, address)) return INVALID_VALUE;
    for (int i = 0; i < 64; ++i) handle->bytes[i] = (char)(i - 32);
    memcpy(handle->bytes + 8, &address, sizeof address);
    return SUCCESS;
}

Status cuIpcOpenMemHandle(Address *address, Handle handle, unsigned flags) {
    note("cuIpcOpenMemHandle %u", flags);
    for (int i = 16; i < 64; ++i)
        if (handle.bytes[i] != (char)(i - 32)) return INVALID_VALUE;
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
NOTING(cuEventDestroy)
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
NOTING_TWO(cuGraphLaunch)

Status cuStreamSynchronize(void *stream) {
    note("cuStreamSynchronize %#lx", (unsigned long)(uintptr_t)stream);
    return capturing && stream == capturing ? STREAM_CAPTURE_UNSUPPORTED : SUCCESS;
}

// Facts of events, by their handle.
typedef struct {
    char untimed, captured;
} Event;

static Event events[1 << 16];

static Event *event_of(void *event) { return events + ((uintptr_t)event & 0xffff); }

Status cuEventCreate(void **event, unsigned flags) {
    *event = (void *)++handles;
    *event_of(*event) = (Event){(flags & 2) != 0, 0};
    note("cuEventCreate %u %#lx", flags, (unsigned long)handles);
    return SUCCESS;
}

Status cuEventRecord(void *event, void *stream) {
    note("cuEventRecord %#lx %#lx", (unsigned long)(uintptr_t)event, (unsigned long)(uintptr_t)stream);
    event_of(event)->captured = capturing && stream == capturing;
    return SUCCESS;
}

Status cuEventSynchronize(void *event) {
    note("cuEventSynchronize %#lx", (unsigned long)(uintptr_t)event);
    return event_of(event)->captured ? CAPTURED_EVENT : SUCCESS;
}

// An event is reached when it is asked for the second time.
Status cuEventQuery(void *event) {
    if (event_of(event)->captured) return CAPTURED_EVENT;
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
    if (event_of(first)->untimed || event_of(last)->untimed) return INVALID_HANDLE;
    *milliseconds = (float)((uintptr_t)last - (uintptr_t)first) * 1.5f;
    return SUCCESS;
}

// -- code -------------------------------------------------------------------------------------------------------------

static const char *code = "";
static size_t code_bytes;

// Bytes of an image: of machine code by the head of its file, which ends with the table of sections, else up to a zero.
static size_t image_bytes(const char *image) {
    if (memcmp(image, "\x7f" "ELF", 4)) return strlen(image);
    uint64_t table;
    uint16_t size, count;
    memcpy(&table, image + 40, sizeof table);
    memcpy(&size, image + 58, sizeof size);
    memcpy(&count, image + 60, sizeof count);
    return table + (size_t)size * count;
}

Status cuModuleLoadData(void **module, const void *image) {
    const int machine_code = !memcmp(image, "\x7f" "ELF", 4);
    note("cuModuleLoadData %s", machine_code ? "machine code" : (const char *)image);
    if (!machine_code && !strstr(image, ".version")) return INVALID_IMAGE;
    code_bytes = image_bytes(image);
    char *kept = malloc(code_bytes);
    if (!kept) return OUT_OF_MEMORY;
    code = memcpy(kept, image, code_bytes);
    *module = (void *)0x7000;
    return SUCCESS;
}

// Whether the last module has the name in it.
static int has_name(const char *name) {
    const size_t length = strlen(name);
    for (size_t i = 0; i + length <= code_bytes; ++i)
        if (!memcmp(code + i, name, length)) return 1;
    return 0;
}

Status cuModuleGetFunction(void **function, void *module, const char *name) {
    note("cuModuleGetFunction %#lx %s", (unsigned long)(uintptr_t)module, name);
    *function = (void *)0x7100;
    return has_name(name) ? SUCCESS : NOT_FOUND;
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
        if (extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4] != NULL) return INVALID_VALUE;
        const unsigned char *bytes = extra[1];
        const size_t count = *(const size_t *)extra[3];
        for (size_t i = 0; noted && i < count && i < 2000; ++i) sprintf(text + 2 * i, "%02x", bytes[i]);
    }
    note("cuLaunchKernel %#lx grid %u %u %u block %u %u %u shared %u stream %#lx parameters %d arguments %s",
         (unsigned long)(uintptr_t)function, gx, gy, gz, bx, by, bz, shared, (unsigned long)(uintptr_t)stream,
         parameters != NULL, text);
    return bx * by * bz > 1024 || shared > MOST_SHARED ? INVALID_VALUE : SUCCESS;
}

// -- graphs -----------------------------------------------------------------------------------------------------------

Status cuStreamBeginCapture(void *stream, int mode) {
    note("cuStreamBeginCapture %#lx %d", (unsigned long)(uintptr_t)stream, mode);
    if (capturing) return ILLEGAL_STATE;
    capturing = stream;
    return SUCCESS;
}

Status cuStreamEndCapture(void *stream, void **graph) {
    if (stream != capturing) return ILLEGAL_STATE;
    capturing = NULL;
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
#define AS_NAME(known, number, text) \
    case number: *name = number ? "CUDA_ERROR_" #known : "CUDA_SUCCESS"; break;
    switch (status) {
        STATUSES(AS_NAME)
        default: *name = NULL;
    }
    return *name ? SUCCESS : INVALID_VALUE;
}

Status cuGetErrorString(Status status, const char **text) {
#define AS_TEXT(known, number, words) \
    case number: *text = words; break;
    switch (status) {
        STATUSES(AS_TEXT)
        default: *text = NULL;
    }
    return *text ? SUCCESS : INVALID_VALUE;
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
