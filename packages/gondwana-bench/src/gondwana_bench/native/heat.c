/* Heat conduction with two-sided messages, as an MPI programmer writes it: pack, Irecv, Isend, Waitall, unpack, sweep.
 *
 * Blocks have one ghost on every side; z is contiguous. A box is six numbers: lower corner x, y, z, upper corner.
 * See gondwana_apps/heat/kernels.py for the equation.
 */
#define _POSIX_C_SOURCE 199309L
#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

typedef struct {
    double dt, q, sigma, P;
} Rates;

/* The place of a cell in a block whose box, ghosts included, is `held`. */
static inline int64_t at(const int64_t held[6], int64_t x, int64_t y, int64_t z)
{
    return ((x - held[0]) * (held[4] - held[1]) + y - held[1]) * (held[5] - held[2]) + z - held[2];
}

/* One time step of a part of the block; returns the sum of T over it. A neighbour that is not there has the temperature
 * of the cell itself: along x and y by reading its own row, along z by a factor of 0.0. Never inlined: for all callers
 * it is the same machine code. The compiler may reorder the sums, so that the loop over z becomes one of vectors.
 */
static __attribute__((noinline)) double sweep(double *restrict next, const double *restrict T, const int64_t held[6],
                                              const int64_t box[6], const int64_t part[6], Rates k)
{
    const int64_t dy = held[5] - held[2], dx = dy * (held[4] - held[1]), length = part[5] - part[2];
    double front[length], back[length], ends[length];
    for (int64_t z = 0; z < length; z++) {
        front[z] = part[2] + z > box[2];
        back[z] = part[2] + z < box[5] - 1;
        ends[z] = 2.0 - (front[z] + back[z]);
    }
    double total = 0.0;
    for (int64_t x = part[0]; x < part[3]; x++)
        for (int64_t y = part[1]; y < part[4]; y++) {
            const int has_left = x > box[0], has_right = x < box[3] - 1, has_down = y > box[1], has_up = y < box[4] - 1;
            const double *restrict row = T + at(held, x, y, part[2]);
            const double *left = has_left ? row - dx : row, *right = has_right ? row + dx : row;
            const double *down = has_down ? row - dy : row, *up = has_up ? row + dy : row;
            double *restrict out = next + at(held, x, y, part[2]);
            const double power = has_left ? 0.0 : k.P, sides = 4 - (has_left + has_right + has_down + has_up);
            for (int64_t z = 0; z < length; z++) {
                const double here = row[z], outer = sides + ends[z];
                const double flow = left[z] + right[z] + down[z] + up[z] - 4.0 * here
                                  + front[z] * (row[z - 1] - here) + back[z] * (row[z + 1] - here);
                const double rate = k.q * flow + power - k.sigma * outer * (here * here) * (here * here);
                out[z] = here + k.dt * rate;
                total += here;
            }
        }
    return total;
}

/* The sweep for other programs: constants one by one. */
double heat_sweep(double *next, const double *T, const int64_t *held, const int64_t *box, const int64_t *part,
                  double dt, double q, double sigma, double P)
{
    return sweep(next, T, held, box, part, (Rates){dt, q, sigma, P});
}

static int64_t cells(const int64_t box[6])
{
    return (box[3] - box[0]) * (box[4] - box[1]) * (box[5] - box[2]);
}

static void pack(double *buffer, const double *T, const int64_t held[6], const int64_t box[6])
{
    for (int64_t x = box[0]; x < box[3]; x++)
        for (int64_t y = box[1]; y < box[4]; y++)
            for (int64_t z = box[2]; z < box[5]; z++)
                *buffer++ = T[at(held, x, y, z)];
}

static void unpack(const double *buffer, double *T, const int64_t held[6], const int64_t box[6])
{
    for (int64_t x = box[0]; x < box[3]; x++)
        for (int64_t y = box[1]; y < box[4]; y++)
            for (int64_t z = box[2]; z < box[5]; z++)
                T[at(held, x, y, z)] = *buffer++;
}

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Do steps 0 to `steps` - 1, the mean reduced in each of them. Collective over the communicator.
 *
 * `even` and `odd` are blocks on `held`, before even and odd steps. For each of `count` neighbours there are its rank,
 * the box of `cells_of` to send and the box of `ghosts_of` to receive. Writes the nanoseconds of each step, and the
 * sums of the temperature before it over all ranks.
 */
void heat_run(MPI_Fint communicator, double *even, double *odd, const int64_t *held, const int64_t *owned,
              const int64_t *box, int64_t count, const int64_t *ranks, const int64_t *cells_of,
              const int64_t *ghosts_of, int64_t steps, int64_t half, double dt, double q, double sigma, double P,
              int64_t *nanoseconds, double *sums)
{
    const MPI_Comm comm = MPI_Comm_f2c(communicator);
    MPI_Request *requests = malloc((2 * count + 1) * sizeof *requests);
    double **out = malloc((count + 1) * sizeof *out), **in = malloc((count + 1) * sizeof *in);
    for (int64_t n = 0; n < count; n++) {
        out[n] = malloc(sizeof(double) * cells(cells_of + 6 * n));
        in[n] = malloc(sizeof(double) * cells(cells_of + 6 * n));
    }
    int64_t start = now();
    for (int64_t step = 0; step < steps; step++) {
        double *T = step % 2 ? odd : even, *next = step % 2 ? even : odd;
        for (int64_t n = 0; n < count; n++)
            MPI_Irecv(in[n], (int)cells(ghosts_of + 6 * n), MPI_DOUBLE, (int)ranks[n], 1, comm, &requests[n]);
        for (int64_t n = 0; n < count; n++) {
            pack(out[n], T, held, cells_of + 6 * n);
            MPI_Isend(out[n], (int)cells(cells_of + 6 * n), MPI_DOUBLE, (int)ranks[n], 1, comm, &requests[count + n]);
        }
        MPI_Waitall((int)(2 * count), requests, MPI_STATUSES_IGNORE);
        for (int64_t n = 0; n < count; n++)
            unpack(in[n], T, held, ghosts_of + 6 * n);
        double sum = sweep(next, T, held, box, owned, (Rates){dt, q, sigma, step <= half ? P : 0.0});
        MPI_Allreduce(&sum, &sums[step], 1, MPI_DOUBLE, MPI_SUM, comm);
        const int64_t end = now();
        nanoseconds[step] = end - start;
        start = end;
    }
    for (int64_t n = 0; n < count; n++) {
        free(out[n]);
        free(in[n]);
    }
    free(out);
    free(in);
    free(requests);
}
