/* Stencil sweeps as a C programmer writes them: the measure for our kernels.
 *
 * Compiled once with -DREAL=double and once with -DREAL=float. Arrays hold nx*ny*nz cells and one ghost layer on every
 * side, x fastest. The threads divide the planes in z, the same way in every function, so the memory that a thread
 * touched first stays near it.
 *
 * Each plane is computed by a function of its own: its restrict parameters tell the compiler that rows do not overlap,
 * which it would forget about pointers captured by a parallel region.
 */
#include <stddef.h>

#ifndef REAL
#error "compile with -DREAL=double or -DREAL=float"
#endif

#define PLANE_FUNCTION static __attribute__((noinline)) void

PLANE_FUNCTION plane7(REAL *restrict out, const REAL *restrict in, long nx, long ny, REAL c0, REAL c1)
{
    const long row = nx + 2, plane = row * (ny + 2);
    for (long y = 1; y <= ny; y++) {
        const REAL *restrict p = in + y * row;
        REAL *restrict q = out + y * row;
        for (long x = 1; x <= nx; x++)
            q[x] = c0 * p[x] + c1 * (p[x - 1] + p[x + 1] + p[x - row] + p[x + row] + p[x - plane] + p[x + plane]);
    }
}

/* out = c0 * centre + c1 * (sum of the 6 face neighbours) */
void sweep7(REAL *restrict out, const REAL *restrict in, long nx, long ny, long nz, REAL c0, REAL c1, int threads)
{
    const long plane = (nx + 2) * (ny + 2);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (long z = 1; z <= nz; z++)
        plane7(out + z * plane, in + z * plane, nx, ny, c0, c1);
}

PLANE_FUNCTION plane27(REAL *restrict out, const REAL *restrict in, long nx, long ny,
                       REAL c0, REAL c1, REAL c2, REAL c3)
{
    const long row = nx + 2, plane = row * (ny + 2);
    for (long y = 1; y <= ny; y++) {
        const REAL *restrict p = in + y * row;
        REAL *restrict q = out + y * row;
        for (long x = 1; x <= nx; x++) {
            const REAL faces = p[x - 1] + p[x + 1] + p[x - row] + p[x + row] + p[x - plane] + p[x + plane];
            const REAL edges = p[x - row - 1] + p[x - row + 1] + p[x + row - 1] + p[x + row + 1]
                             + p[x - plane - 1] + p[x - plane + 1] + p[x + plane - 1] + p[x + plane + 1]
                             + p[x - plane - row] + p[x - plane + row] + p[x + plane - row] + p[x + plane + row];
            const REAL corners = p[x - plane - row - 1] + p[x - plane - row + 1]
                               + p[x - plane + row - 1] + p[x - plane + row + 1]
                               + p[x + plane - row - 1] + p[x + plane - row + 1]
                               + p[x + plane + row - 1] + p[x + plane + row + 1];
            q[x] = c0 * p[x] + c1 * faces + c2 * edges + c3 * corners;
        }
    }
}

/* out = c0 * centre + c1 * (6 faces) + c2 * (12 edges) + c3 * (8 corners) */
void sweep27(REAL *restrict out, const REAL *restrict in, long nx, long ny, long nz,
             REAL c0, REAL c1, REAL c2, REAL c3, int threads)
{
    const long plane = (nx + 2) * (ny + 2);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (long z = 1; z <= nz; z++)
        plane27(out + z * plane, in + z * plane, nx, ny, c0, c1, c2, c3);
}

PLANE_FUNCTION plane_gray_scott(REAL *restrict u_new, REAL *restrict v_new,
                                const REAL *restrict u, const REAL *restrict v, long nx, long ny,
                                REAL du, REAL dv, REAL feed, REAL kill, REAL dt)
{
    const long row = nx + 2, plane = row * (ny + 2);
    const REAL one = (REAL)1.0, six = (REAL)6.0, sixth = (REAL)(1.0 / 6.0);
    for (long y = 1; y <= ny; y++) {
        const REAL *restrict a = u + y * row, *restrict b = v + y * row;
        REAL *restrict p = u_new + y * row, *restrict q = v_new + y * row;
        for (long x = 1; x <= nx; x++) {
            const REAL lap_u = (a[x - 1] + a[x + 1] + a[x - row] + a[x + row] + a[x - plane] + a[x + plane]
                                - six * a[x]) * sixth;
            const REAL lap_v = (b[x - 1] + b[x + 1] + b[x - row] + b[x + row] + b[x - plane] + b[x + plane]
                                - six * b[x]) * sixth;
            const REAL reaction = a[x] * b[x] * b[x];
            p[x] = a[x] + dt * (du * lap_u - reaction + feed * (one - a[x]));
            q[x] = b[x] + dt * (dv * lap_v + reaction - (feed + kill) * b[x]);
        }
    }
}

/* One step of the Gray-Scott model without noise. */
void gray_scott(REAL *restrict u_new, REAL *restrict v_new, const REAL *restrict u, const REAL *restrict v,
                long nx, long ny, long nz, REAL du, REAL dv, REAL feed, REAL kill, REAL dt, int threads)
{
    const long plane = (nx + 2) * (ny + 2);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (long z = 1; z <= nz; z++)
        plane_gray_scott(u_new + z * plane, v_new + z * plane, u + z * plane, v + z * plane, nx, ny,
                         du, dv, feed, kill, dt);
}

PLANE_FUNCTION plane_gray_scott_one(REAL *restrict out, const REAL *restrict in, long nx, long ny,
                                    REAL du, REAL feed, REAL dt)
{
    const long row = nx + 2, plane = row * (ny + 2);
    const REAL one = (REAL)1.0, six = (REAL)6.0, sixth = (REAL)(1.0 / 6.0);
    for (long y = 1; y <= ny; y++) {
        const REAL *restrict a = in + y * row;
        REAL *restrict p = out + y * row;
        for (long x = 1; x <= nx; x++) {
            const REAL lap = (a[x - 1] + a[x + 1] + a[x - row] + a[x + row] + a[x - plane] + a[x + plane]
                              - six * a[x]) * sixth;
            p[x] = a[x] + dt * (du * lap + feed * (one - a[x]));
        }
    }
}

/* The same of U alone, without the reaction. */
void gray_scott_one(REAL *restrict u_new, const REAL *restrict u, long nx, long ny, long nz,
                    REAL du, REAL feed, REAL dt, int threads)
{
    const long plane = (nx + 2) * (ny + 2);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (long z = 1; z <= nz; z++)
        plane_gray_scott_one(u_new + z * plane, u + z * plane, nx, ny, du, feed, dt);
}

/* Copy one array of the sweeps' shape into another, ghosts included: also what touches new memory first. */
void copy(REAL *restrict out, const REAL *restrict in, long nx, long ny, long nz, int threads)
{
    const long plane = (nx + 2) * (ny + 2);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (long z = 1; z <= nz; z++) {
        const long first = z == 1 ? 0 : z * plane, last = z == nz ? (nz + 2) * plane : (z + 1) * plane;
        for (long i = first; i < last; i++)
            out[i] = in[i];
    }
}

/* out = a + s * b over whole arrays: the bandwidth that a sweep can hope for. */
void triad(REAL *restrict out, const REAL *restrict a, const REAL *restrict b, REAL s, long n, int threads)
{
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (long i = 0; i < n; i++)
        out[i] = a[i] + s * b[i];
}
