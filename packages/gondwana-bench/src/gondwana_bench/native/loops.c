/* Loops that are no sweeps, as a C programmer writes them: the measure for ours.
 *
 * Compiled once as everything, and once with -ffast-math besides. The first argument counts rows, tiles or elements.
 */
#include <stddef.h>

#define TILE 32

/* y = A x, with sparse rows (compressed: row r has the entries from starts[r] to starts[r + 1]) */
void product(long rows, double *restrict y, const int *restrict starts, const int *restrict columns,
             const double *restrict values, const double *restrict x)
{
    for (long row = 0; row < rows; row++) {
        double sum = 0.0;
        for (long entry = starts[row]; entry < starts[row + 1]; entry++)
            sum += values[entry] * x[columns[entry]];
        y[row] = sum;
    }
}

/* b += a transposed, by tiles; arrays of Fortran order */
void transposition(long tiles, double *restrict b, const double *restrict a)
{
    const long side = tiles * TILE;
    for (long column = 0; column < side; column += TILE)
        for (long row = 0; row < side; row += TILE)
            for (long j = column; j < column + TILE; j++)
                for (long i = row; i < row + TILE; i++)
                    b[i + side * j] += a[j + side * i];
}

/* one atomic addition to a word of the table for each key */
void updates(long length, long *table, const long *restrict keys)
{
    for (long i = 0; i < length; i++)
        __atomic_fetch_add(table + keys[i], 1, __ATOMIC_RELAXED);
}

/* how many keys there are of each kind */
void histogram(long length, long *restrict counts, const int *restrict keys)
{
    for (long i = 0; i < length; i++)
        counts[keys[i]]++;
}

/* the sums of the numbers up to each */
void prefix(long length, double *restrict sums, const double *restrict x)
{
    double sum = 0.0;
    for (long i = 0; i < length; i++) {
        sum += x[i];
        sums[i] = sum;
    }
}

/* each element from those beside it, of the same array: the loop of the Parallel Research Kernels' p2p */
void wavefront(long side, double *a)
{
    for (long i = 1; i < side; i++)
        for (long j = 1; j < side; j++)
            a[i * side + j] = a[(i - 1) * side + j] + a[i * side + j - 1] - a[(i - 1) * side + j - 1];
}

/* the sum of the products, in the first element of out */
void dot(long length, double *restrict out, const double *restrict x, const double *restrict y)
{
    double sum = 0.0;
    for (long i = 0; i < length; i++)
        sum += x[i] * y[i];
    out[0] = sum;
}
