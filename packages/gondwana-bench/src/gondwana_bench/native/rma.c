/* What moves data between two ranks, as an MPI programmer writes it: messages, one-sided operations on a window; and on
 * a node a flag in shared memory, and memcpy, the bound.
 *
 * Ranks 0 and 1 of the communicator take part; every other rank returns at once. Functions that time return the seconds
 * on this rank. With `both`, both ranks are active, else rank 0 alone and rank 1 returns at once, unless it has messages
 * to receive or a flag to answer.
 */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 64, PAGE = 4096, SPINS = 4096 };
enum { DATA, ACK };

typedef struct {
    MPI_Comm team;
    int rank, peer;
    MPI_Win window, flags;
    char *exposed, *local;
    int64_t *mine, *theirs; /* the flag that I read and the one that I write */
    int64_t count;
} Rma;

/* Collective. `exposed` can be reached by the peer, `local` is private; both have `bytes` bytes. There is a flag if all
 * ranks are on a node. */
Rma *rma_create(MPI_Fint communicator, int64_t bytes, int on_node)
{
    Rma *r = calloc(1, sizeof *r);
    MPI_Comm_dup(MPI_Comm_f2c(communicator), &r->team);
    MPI_Comm_rank(r->team, &r->rank);
    r->peer = 1 - r->rank;
    MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, r->team, &r->exposed, &r->window);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, r->window);
    r->local = aligned_alloc(PAGE, (size_t)(bytes + PAGE - 1) / PAGE * PAGE);
    memset(r->local, 0, (size_t)bytes);
    memset(r->exposed, 0, (size_t)bytes);
    r->flags = MPI_WIN_NULL;
    if (on_node) {
        MPI_Win_allocate_shared(PAGE, 1, MPI_INFO_NULL, r->team, &r->mine, &r->flags);
        *r->mine = 0;
    }
    if (on_node && r->rank < 2) {
        MPI_Aint size;
        int unit;
        MPI_Win_shared_query(r->flags, r->peer, &size, &unit, &r->theirs);
    }
    MPI_Barrier(r->team);
    return r;
}

void rma_free(Rma *r)
{
    MPI_Win_unlock_all(r->window);
    MPI_Win_free(&r->window);
    if (r->flags != MPI_WIN_NULL)
        MPI_Win_free(&r->flags);
    MPI_Comm_free(&r->team);
    free(r->local);
    free(r);
}

char *rma_exposed(Rma *r)
{
    return r->exposed;
}

char *rma_local(Rma *r)
{
    return r->local;
}

/* Rank 0 sends a message and rank 1 sends it back, `calls` times. */
double rma_ping_pong(Rma *r, int size, int64_t calls)
{
    const double start = MPI_Wtime();
    for (int64_t i = 0; i < calls && r->rank < 2; i++) {
        if (r->rank == 0)
            MPI_Send(r->local, size, MPI_BYTE, 1, DATA, r->team);
        MPI_Recv(r->rank ? r->local : r->exposed, size, MPI_BYTE, r->peer, DATA, r->team, MPI_STATUS_IGNORE);
        if (r->rank == 1)
            MPI_Send(r->local, size, MPI_BYTE, 0, DATA, r->team);
    }
    return MPI_Wtime() - start;
}

/* Blocking: each put is complete at the target before the next starts. */
double rma_put(Rma *r, int size, int64_t calls)
{
    const double start = MPI_Wtime();
    for (int64_t i = 0; i < calls && r->rank == 0; i++) {
        MPI_Put(r->local, size, MPI_BYTE, 1, 0, size, MPI_BYTE, r->window);
        MPI_Win_flush(1, r->window);
    }
    return MPI_Wtime() - start;
}

/* A put and a message without data that says so, there and back. */
double rma_put_message(Rma *r, int size, int64_t calls)
{
    const double start = MPI_Wtime();
    for (int64_t i = 0; i < calls && r->rank < 2; i++) {
        if (r->rank == 1)
            MPI_Recv(NULL, 0, MPI_BYTE, r->peer, DATA, r->team, MPI_STATUS_IGNORE);
        MPI_Put(r->local, size, MPI_BYTE, r->peer, 0, size, MPI_BYTE, r->window);
        MPI_Win_flush(r->peer, r->window);
        MPI_Send(NULL, 0, MPI_BYTE, r->peer, DATA, r->team);
        if (r->rank == 0)
            MPI_Recv(NULL, 0, MPI_BYTE, r->peer, DATA, r->team, MPI_STATUS_IGNORE);
    }
    return MPI_Wtime() - start;
}

