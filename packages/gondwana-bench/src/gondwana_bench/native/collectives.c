/* Collectives of doubles as an MPI programmer writes them. Every function makes a number of calls, one after the other,
 * and returns the seconds on this rank. */
#include <mpi.h>
#include <stdint.h>

double collectives_barrier(MPI_Fint communicator, int64_t calls)
{
    const MPI_Comm team = MPI_Comm_f2c(communicator);
    const double start = MPI_Wtime();
    for (int64_t i = 0; i < calls; i++)
        MPI_Barrier(team);
    return MPI_Wtime() - start;
}

double collectives_bcast(MPI_Fint communicator, double *data, int64_t count, int64_t calls)
{
    const MPI_Comm team = MPI_Comm_f2c(communicator);
    const double start = MPI_Wtime();
    for (int64_t i = 0; i < calls; i++)
        MPI_Bcast(data, (int)count, MPI_DOUBLE, 0, team);
    return MPI_Wtime() - start;
}

double collectives_allreduce(MPI_Fint communicator, double *data, int64_t count, int64_t calls)
{
    const MPI_Comm team = MPI_Comm_f2c(communicator);
    const double start = MPI_Wtime();
    for (int64_t i = 0; i < calls; i++)
        MPI_Allreduce(MPI_IN_PLACE, data, (int)count, MPI_DOUBLE, MPI_SUM, team);
    return MPI_Wtime() - start;
}
