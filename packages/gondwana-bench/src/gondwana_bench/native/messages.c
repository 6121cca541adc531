/* Messages and sums as an MPI programmer writes them. Every function makes a number of calls, one after the other, and
 * returns the seconds on this rank. */
#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

/* After a barrier, rank 0 sends a message and rank 1 sends it back. Other ranks return then. */
double messages_ping_pong(MPI_Fint communicator, char *sent, char *received, int64_t size, int64_t calls)
{
    const MPI_Comm team = MPI_Comm_f2c(communicator);
    int rank;
    MPI_Comm_rank(team, &rank);
    MPI_Barrier(team);
    const double start = MPI_Wtime();
    for (int64_t i = 0; i < calls && rank < 2; i++) {
        if (rank == 0)
            MPI_Send(sent, (int)size, MPI_BYTE, 1, 0, team);
        MPI_Recv(rank == 0 ? received : sent, (int)size, MPI_BYTE, 1 - rank, 0, team, MPI_STATUS_IGNORE);
        if (rank == 1)
            MPI_Send(sent, (int)size, MPI_BYTE, 0, 0, team);
    }
    return MPI_Wtime() - start;
}

/* Each sum is timed alone, and a barrier that does not count follows it. */
double messages_allreduce(MPI_Fint communicator, float *given, float *sums, int64_t count, int64_t calls)
{
    const MPI_Comm team = MPI_Comm_f2c(communicator);
    double seconds = 0.0;
    for (int64_t i = 0; i < calls; i++) {
        const double start = MPI_Wtime();
        MPI_Allreduce(given, sums, (int)count, MPI_FLOAT, MPI_SUM, team);
        seconds += MPI_Wtime() - start;
        MPI_Barrier(team);
    }
    return seconds;
}

double messages_barrier(MPI_Fint communicator, int64_t calls)
{
    const MPI_Comm team = MPI_Comm_f2c(communicator);
    const double start = MPI_Wtime();
    for (int64_t i = 0; i < calls; i++)
        MPI_Barrier(team);
    return MPI_Wtime() - start;
}

double messages_bcast(MPI_Fint communicator, double *data, int64_t count, int64_t calls)
{
    const MPI_Comm team = MPI_Comm_f2c(communicator);
    const double start = MPI_Wtime();
    for (int64_t i = 0; i < calls; i++)
        MPI_Bcast(data, (int)count, MPI_DOUBLE, 0, team);
    return MPI_Wtime() - start;
}

/* The sum of all ranks, in place; the next call begins at once. */
double messages_add(MPI_Fint communicator, double *data, int64_t count, int64_t calls)
{
    const MPI_Comm team = MPI_Comm_f2c(communicator);
    const double start = MPI_Wtime();
    for (int64_t i = 0; i < calls; i++)
        MPI_Allreduce(MPI_IN_PLACE, data, (int)count, MPI_DOUBLE, MPI_SUM, team);
    return MPI_Wtime() - start;
}

/* What a rank of the ring has. */
typedef struct {
    uint64_t *data, *inbox; /* the first `words` of data travel */
    uint64_t *total;
    double *product;
    int64_t words, reads, writes, flops;
} Rank;

enum { READS, WRITES, FLOPS, COMMUNICATION, PHASES };

/* Add the seconds since `*last` to those of a phase; the next phase begins. */
static inline void finish(double *phases, int phase, double *last)
{
    if (phases == NULL)
        return;
    const double now = MPI_Wtime();
    phases[phase] += now - *last;
    *last = now;
}

/* Runs of supersteps: read, write, compute, send to the next rank and receive from the one before. A run begins after a
 * barrier that does not count. `phases`: seconds of each phase are added here; NULL: without these clocks. */
double messages_ring(MPI_Fint communicator, const Rank *r, int64_t supersteps, double *phases, int64_t calls)
{
    const MPI_Comm team = MPI_Comm_f2c(communicator);
    int rank, size;
    MPI_Comm_rank(team, &rank);
    MPI_Comm_size(team, &size);
    const int next = (rank + 1) % size, before = (rank + size - 1) % size, words = (int)r->words;
    double seconds = 0.0;
    for (int64_t i = 0; i < calls; i++) {
        MPI_Barrier(team);
        const double start = MPI_Wtime();
        double last = start;
        for (int64_t step = 0; step < supersteps; step++) {
            uint64_t total = *r->total + r->inbox[0] + r->inbox[words - 1];
            for (int64_t j = 0; j < r->reads; j++)
                total += r->data[j];
            *r->total = total;
            finish(phases, READS, &last);
            for (int64_t j = 0; j < r->writes; j++)
                r->data[j] = total + (uint64_t)j;
            finish(phases, WRITES, &last);
            double product = *r->product;
            for (int64_t j = 0; j < r->flops; j += 2)
                product = product * 0.5 + 1.0;
            *r->product = product;
            finish(phases, FLOPS, &last);
            MPI_Sendrecv(r->data, words, MPI_UINT64_T, next, 0, r->inbox, words, MPI_UINT64_T, before, 0, team,
                         MPI_STATUS_IGNORE);
            finish(phases, COMMUNICATION, &last);
        }
        seconds += MPI_Wtime() - start;
    }
    return seconds;
}
