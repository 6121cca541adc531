/* Threads of rank 0 that communicate with rank 1 at the same time, as an MPI programmer writes it. MPI runs with
 * MPI_THREAD_MULTIPLE. Ranks other than 0 and 1 return at once. */
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

enum { PUT, ADD, MESSAGE };
enum { MOST = 64, LINE = 8, WINDOW = 64 }; /* threads, words of a cache line, messages under way */

typedef struct {
    MPI_Comm team;
    MPI_Win window;
    int rank;
    int64_t *exposed;             /* a line for each thread of rank 0 */
    int64_t counts[MOST * LINE];  /* what each thread has put */
    int64_t received;
} Injection;

typedef struct {
    Injection *all;
    int what, index;
    int64_t calls, received;
} Thread;

/* Collective. */
Injection *injection_create(MPI_Fint communicator)
{
    Injection *all = calloc(1, sizeof *all);
    MPI_Comm_dup(MPI_Comm_f2c(communicator), &all->team);
    MPI_Comm_rank(all->team, &all->rank);
    MPI_Win_allocate(MOST * LINE * sizeof(int64_t), 1, MPI_INFO_NULL, all->team, &all->exposed, &all->window);
    for (int i = 0; i < MOST * LINE; i++)
        all->exposed[i] = 0;
    MPI_Win_lock_all(MPI_MODE_NOCHECK, all->window);
    MPI_Barrier(all->team);
    return all;
}

/* Collective. */
void injection_free(Injection *all)
{
    MPI_Win_unlock_all(all->window);
    MPI_Win_free(&all->window);
    MPI_Comm_free(&all->team);
    free(all);
}

static void send_messages(const Thread *own)
{
    MPI_Request request[WINDOW];
    int64_t left = own->calls;
    while (left > 0) {
        const int n = left < WINDOW ? (int)left : WINDOW;
        for (int i = 0; i < n; i++)
            MPI_Isend(&own->calls, 1, MPI_INT64_T, 1, own->index, own->all->team, &request[i]);
        MPI_Waitall(n, request, MPI_STATUSES_IGNORE);
        left -= n;
    }
}

static void receive_messages(Thread *own)
{
    MPI_Request request[WINDOW];
    int64_t values[WINDOW], left = own->calls;
    while (left > 0) {
        const int n = left < WINDOW ? (int)left : WINDOW;
        for (int i = 0; i < n; i++)
            MPI_Irecv(&values[i], 1, MPI_INT64_T, 0, own->index, own->all->team, &request[i]);
        MPI_Waitall(n, request, MPI_STATUSES_IGNORE);
        left -= n;
        own->received += n;
    }
}

static void *run(void *given)
{
    Thread *own = given;
    Injection *all = own->all;
    const MPI_Aint at = (MPI_Aint)(own->index * LINE * sizeof(int64_t));
    if (own->what == MESSAGE) {
        all->rank == 0 ? send_messages(own) : receive_messages(own);
        return NULL;
    }
    const int64_t one = 1;
    int64_t old, *count = &all->counts[own->index * LINE];
    for (int64_t i = 0; i < own->calls; i++) {
        ++*count;
        if (own->what == PUT)
            MPI_Put(count, 1, MPI_INT64_T, 1, at, 1, MPI_INT64_T, all->window);
        else
            MPI_Fetch_and_op(&one, &old, MPI_INT64_T, 1, at, MPI_SUM, all->window);
        MPI_Win_flush(1, all->window);
    }
    return NULL;
}

/* Each of the threads makes so many calls. Returns the seconds on this rank. */
double injection_run(Injection *all, int what, int threads, int64_t calls)
{
    pthread_t started[MOST];
    Thread thread[MOST];
    const double start = MPI_Wtime();
    if (all->rank > 1 || (all->rank == 1 && what != MESSAGE))
        return 0.0;
    for (int i = 0; i < threads; i++) {
        thread[i] = (Thread){all, what, i, calls, 0};
        if (i > 0)
            pthread_create(&started[i], NULL, run, &thread[i]);
    }
    run(&thread[0]);
    for (int i = 0; i < threads; i++) {
        if (i > 0)
            pthread_join(started[i], NULL);
        all->received += thread[i].received;
    }
    return MPI_Wtime() - start;
}

/* The sum of what the threads of rank 0 have put here, or added. */
int64_t injection_sum(Injection *all)
{
    int64_t sum = 0;
    MPI_Win_sync(all->window);
    for (int i = 0; i < MOST; i++)
        sum += all->exposed[i * LINE];
    return sum;
}

int64_t injection_received(Injection *all)
{
    return all->received;
}