double rma_get(Rma *r, int size, int64_t calls)
{
    const double start = MPI_Wtime();
    for (int64_t i = 0; i < calls && r->rank == 0; i++) {
        MPI_Get(r->local, size, MPI_BYTE, 1, 0, size, MPI_BYTE, r->window);
        MPI_Win_flush(1, r->window);
    }
    return MPI_Wtime() - start;
}

/* Adds 1 to the first word of rank 1's window and fetches what it was into the first word of `local`. */
double rma_fetch_add(Rma *r, int64_t calls)
{
    const int64_t one = 1;
    const double start = MPI_Wtime();
    for (int64_t i = 0; i < calls && r->rank == 0; i++) {
        MPI_Fetch_and_op(&one, r->local, MPI_INT64_T, 1, 0, MPI_SUM, r->window);
        MPI_Win_flush(1, r->window);
    }
    return MPI_Wtime() - start;
}

/* A flood moves `size` bytes at a time; its operations take `places` consecutive places in turns. */
static inline MPI_Aint next(MPI_Aint at, int64_t size, int places)
{
    return at + size < places * size ? at + size : 0;
}

/* Windows of puts, each window followed by a flush. */
double rma_put_flood(Rma *r, int size, int places, int both, int64_t calls)
{
    const double start = MPI_Wtime();
    for (int64_t i = 0; i < calls && (r->rank == 0 || (both && r->rank == 1)); i++) {
        MPI_Aint at = 0;
        for (int j = 0; j < WINDOW; j++, at = next(at, size, places))
            MPI_Put(r->local + at, size, MPI_BYTE, r->peer, at, size, MPI_BYTE, r->window);
        MPI_Win_flush(r->peer, r->window);
    }
    return MPI_Wtime() - start;
}

/* Windows of messages, each window followed by a message back. */
double rma_message_flood(Rma *r, int size, int places, int both, int64_t calls)
{
    MPI_Request request[2 * WINDOW];
    const int sends = r->rank == 0 || both, receives = r->rank == 1 || both;
    int32_t ack = 0;
    const double start = MPI_Wtime();
    for (int64_t i = 0; i < calls && r->rank < 2; i++) {
        int n = 0;
        MPI_Aint at = 0;
        for (int j = 0; receives && j < WINDOW; j++, at = next(at, size, places))
            MPI_Irecv(r->exposed + at, size, MPI_BYTE, r->peer, DATA, r->team, &request[n++]);
        at = 0;
        for (int j = 0; sends && j < WINDOW; j++, at = next(at, size, places))
            MPI_Isend(r->local + at, size, MPI_BYTE, r->peer, DATA, r->team, &request[n++]);
        MPI_Waitall(n, request, MPI_STATUSES_IGNORE);
        if (receives)
            MPI_Send(&ack, 1, MPI_INT32_T, r->peer, ACK, r->team);
        if (sends)
            MPI_Recv(&ack, 1, MPI_INT32_T, r->peer, ACK, r->team, MPI_STATUS_IGNORE);
    }
    return MPI_Wtime() - start;
}

/* Tell the processor that this is a loop that waits. */
static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Wait for a flag; when ranks outnumber cores, its writer needs this core. */
static void await_flag(const int64_t *flag, int64_t value)
{
    for (int spins = 0; __atomic_load_n(flag, __ATOMIC_ACQUIRE) < value; spins++)
        if (spins >= SPINS)
            sched_yield();
        else
            relax();
}

/* Rank 0 raises a flag in shared memory and rank 1 raises one back, `calls` times. */
double rma_flag(Rma *r, int64_t calls)
{
    const double start = MPI_Wtime();
    for (int64_t i = 0; i < calls && r->rank < 2; i++) {
        const int64_t value = ++r->count;
        if (r->rank == 1)
            await_flag(r->mine, value);
        __atomic_store_n(r->theirs, value, __ATOMIC_RELEASE);
        if (r->rank == 0)
            await_flag(r->mine, value);
    }
    return MPI_Wtime() - start;
}

/* Windows of memcpy. */
double rma_copy(Rma *r, char *to, const char *from, int64_t size, int places, int both, int64_t calls)
{
    const double start = MPI_Wtime();
    for (int64_t i = 0; i < calls && (r->rank == 0 || (both && r->rank == 1)); i++) {
        MPI_Aint at = 0;
        for (int j = 0; j < WINDOW; j++, at = next(at, size, places)) {
            memcpy(to + at, from + at, (size_t)size);
            /* Nothing is known of the memory after it: the next copy is not left out. */
            __asm__ volatile("" : : "r"(to), "r"(from) : "memory");
        }
    }
    return MPI_Wtime() - start;
}

/* How often rank 1 has seen the flag raised. */
int64_t rma_flag_count(Rma *r)
{
    return *r->mine;
}
